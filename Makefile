# fold.h is one header: there is nothing to build to use it. These targets run its demo, examples and tests.

CC ?= cc
CFLAGS ?= -O2
EXAMPLES = agents char_lm export forage game_jobs hello listops mnist molecules mpi_sick notebook parity plan policy ppo replay robot_arm rounds save shift_reduce speech swarm torch train transformer treelstm_sick treelstm_sst
CPP_EXAMPLES = agents_cpp cartpole
CXX ?= c++
MPICC ?= mpicc
MPIRUN ?= mpirun --allow-run-as-root --oversubscribe

.PHONY: demo examples web release test accuracy test-all sanitize check-style renew coverage soak sizes bench frame bench-study bench-programs bench-peers bench-results mpi clean

demo: build/listops
	./build/listops

examples: $(EXAMPLES:%=build/%) $(CPP_EXAMPLES:%=build/%) build/firmware

build/%: examples/%.c examples/data.h examples/fold_draw.h examples/fold_fit.h examples/fold_onnx.h examples/fold_onnx_ops.h examples/fold_record.h examples/fold_rl.h examples/fold_to_c.h examples/fold_torch.h examples/options.h examples/unfused.h fold.h
	@mkdir -p build
	$(CC) $(CFLAGS) -o $@ $< -lm $(THREADS)

build/forage build/game_jobs build/mpi_sick build/ppo build/train: THREADS = -lpthread
build/export: examples/policy.h

# Reads weights in place, from an array that export made.
build/policy_weights.h: build/export
	./build/export --out $@
build/firmware: examples/firmware.c examples/policy.h build/policy_weights.h fold.h
	$(CC) $(CFLAGS) -Ibuild -DWEIGHTS -o $@ $< -lm

build/%: examples/%.cpp examples/options.h examples/fold_rl.h examples/unfused.h fold.h
	@mkdir -p build
	@if $(CXX) --version >/dev/null 2>&1; then set -x; $(CXX) -std=c++20 $(CFLAGS) -fno-exceptions -fno-rtti -o $@ $<; \
	else echo "SKIPPED: $@ (no C++ compiler $(CXX))"; fi

# A folder of pages, build/site, which any static host serves and any browser opens from disk. Each page is one file,
# examples/web/NAME.html with its program examples/web/NAME.c as WebAssembly. Debian's clang, lld, wasi-libc and
# libclang-rt-dev-wasm32 make them; the swarm's network learns for half a minute before. SWARM: options of the program
# that teaches it.
WASM_CC ?= clang --target=wasm32-wasi
WASM_FLAGS = -O2 -msimd128 -fdata-sections
SITE = index learn playground policy swarm
SHOWN = hello.c web/learn.c web/policy.c web/swarm.c train.c swarm.c policy.c fold_onnx.h fold_onnx_ops.h fold_rl.h fold_to_c.h web/playground.c web/trees.c web/lists.c web/agents.c fold_draw.h
web: $(SITE:%=build/site/%.html) $(SHOWN:%=build/site/source/%.html)

WEB_NEEDS = install clang, lld, wasi-libc and libclang-rt-dev-wasm32 (names of Debian packages), or name another compiler by WASM_CC
build/web/fold.o: fold.h
	@mkdir -p build/web
	@printf '#include <math.h>\nint main(void) { return (int)sqrt(2.0); }\n' >build/web/test.c; \
	$(WASM_CC) -o build/web/test build/web/test.c -lm >build/web/log 2>&1 || { cat build/web/log; echo "make web: no WebAssembly can be made by '$(WASM_CC)': $(WEB_NEEDS)"; exit 1; }
	printf '#define FOLD_IMPLEMENTATION\n#include "fold.h"\n' >build/web/fold.c
	$(WASM_CC) $(WASM_FLAGS) -I. -c -o $@ build/web/fold.c

# A page's program without the implementation of fold.h, which is compiled once for all.
build/web/%.wasm: examples/web/%.c build/web/fold.o examples/options.h examples/unfused.h
	$(WASM_CC) -mexec-model=reactor $(WASM_FLAGS) -DFOLD__IMPLEMENTED -D_WASI_EMULATED_PROCESS_CLOCKS -Wl,--strip-all,--stack-first,-z,stack-size=262144 -o $@ $< build/web/fold.o -lwasi-emulated-process-clocks -lm
