# fold.h in libraries, beside libraries, under threads and on pages; mutants, longer forms of tests, the
# source itself.

all_objects() { # $bin/fold.o, for jobs of tests/all that need no other compiler
    step "the implementation compiles" \
        $CC $CFLAGS -DFOLD_USE_THREADS -DFOLD__SHARED_WORK=500 -I. -c -o "$bin/fold.o" $implementation
}
script() { # name, command…: a program of tests that prints its own counts
    counted "$@" && sed "\$d" "$out/output"
}

# -- fold.h in libraries -------------------------------------------------------------------------------
exports() { # the user's FOLD_API stands before every public function
    step "a shared library" $CC -O0 -fPIC -shared -fvisibility=hidden \
        '-DFOLD_API=__attribute__((visibility("default")))' -I. -o "$out/libfold.so" $implementation -lm
    step "FOLD_API exports every public function" sh -c "
        $CC -E fold.h | grep -c '^extern .*fold_' >$out/declared &&
        nm -D --defined-only $out/libfold.so | grep -c ' T fold_' >$out/exported &&
        cmp $out/declared $out/exported"
}
two_libraries() { # compiler: each calls its own fold.h; without training, initial values are zeros
    for each in "first " "second -DFOLD_INFERENCE"; do
        compiled "a library by $1, $each" "$1" -O0 -fPIC -shared -DVALUE=$each -DFOLD_ONLY_PORTABLE -I. \
            -o "$out/lib${each%% *}.so" tests/programs/library.c -lm || return
    done
    printf 'float first(void), second(void);\nint main(void) { return first() == 0 || second() != 0; }\n' \
        >"$out/both.c"
    compiled "two libraries by $1" \
        "$1" -o "$out/both" "$out/both.c" -L"$out" -lfirst -lsecond "-Wl,-rpath,$out" &&
        step "two shared libraries by $1 call their own" "$out/both"
}
static_include() {
    step "FOLD_STATIC in another file" \
        $CC $CFLAGS -O0 -DFOLD_STATIC -c -o "$out/other.o" tests/test_include_other.c
    program test_include_static $CC $CFLAGS -O0 tests/test_include.c "$out/other.o" -lm
}
include_cpp() {
    has_cpp "two files in C++" "" && program test_include_cpp \
        $CXX -x c++ -std=c++17 -O0 tests/test_include.c tests/test_include_other.c -lm
}

# -- beside libraries ----------------------------------------------------------------------------------
cblas() { # any library that has it
    printf '#include <cblas.h>\nint main(void) { return (int)cblas_sdot(0, 0, 1, 0, 1); }\n' >"$out/cblas.c"
    for library in -lopenblas -lblas -lcblas ""; do
        [ -n "$library" ] || { skip "cblas" "no cblas.h with a library that links"; return; }
        $CC -o "$out/cblas" "$out/cblas.c" $library >/dev/null 2>&1 && break
    done
    compiled kernels_cblas host kernels "$out/cblas.o" $CC $CFLAGS -DFOLD_USE_CBLAS || return
    step "kernels with cblas link" $CC -o "$out/kernels" tests/programs/main.c "$out/cblas.o" $library -lm &&
        counted kernels_cblas "$out/kernels" short
    step "hello with cblas compiles" \
        $CC $declarations -o "$out/hello" examples/hello.c "$out/cblas.o" $library -lm
    step "hello with cblas learns" sh -c "$out/hello | awk '{ loss = \$4 } END { exit !(loss < 0.2) }'"
}
ranks() {
    step "mpi_sick: ranks train to the bits of one process" make mpi CC="$CC" \
        CFLAGS="$CFLAGS -O0 -DFOLD_ONLY_PORTABLE" MPI_SICK="--pairs 150 --hidden 12 --epochs 1"
}
races() { # nothing is written by two threads, or by one while another reads it
    watched="$CC -O1 -g1 -fsanitize=thread -DFOLD__SHARED_WORK=4000"
    makes_programs $watched || { skip "threads under ThreadSanitizer" "$CC has none"; return; }
    export TSAN_OPTIONS=halt_on_error=1:exitcode=66
    compiled "threads under ThreadSanitizer" \
        $watched -DFOLD_USE_THREADS -I. -c -o "$out/tsan.o" $implementation || return
    set -- $declarations "$out/tsan.o" -lm -lpthread
    program test_threads_tsan $watched -UFOLD__SHARED_WORK tests/test_threads.c "$@"
    compiled "game_jobs under ThreadSanitizer" $watched -o "$out/game_jobs" examples/game_jobs.c "$@" &&
        step "game_jobs under ThreadSanitizer" "$out/game_jobs" --steps 3 --frames 4 --threads 4
}

