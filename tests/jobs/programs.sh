# What make test compiles but the examples: the implementation, test programs, fold.h's own programs, the
# bench.

# -- the implementation, once for all that link it -----------------------------------------------------
sharing="-DFOLD__SHARED_WORK=500 -DFOLD__LONG_LIST=2" # small batches and short lists go to threads

implementation() { # build/fold.o, with the test of its kernels; build/kernels says which those are
    if sanitizing; then ways="-DFOLD_USE_THREADS $sharing"; else ways=; fi
    rm -f build/fold.o
    step "the implementation compiles" host kernels build/fold.o $CC $CFLAGS $(own_warnings) $ways || return
    compiled kernels $CC $CFLAGS $declarations -I. -o build/kernels tests/programs/kernels.c build/fold.o \
        -lm -lpthread || return
    [ -z "${KERNELS:-}" ] ||
        step "programs run on $KERNELS kernels: $(build/kernels)" test "$(build/kernels)" = "$KERNELS"
}
bench_objects() { # build/second.o, with the bench, and what stands beside it
    if sanitizing; then ways=; else ways=$sharing; fi
    rm -f build/second.o
    step "the bench compiles without warnings $ways" compile_bench_objects $ways
}
short_blocks() { # build/short_blocks.o: sums of few rows have several blocks
    step "the implementation compiles with short blocks" $CC $CFLAGS -O1 -std=c99 -DFOLD_USE_THREADS $sharing \
        -DFOLD__BLOCK_ROWS=16 -I. -c -o build/short_blocks.o tests/programs/implementation.c
}
compile_bench_objects() { # flags…; by_hand.o is what the bench has by hand, rl.o is for programs without it
    set -- $CC $CFLAGS -O1 -std=c99 $(own_warnings) "$@" -I. -c -o
    "$@" build/second.o -Dmain=hosted_main -DRL_ELSEWHERE bench/bench.c &&
        "$@" build/by_hand.o bench/policy.c && "$@" build/rl.o tests/programs/rl.c
}

# A source's own cc line, linked to an implementation that was compiled for others: one that shares small
# batches out among threads, one apart that does not, one that also has short blocks, or any. Under sanitizers
# nearly all programs take what is shared out, and it is the first; else it is the second.
linked() { # any, sharing, apart or blocks; source
    objects=build/fold.o
    case $1 in
    sharing) sanitizing || objects="build/second.o build/by_hand.o" ;;
    blocks) objects=build/short_blocks.o ;;
    apart) ! sanitizing || objects="build/second.o build/by_hand.o" ;;
    esac
    case $objects in
    *second*) grep -q 'define FOLD_RL_IMPLEMENTATION' "$2" || objects="$objects build/rl.o" ;;
    esac
    own_line "$2" "$(level "$2") $declarations" "$objects -lpthread"
}

# -- test programs -----------------------------------------------------------------------------------
# Compiled whole, at -O0, are programs that use private functions (fold__, FOLD__), that stand between the
# library and the disk or its locks, or that test the including itself.
tested() { # any, sharing, apart, blocks or whole; tests/NAME.c, by its cc line; its arguments
    how=$1 name=$2 source=tests/$2.c; shift 2
    case $how in
    whole) line=$(own_line "$source" -O0) ;;
    any)
        ! grep -q 'define FOLD__' "$source" ||
            { result "$source sets FOLD__… for the implementation: name it in tests/jobs.txt" 1; return; }
        line=$(linked any "$source")
        ;;
    *) line=$(linked "$how" "$source") ;;
    esac
    [ -n "$line" ] || { result "$source has no cc line" 1; return; }
    compiled "$name" sh -c "$line" && counted "$name" "./build/$name" "$@"
}
kernels() { # arguments: what the implementation was compiled with
    compiled test_kernels \
        $CC $CFLAGS -o build/test_kernels tests/programs/main.c build/fold.o -lm -lpthread &&
        counted test_kernels ./build/test_kernels "$@"
}
files() { # Python writes some of what test_files reads, and reads what it writes
    needs "safetensors files written and checked by Python" python3 || { tested whole test_files; return; }
    step "Python writes safetensors" python3 tests/check_safetensors.py write build
    tested whole test_files
    set --
    for each in plain state none bytes; do set -- "$@" "build/files_$each.safetensors"; done
    step "safetensors files keep the format's rules" python3 tests/check_safetensors.py check "$@"
}
hostile() { # program, what it does, runs: files that lie, and programs of bytes
    compiled "$1" $CC $CFLAGS $declarations -o "build/$1" "tests/$1.c" build/fold.o -lm -lpthread &&
        step "$2" "./build/$1" --runs "$3" && step "$1 refuses --seed 1x" refuses "./build/$1"
}

