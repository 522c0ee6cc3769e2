# fold.h is one header: there is nothing to build to use it. These targets run its demo, examples and tests.

CC ?= cc
CFLAGS ?= -O2
EXAMPLES = hello hello_shared listops treelstm_sick treelstm_sst

.PHONY: demo examples test sanitize clean

demo: build/listops
	./build/listops

examples: $(EXAMPLES:%=build/%)

build/%: examples/%.c fold.h
	@mkdir -p build
	$(CC) $(CFLAGS) -o $@ $< -lm

test:
	CC="$(CC)" CFLAGS="$(CFLAGS)" sh tests/run

# The tests again under AddressSanitizer and UndefinedBehaviorSanitizer.
sanitize:
	CC="$(CC)" CFLAGS="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover" sh tests/run quick

clean:
	rm -rf build