# PyTorch: convolutions beside its own, and modules of other sizes than those of tests/torch.safetensors.
pytorch() {
    python=$(python_with torch "modules beside PyTorch's") || return 0
    counted check_torch $python tests/check_torch.py
    linked_to "$bin/fold.o" gradients examples/cookbook/gradients.c &&
        step "the cookbook's gradients are PyTorch's" cookbook_gradients "$python" "$PWD/examples/cookbook"
    linked_to "$bin/fold.o" test_torch tests/test_torch.c || return
    for seed in 1 2 3 4 5; do
        file=$out/seed$seed.safetensors
        step "PyTorch makes modules" $python tests/make_torch.py "$file" $seed
        counted "modules of seed $seed" "$out/test_torch" "$file"
        counted "PyTorch loads what fold.h wrote of seed $seed" \
            $python tests/make_torch.py --back "$file.out" $seed
    done
}
cookbook_gradients() ( # python, folder: and its writer of files writes what its reader reads
    cp tests/tagger.safetensors "$out" && cd "$out" && ./gradients && "$1" "$2/gradients.py" &&
        PYTHONPATH=$2 "$1" -c 'from safetensors_file import load_file, save_file
tensors = load_file("tagger.safetensors")
save_file(tensors, "again.safetensors")
again = load_file("again.safetensors")
assert list(again) == list(tensors) and all((again[name] == tensors[name]).all() for name in tensors)'
)
pytorch_onnx() {
    python=$(python_with torch "ONNX files of PyTorch") || return 0
    linked_to "$bin/fold.o" test_onnx tests/test_onnx.c || return
    for seed in 1 2; do
        step "PyTorch exports ONNX files" $python tests/make_onnx.py "$out/onnx$seed" $seed
        counted "exports of seed $seed" env FOLD_POLICIES="$out/onnx$seed" "$out/test_onnx" policies
    done
    linked_to "$bin/fold.o" train_onnx tests/train_onnx.c &&
        step "PyTorch writes networks as ONNX" $python tests/train_onnx.py write "$out" &&
        step "they train here" "$out/train_onnx" "$out" &&
        step "as they train in PyTorch" $python tests/train_onnx.py back "$out"
}
pytorch_bench() {
    step "the bench beside DyNet is skipped aloud without it" sh -c "
        DYNET= python3 bench/peers/dynet.py >$out/dynet && grep -q ^SKIPPED $out/dynet &&
        grep -q '^RESULT dynet rows=0' $out/dynet"
    python=$(python_with torch "the bench beside PyTorch") || return 0
    [ -x "$bin/bench_plain" ] || { skip "the bench beside PyTorch" "there is no bench"; return; }
    peers="$python bench/peers/run.py"
    step "the bench's networks are those of its peers" $peers --check --bench "$bin/bench_plain"
    reference=$(echo /usr/lib/*/blas/libblas.so.3)
    [ -e "$reference" ] || { skip "PyTorch on the reference BLAS is refused" "no $reference"; return; }
    step "PyTorch on the reference BLAS is refused" sh -c "
        ! LD_LIBRARY_PATH=${reference%/*} $peers --workload policy 2>$out/refused &&
        grep libopenblas0-pthread $out/refused"
}
random_onnx() { # graphs held to numpy and to ONNX Runtime, some of them printed as C
    python=$(python_with numpy "random graphs of ONNX") || return 0
    linked_to "$bin/fold.o" random_onnx tests/random_onnx.c || return
    step "numpy makes random graphs of ONNX" $python tests/make_onnx.py --random 5000 1 "$out/graphs.bin" &&
        step "random graphs of ONNX" "$out/random_onnx" "$out/graphs.bin" "$out/printed.c" 50 -1 "$out/results.bin" &&
        compiled "random graphs as C" $CC -O1 -o "$out/printed" "$out/printed.c" -lm &&
        step "random graphs as C" "$out/printed"
    what="random graphs in ONNX Runtime"
    if node tests/check_onnx.js --there 2>/dev/null; then
        step "$what" node tests/check_onnx.js "$out/graphs.bin" "$out/results.bin"
    else
        skip "$what" "node finds no onnxruntime-node: FOLD_ORT names the folder that npm installed it in"
    fi
}

# -- longer forms of make test's -------------------------------------------------------------------------
longer_lists() {
    for test in lists_ops layers; do
        program "longer_$test" $CC $CFLAGS $declarations -DLONGEST_LIST=300 tests/test_$test.c "$bin/fold.o" \
            -lm -lpthread
    done
}
longer() { # test, its arguments…: at random, others than make test's
    test=$1; shift
    linked_to "$bin/fold.o" "$test" tests/test_$test.c && counted "more $test" "$out/$test" "$@"
}
study() { # on small settings; it calls private functions
    small="$bin/study --sizes 1,8 --seconds 0.02 --hidden 20,8 --looks 1 --looks-state 32"
    small="$small --svg $out/study.svg"
    keys="RESULT study sst_alone_us= sst_dynamic_us= sst_manual_us="
    keys="$keys sick_alone_us= sick_dynamic_us= sick_manual_us="
    step "the study compiles without warnings" sh -c "$(own_line bench/study.c "-O0 -std=c99 $warnings")"
    step "study" ends_with_result "FOLD_DATA= $small" "$keys data=generated"
    step "literature compiles without warnings" sh -c "$(own_line bench/literature.c "-O0 -std=gnu99 $warnings")"
    step "literature" ends_with_result "$bin/literature --batch 16 --width 32 --seconds 0" \
        "RESULT literature networks=9 most_over_alone= same=1 hash="
    if [ -z "${FOLD_DATA:-}" ]; then skip "study of real trees" "FOLD_DATA is not set"; return; fi
    step "study of real trees" ends_with_result "$small" "$keys data=real"
}

# -- pages -------------------------------------------------------------------------------------------
commands() { # of the pages
    counted "README, commands" env CFLAGS=-O1 FOLD_OBJECT="$PWD/$bin/fold.o" sh tests/readme commands
}
clean_demo() { # README's first command
    git rev-parse --git-dir >/dev/null 2>&1 ||
        { skip "make demo in a clean clone" "this is no clone"; return; }
    git clone -q . "$out/clone" && make -s -C "$out/clone" demo >"$out/demo" 2>&1
    tail -n 1 "$out/demo"
    step "make demo in a clean clone" learns_listops "$out/demo"
}
learns_listops() { # what it printed: at least 93 % of its answers are right
    tail -n 1 "$1" | grep 'RESULT listops .*identical=1' | sed 's/.*accuracy=\([0-9.]*\).*/\1/' |
        awk '{ right = $1 > 1 ? $1 : 100 * $1 } END { exit !(right >= 93) }'
}
web() { # built anew, and looked at in a browser: a flight there ends with the bits of the native one
    has_wasi "the pages" || return
    step "make web" make -s -B web SWARM="--steps 100" CC="$CC -ffp-contract=off" CFLAGS="$CFLAGS" \
        WASM_CC="clang --target=wasm32-wasi $warnings" || return
    flight=$(./build/web/native_swarm --load build/web/swarm.safetensors --isa portable --frames 300 |
        sed -n 's/.* flight=\([0-9a-f]*\).*/\1/p')
    compiled "the policy page's native program" $CC -O0 -DFOLD_ONLY_PORTABLE -ffp-contract=off -o "$out/policy" \
        examples/policy.c -lm || return
    POLICY=$out/policy CC=$CC counted check_web python3 tests/check_web.py build/site "$flight" build/screenshots &&
        head -n 1 "$out/output"
}