# -- what examples/fold_to_c.h prints -----------------------------------------------------------------------
printed() { # eight networks, some random recordings
    tested any test_to_c || return
    step "eight networks are printed" ./build/test_to_c --write build/printed_eight.c
    step "random recordings are printed" ./build/test_to_c --write build/printed_random.c 0 30
    for file in build/printed_eight.c build/printed_random.c; do
        printed_c $file $CC $CFLAGS
        # portable kernels round products and sums apart, as printed code does only without multiply-adds
        [ "${KERNELS:-}" = portable ] || printed_c $file $CC $CFLAGS -march=native
    done
}
printed_policies() { # each of FOLD_POLICIES as C: the digits that it gives itself
    [ -n "${FOLD_POLICIES:-}" ] || { skip "policies as C" "FOLD_POLICIES names no folder"; return; }
    compiled policy sh -c "$(bin=$out linked any examples/policy.c)" || return
    for model in "$FOLD_POLICIES"/*/*.onnx; do
        step "as C, the same digits: $(basename "$(dirname "$model")")" same_actions "$model" 32 $(native)
    done
    for name in mlagents-PushBlockCollab mlagents-Hallway; do # filters; an LSTM
        step "as C in bytes, the same digits: $name" same_actions "$FOLD_POLICIES/$name/"*.onnx 8 $(native)
    done
}
same_actions() { # policy.onnx, bits of weights, more flags
    model=$1 bits=$2; shift 2
    "$out/policy" "$model" --quantize "$bits" --c "$out/policy.c" &&
        awk -f tests/jobs/main_of_policy.awk "$out/policy.c" >"$out/main.c" || return
    awk 'BEGIN { srand(3); for (i = 0; i < 20000; i++) printf "%.4f\n", rand() * 2 - 1 }' >"$out/in.csv"
    $CC $CFLAGS "$@" $warnings -o "$out/main" "$out/main.c" &&
        "$out/main" <"$out/in.csv" >"$out/printed.csv" &&
        "$out/policy" "$model" --quantize "$bits" --in "$out/in.csv" --out "$out/out.csv" >"$out/said" &&
        sed 's/,$//' "$out/printed.csv" | cmp - "$out/out.csv"
}

# -- programs in the comments of fold.h and on pages -----------------------------------------------------
pages() { FOLD_OBJECT=$PWD/build/fold.o counted "README, $1" sh tests/readme "$1"; } # part of tests/readme
difference() { # what CONTRIBUTING.md has for a difference between eager and batched; here there is none
    linked_to build/fold.o difference tests/programs/difference.c && step "difference finds none" "$out/difference"
}
synopsis() { # at the head of fold.h, and the op of its section 15
    sed -n '/^    #define FOLD_IMPLEMENTATION/,/^    }$/p' fold.h | sed 's/^    //' >"$out/synopsis.c"
    sed -n -e '/^    static const char \*round_infer/,/^    }$/p' \
        -e '/^    static .* round_[fbn]/,/^    }$/p' fold.h | sed 's/^    //' >"$out/own_op.h"
    set -- $CC $CFLAGS $declarations -I. "-I$out" -o
    step "the synopsis compiles" "$@" "$out/synopsis" "$out/synopsis.c" build/fold.o -lm -lpthread
    step "the op of section 15 compiles" "$@" "$out/own_op" tests/programs/own_op.c build/fold.o -lm -lpthread
    step "the op of section 15 rounds" "$out/own_op"
    step "the synopsis learns" sh -c "$out/synopsis | awk '{ loss = \$2 } END { exit !(loss < 0.1) }'"
}

# -- warnings and C++, as far as a syntax check shows them -----------------------------------------------
windows="-DIN= -DOUT= -Dfar= -Dnear= -DCONST=const -Dsmall=char -Dinterface=struct"
windows="$windows -Dmax(a,b)=((a)>(b)?(a):(b)) -Dmin(a,b)=((a)<(b)?(a):(b))"
companions="fold_draw.h, fold_fit.h, fold_onnx.h, fold_record.h, fold_rl.h and fold_torch.h"
no_warnings() { # others in tests/all
    [ -n "$(own_warnings)" ] || { skip "warnings" "$CC has no -fsyntax-only"; return; }
    for d in "" "$smallest"; do
        step "no warnings in C99 $d" $CC -std=c99 $warnings $d -I. -fsyntax-only $implementation
    done
    step "behind the macros of leak checkers" $CC -D_GNU_SOURCE $warnings -I. -fsyntax-only \
        tests/programs/leak_macros.c
    step "behind the macros of windows.h" $CC -std=c99 $warnings -include stdlib.h -include math.h $windows \
        -I. -fsyntax-only $implementation
    for d in "" -DFOLD_INFERENCE -DFOLD_NO_STDIO -DFOLD_NO_TEXT "$smallest"; do
        step "$companions, no warnings in C99 $d" $CC -std=c99 $warnings $d $declarations -I. \
            -fsyntax-only tests/programs/companions.c
    done
}
cpp() {
    has_cpp "C++" "" || return
    step "no warnings in c++17" $CXX -x c++ -std=c++17 $warnings -I. -fsyntax-only $implementation
    step "$companions, no warnings in c++17" $CXX -x c++ -std=c++17 $warnings $declarations -I. \
        -fsyntax-only tests/programs/companions.c
}

# -- the bench ---------------------------------------------------------------------------------------
bench() {
    step "the bench links" link_bench build/bench || return
    for w in treelstm-sick treelstm-sst lstm-lm gru mnist-mlp frame graph transformer ppo; do
        step "bench $w: checksums" same_checksums --workload $w --hidden 24 --input 16 --vocabulary 200
    done
    by_hand="./build/bench --schedule manual --seconds 0.02 --workload"
    step "bench frame: values by hand" $by_hand frame --mode infer
    for w in treelstm-sick treelstm-sst chain; do
        step "bench $w: gradients by hand" $by_hand $w --hidden 24 --input 16 --batch 4
    done
    keys="RESULT frame agents_p50_us= agents_p99_us= agents_by_hand_us= robot1_over_hand= robot4_over_hand="
    step "bench, frames" ends_with_result "./build/bench --frames 20" \
        "$keys allocations=$(sanitizing || echo 0) slice_over_us="
    step "bench policy: values by hand" $by_hand policy --batch 4
    step "bench: the processor's clock alone times all stages" processor_alone
    needs "BLAS libraries are told apart" python3 &&
        step "BLAS libraries are told apart" python3 -m doctest bench/peers/blas.py
}
link_bench() { # program, more sources
    made=$1; shift
    $CC $CFLAGS -o "$made" tests/programs/main.c "$@" build/second.o build/by_hand.o build/rl.o -lm -lpthread
}
processor_alone() { # where the wall clock is a second later whenever it is asked
    link_bench "$out/bench" tests/programs/wall_clock.c || return
    "$out/bench" --clock processor --workload treelstm-tiny --batch 64 --seconds 0.02 --json >"$out/stages"
    sed -n 's/.*"ns_per_unit":\([0-9.]*\).*"schedule_ns_per_unit":\([0-9.]*\).*/\1 \2/p' "$out/stages" |
        awk '{ planned = $2 > 0 && $2 < $1 } END { exit !planned }' || { cat "$out/stages"; return 1; }
}
same_checksums() { # bench options: the same bits by every schedule, and in a block of the measured size
    for s in ratio "ratio --block on" depth agenda eager; do
        [ "$s" != depth ] || ! sanitizing || break # these differ in bits alone
        ./build/bench "$@" --schedule $s --batch 8 --seconds 0.02 --json |
            sed -n 's/.*"checksum":"\([0-9a-f]*\)".*/\1/p' >"$out/sum"
        [ -s "$out/sum" ] || return 1
        [ "$s" = ratio ] && cp "$out/sum" "$out/first"
        cmp "$out/first" "$out/sum" || { echo "$s differs: $*"; return 1; }
    done
}