build/web/policy.wasm: examples/policy.c examples/fold_onnx.h examples/fold_onnx_ops.h examples/fold_to_c.h
build/web/swarm.wasm: examples/swarm.c examples/web/network_file.h
build/web/learn.wasm: examples/train.c examples/fold_rl.h examples/web/network_file.h
build/web/playground.wasm: examples/web/trees.c examples/web/lists.c examples/web/agents.c examples/fold_draw.h

build/web/%.base64: build/web/%
	gzip -9nc $< | base64 >$@

build/site/%.html: examples/web/%.html examples/web/nav.html examples/web/style.css examples/web/site.js examples/web/page.awk
	@mkdir -p build/site
	awk -f examples/web/page.awk $< >$@.new && mv $@.new $@
build/site/learn.html: build/web/learn.wasm.base64 build/web/learn.native
build/site/playground.html: build/web/playground.wasm.base64 examples/web/trees.c examples/web/lists.c examples/web/agents.c
build/site/policy.html: build/web/policy.wasm.base64
build/site/swarm.html: build/web/swarm.wasm.base64 build/web/swarm.safetensors.base64

# What native programs learn. They share one object of the implementation, too.
build/web/native.o: fold.h
	@mkdir -p build/web
	printf '#define FOLD_IMPLEMENTATION\n#include "fold.h"\n' >build/web/native.c
	$(CC) $(CFLAGS) -DFOLD_USE_THREADS -I. -c -o $@ build/web/native.c
NATIVE = build/web/native_swarm build/web/native_train
$(NATIVE): build/web/native_%: examples/%.c build/web/native.o examples/fold_rl.h examples/options.h examples/unfused.h
	$(CC) $(CFLAGS) -DFOLD__IMPLEMENTED -o $@ $< build/web/native.o -lm -lpthread
build/web/swarm.safetensors: build/web/native_swarm
	./build/web/native_swarm --frames 1 $(SWARM) --save $@
build/web/learn.native: build/web/native_train
	./build/web/native_train --isa portable >$@

# The C behind the pages, to be read in a browser: source/train.c.html#L12 is a line, #update a function.
build/site/source/%.html: examples/% examples/web/source.html examples/web/style.css examples/web/page.awk
	@mkdir -p $(@D)
	awk -v source=$< -f examples/web/page.awk examples/web/source.html >$@.new && mv $@.new $@

# A release in build: archives with what PlatformIO, Arduino and ESP-IDF want to know, and notes with the commit. It has
# the site if `make web` built that before. URL: the project's address; MAINTAINER: a name and e-mail address.
OUT ?= build
PAGES ?= build/site
POLICY ?= build/policy
MAINTAINER ?= the fold.h authors
release: $(POLICY)
	@mkdir -p $(OUT)
	@cd $(OUT) && $(abspath $(POLICY)) --c network.h >policy.log || { cat policy.log; exit 1; }
	@[ $(PAGES) != build/site ] || [ ! -d build/site ] || $(MAKE) -sq web || \
	    echo "NOT A RELEASE: build/site is older than its sources: make web builds it anew"
	@python3 tests/release.py --out $(OUT) --site $(PAGES) --network $(abspath $(OUT)/network.h) --url "$(URL)" --maintainer "$(MAINTAINER)"

# Needs cc alone, and takes three minutes on 2 processors. What is missing is skipped, and said so.
test:
	@CC="$(CC)" CXX="$(CXX)" CFLAGS="$(CFLAGS)" sh tests/run

# How far every op was from its reference at worst, of what fold.h allows it, in 2000 random sessions.
accuracy:
	@mkdir -p build
	$(CC) $(CFLAGS) -o build/accuracy tests/test_sessions.c -lm
	./build/accuracy --sessions 0 --reference 2000 --accuracy

# All the rest: compilers, languages, sanitizers, hostile files, other machines. A table at the end says what ran.
test-all:
	@CC="$(CC)" CXX="$(CXX)" CFLAGS="$(CFLAGS)" sh tests/all

# The tests again under AddressSanitizer and UndefinedBehaviorSanitizer, in a build whose arrays move at every request.
sanitize:
	@CC="$(CC)" CXX="$(CXX)" CFLAGS="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover -DFOLD__MOVE_ARRAYS=1" sh tests/run

# How fold.h is written. `python3 tests/check_style.py --fix` writes what a program can, --list names what is left.
check-style:
	python3 tests/check_style.py

# Writes the golden numbers, examples/CALLS.md and the pictures of examples/plan.c anew, after a change of fold.h that is meant.
renew:
	@CC="$(CC)" sh tests/renew

# What of fold.h the tests run, by gcc and gcov, in some minutes.
coverage:
	CC=gcc python3 tests/coverage.py

# Swarms of ever changing sizes in a fixed block of memory, for SECONDS: nothing may grow, and bits are those of an eager context.
SECONDS ?= 600
soak: build/swarm
	./build/swarm --soak $(SECONDS)

# What the defines of a small build save, in bytes of a program that runs one network, and in seconds.
sizes:
	@CC="$(CC)" sh tests/sizes

bench/bench: bench/bench.c bench/side.h bench/export.h bench/workloads.h bench/manual.h bench/gemm.h bench/attention.h bench/decode.h bench/frame.h bench/peak.h bench/policy.c bench/policy.h examples/options.h examples/fold_rl.h fold.h
	@mkdir -p build
	$(CC) -O3 -march=native -c -o build/policy.o bench/policy.c
	$(CC) $(CFLAGS) -o bench/bench bench/bench.c build/policy.o -lm -lpthread

# All workloads, quickly. Options of its own: bench/bench --help
bench: bench/bench
	bench/bench

bench/study: bench/study.c bench/side.h bench/workloads.h bench/manual.h bench/policy.h bench/peak.h examples/data.h examples/options.h examples/fold_rl.h fold.h
	$(CC) $(CFLAGS) -o bench/study bench/study.c -lm -lpthread

# A game's frame and a robot's step, beside plain C: median, tail and worst.
frame: bench/bench
	bench/bench --frames 3000

bench/literature: bench/literature.c examples/options.h fold.h
	$(CC) $(CFLAGS) -o bench/literature bench/literature.c -lm

# Real trees (FOLD_DATA names their folder) at all batch sizes: bench/STUDY.md and bench/study.svg. All pages of figures are written by
# bench/figures.py, which keeps in build/figures what was printed: `python3 bench/figures.py study --kept` writes a page again.
bench-study: bench/study bench/literature bench/bench
	python3 bench/figures.py study

# The examples at full settings (FOLD_DATA names the folder of real data): bench/log/PROGRAMS.md.
bench-programs: examples bench/bench
	python3 bench/figures.py programs

# Beside PyTorch, and policies beside ONNX Runtime (ONNXRUNTIME names its folder), in alternation on the same machine, an hour for all. PEERS: options, such as --workload gru --batch 32
bench-peers: bench/bench
	sh bench/peers/run $(PEERS)
	sh bench/peers/onnx

# Beside DyNet (DYNET names a clone of it, which is built in ten minutes), by turns: a section of bench/STUDY.md. For single rows, call
# bench/peers/dynet.py.
bench-dynet: bench/bench
	python3 bench/figures.py dynet

# Writes bench/log/RESULTS.md from what bench/bench and bench/peers/run print here.
bench-results: bench/bench
	python3 bench/figures.py results

# Training on 2, 3 and 4 ranks, to the parameters of one process with as many shards, whichever way gradients of words travel.
# MPI_SICK: options of the program.
mpi: build/mpi_sick
	$(MPICC) $(CFLAGS) -DUSE_MPI -o build/mpi_sick_ranks examples/mpi_sick.c -lm -lpthread
	@for n in 2 3 4; do \
	    one=$$(./build/mpi_sick --shards $$n $(MPI_SICK)) || exit 1; echo "$$one"; \
	    hash=$${one##*hash=}; \
	    for way in rows table; do \
	        many=$$($(MPIRUN) -np $$n ./build/mpi_sick_ranks --exchange $$way $(MPI_SICK)) || exit 1; echo "$$many"; \
	        case "$$many" in *"ranks=$$n "*"hash=$${hash%% *} same=1"*) ;; *) echo "$$n ranks: other parameters"; exit 1 ;; esac; \
	    done; \
	done

clean:
	rm -rf build bench/bench bench/literature bench/study
