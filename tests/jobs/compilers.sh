# The same bits, answers and silence from every compiler, language, level, setting and kernel set.

# -- warnings ----------------------------------------------------------------------------------------
# The syntax in every language. What shows only where code is made (paths that leave a value unset; functions
# that gcc finds unused) is found where tests are compiled, which makes warnings errors, too.
languages() { # compiler: the implementation, and declarations; by the oldest standards FOLD_STATIC, too
    for standard in c99 c11 c17 c2x c++17 c++20 c++2b c++2c; do
        language="-x ${standard%%[0-9]*} -std=$standard" private=
        knows $1 $language || { skip "$1 $language" "this $1 does not know it"; continue; }
        case $standard in c99 | c++17) private=-DFOLD_STATIC ;; esac
        for form in "" $declarations $private; do
            step "$1 $language $form: no warnings" $1 $language $warnings $form -I. -fsyntax-only \
                tests/programs/alone.c
        done
    done
}
settings() { # compile command, defines…: without warnings. Without defines it takes all that matter
    compile=$1; shift
    [ $# -gt 0 ] || set -- -DFOLD_NO_STDIO -DFOLD_NO_MALLOC -DFOLD_REPRODUCIBLE -DFOLD_USE_THREADS \
        -DFOLD_INFERENCE -DFOLD_NO_TEXT -DFOLD_PLAIN_CONTEXTS -DFOLD_ONLY_PORTABLE -DFOLD_NO_AVX512 \
        "-DFOLD_INFERENCE -DFOLD_NO_TEXT" "$smallest"
    for d in "$@"; do
        step "$compile $d: no warnings" $compile $warnings $d -I. -fsyntax-only $implementation
    done
}
settings_of_cpp() { settings "g++ -x c++ -std=c++17" -DFOLD_INFERENCE -DFOLD_NO_TEXT "$smallest"; }
settings_of_code() { # of one kernel set: others are compiled without these settings
    for d in -DFOLD_INFERENCE "-DFOLD_NO_TEXT -DFOLD_NO_STDIO -DFOLD_NO_MALLOC"; do
        d="$d -DFOLD_ONLY_PORTABLE"
        step "gcc -S -O1 -std=c99 $d: no warnings" \
            gcc -S -O1 -std=c99 $warnings $d -I. -o "$out/o.s" $implementation
    done
}
whole_examples() { # each is one file; tcc reads that in a hundredth of the time, but has no atomics
    for source in examples/*.c; do
        if have tcc && ! grep -qE 'define FOLD_USE_THREADS|stdatomic' "$source"; then
            step "$source compiles whole by tcc" tcc -o "$out/program" "$source" -lm
        else step "$source compiles whole" $CC -fsyntax-only "$source"; fi
    done
}
cpp_example() { # name, compiler, standard
    step "$1 by $2 $3: no warnings" \
        $2 -std=$3 -fno-exceptions -fno-rtti $warnings -fsyntax-only examples/$1.cpp
}

# -- golden bits and tests -----------------------------------------------------------------------------
# tests_by "gcc -O2" "kernels short" golden: each program is linked to the implementation; kernels and files,
# if they are the first, bring it.
tests_by() { # compile command, tests with their arguments…
    compile=$1 host= x=; shift
    case $compile in tcc*) strict= ;; *) strict=$warnings ;; esac
    case $compile in *"-x c++"*) x="-x none" ;; esac
    case $1 in
    kernels* | files)
        host=${1%% *}
        compiled "$compile" host "$host" "$out/fold.o" $compile $strict || return
        ;;
    *) compiled "$compile" $compile $strict -I. -c -o "$out/fold.o" $implementation || return ;;
    esac
    for each in "$@"; do
        test=${each%% *}
        source=tests/test_$test.c
        set -- $(level "$source") $declarations -o "$out/$test"
        [ "$test" != "$host" ] || source=tests/programs/main.c
        compiled "$compile, $test" $compile "$@" "$source" $x "$out/fold.o" -lm -lpthread &&
            counted "$compile, $test" "$out/$test" ${each#"$test"}
    done
}

clang_reproducible() { # this one ends, too, where a place is computed from NULL
    tests_by "clang -O1 -DFOLD_REPRODUCIBLE -fsanitize=pointer-overflow -fno-sanitize-recover=all" \
        golden layers engine inside onnx
}
clang_O2() { # it leaves the implementation, for lockstep
    tests_by "clang -O2 -DFOLD_USE_THREADS" "kernels short" golden ops layers engine
    cp "$out/fold.o" "$bin/clang.o"
}
unsafe() { # compiler: the golden bits of portable kernels under flags of unsafe mathematics
    for flags in "-O2 -funsafe-math-optimizations" "-Ofast -fno-finite-math-only"; do
        golden_under "$1" -O1 $flags
    done
    # clang's -ffast-math has other bits: it assumes that nothing is NaN and fuses, whatever pragmas say
    [ "$1" = gcc ] || return 0
    for flags in "-O2 -ffast-math -DFOLD_ALLOW_FAST_MATH" -ffinite-math-only -fsingle-precision-constant; do
        golden_under gcc -O1 $flags
    done
}

# Flags that no pragma takes back are refused.
unsound() {
    unsound_under g++ -x c++ -fsingle-precision-constant
    case $(uname -m) in x86_64) unsound_under gcc -mfpmath=both ;; esac
}
unsound_under() {
    ! "$@" -DFOLD_ONLY_PORTABLE -I. -fsyntax-only $implementation 2>"$out/said"
    step "an error under $*" grep -qE 'fold__no_single_precision_constant|wider type' "$out/said"
}

# Of a thousand random recordings tcc compiles all, and gcc two hundred.
printed() {
    linked_to "$bin/fold.o" test_to_c tests/test_to_c.c || return
    write="$out/test_to_c --write"
    step "eight networks are printed" $write "$out/printed_eight.c"
    for each in "gcc -std=c99 -O2 -march=native" "gcc -std=c99 -O3 -mavx2 -mfma" "gcc -std=c99 -Os" \
        "gcc -O1 -mfma" "clang -std=c99 -O2 -march=native" "clang -std=c99 -O1" tcc \
        "g++ -x c++ -std=c++17 -O2 -march=native" "clang++ -x c++ -std=c++17 -O1 -mavx2 -mfma"; do
        printed_c "$out/printed_eight.c" $each
    done
    step "random recordings are printed" $write "$out/printed_random.c" 0 60
    for each in "clang -std=c99 -O1 -march=native" "g++ -x c++ -std=c++17 -O1 -mavx2 -mfma" \
        "gcc -std=c99 -O1" tcc; do
        printed_c "$out/printed_random.c" $each
    done
    for first in 0 200 400 600 800; do
        step "random recordings from $first on are printed" \
            $write "$out/printed_more.c" $first $((first + 200))
        printed_c "$out/printed_more.c" tcc
        [ $first != 200 ] || printed_c "$out/printed_more.c" gcc -std=c99 -O1 -march=native
    done
}
printed_sessions() {
    linked_to "$bin/fold.o" sessions tests/test_sessions.c && counted "recordings of sessions are printed" \
        "$out/sessions" --print "$out/printed_sessions.c" --sessions 40
    printed_c "$out/printed_sessions.c" gcc -std=c99 -O1 -march=native
    compiled "sessions on portable kernels" \
        $CC -O0 -DFOLD_ONLY_PORTABLE -o "$out/portable" tests/test_sessions.c -lm &&
        counted "recordings of sessions are printed for two roundings" \
            "$out/portable" --print "$out/printed_plain.c" --sessions 200 --seed 1000
    printed_c "$out/printed_plain.c" tcc
}

printed_by_tcc() { # a program that tcc compiled prints the same text as one by $CC
    linked_to "$bin/fold.o" test_to_c tests/test_to_c.c && "$out/test_to_c" --write "$out/printed.c"
    compiled "test_to_c by tcc" tcc -o "$out/by_tcc" tests/test_to_c.c -lm &&
        counted "test_to_c by tcc" "$out/by_tcc"
    step "eight networks are printed by tcc" "$out/by_tcc" --write "$out/printed_by_tcc.c"
    for each in printed printed_by_tcc; do # without outputs, which tcc has from portable kernels
        sed '/_TWO_ROUNDINGS$/,/^#endif$/d' "$out/$each.c" >"$out/$each"
    done
    step "they are the same text" diff "$out/printed" "$out/printed_by_tcc"
    step "random recordings are printed by tcc" "$out/by_tcc" --write "$out/printed_random.c" 0 60
    printed_c "$out/printed_random.c" tcc
}

folded() { # where gcc tunes for Zen, no row of a tile loads a panel's vectors, which stay in registers
    zen="-O2 -march=znver3 -mavx512f -mavx512cd -mavx512dq -mavx512bw -mavx512vl"
    on_x86 "panel vectors in registers" gcc $zen || return
    step "the kernels compile to assembly" gcc $zen -I. -S -o "$out/kernels.s" $implementation
    awk '
        /^[A-Za-z_]/ { name = $1 }
        name ~ /tile_[2346]_by_[2-8]__avx/ && /vfmadd.*ps/ { n++; if (/\(/) print name, $0 }
        END { if (!n) print "no tiles" }' "$out/kernels.s" >"$out/loads"
    step "tiles keep a panel's vectors in registers" cmp /dev/null "$out/loads"
}
on_x86() { # what, compiler, options…: whether they make code for x86-64
    what=$1; shift
    case $(uname -m) in x86_64) ! knows "$@" || return 0 ;; esac
    skip "$what" "no $1 for x86-64 that knows its options"
    return 1
}
unfused() { # compiler of C, of C++: no example and no companion lets a compiler round once instead of twice
    on_x86 "products and sums rounded apart by $1" $1 -mfma || return
    for source in tests/programs/companions.c examples/*.c; do
        case $source in
        */firmware.c) ;; # it makes up its weights without rounding
        *) step "$source rounded apart by $1" not_fused "$source" $1 ;;
        esac
    done
    for source in examples/*.cpp; do
        step "$source rounded apart by $2" not_fused "$source" $2 -std=c++20
    done
}
not_fused() { # source, compile command…: it has no multiply-adds but fold_to_c__plan's, of whole numbers
    source=$1; shift
    speed=-O1 # where gcc fuses nothing without the second flag
    case $1 in g*) speed="-O1 -fexpensive-optimizations -finline-small-functions" ;; esac
    "$@" $speed -mfma -w $declarations -I. -S -o "$out/own.s" "$source" || return
    awk -v source="$source" '
        /^[A-Za-z_]/ { name = $1 }
        /vfn?m(add|sub)/ && name !~ /^fold_to_c__plan/ { print source, name; exit 1 }' "$out/own.s"
}

# -- in cl.exe's shape: its macros, no names of GNU ------------------------------------------------------
shape="-Wno-builtin-macro-redefined -Wno-parentheses-equality"
cl_syntax() { # compiler, c or c++, defines…: no warnings. Vectors have no operators here
    compiler=$1 language=$2 source=$out/alone.i; shift 2
    [ $# -gt 0 ] || set -- -DFOLD_STATIC -DFOLD_INFERENCE -DFOLD_REPRODUCIBLE -DFOLD_ONLY_PORTABLE \
        -DFOLD_NO_AVX512 -DFOLD_USE_THREADS -D_M_ARM64EC
    on_x86 "cl.exe's shape by $compiler" $compiler -mavx2 || return
    case $language in c) standard=-std=gnu11 ;; *) standard=-std=gnu++17 source=$out/alone.ii ;; esac
    for define in "" "$@"; do
        what="cl.exe's shape by $compiler as $language $define"
        step "$what is read" in_shape "$source" tests/programs/alone.c \
            $compiler -x $language $standard $define -Itests/cl/model &&
            step "$what: no warnings" $compiler $standard $warnings $shape -fsyntax-only "$source"
    done
}
cl_refuses() { # define, what the error says
    in_shape "$out/alone.i" tests/programs/alone.c $CC $1 2>&1 | grep -q "error.*$2"
}
cl_warns_behind() { # the warnings of level 4 are the user's again
    (cat $implementation && echo 'static int behind(void) { return 0; }') >"$out/behind.c"
    in_shape "$out/behind.i" "$out/behind.c" clang -Itests/cl/model || return
    clang $warnings $shape -fsyntax-only "$out/behind.i" 2>&1 | grep -q "behind.*unused-function"
}
cl_settings() {
    on_x86 "cl.exe's settings" $CC -mavx2 || return
    step "/fp:fast is an error" cl_refuses -D_M_FP_FAST /fp:fast
    step "C++14 is an error" cl_refuses -D_MSVC_LANG=201402L /std:c++17
    needs "warnings behind fold.h in the shape of cl.exe" clang &&
        step "warnings behind fold.h are told again" cl_warns_behind
}
cl_runs() { # all kernel sets; contraction is on, as cl.exe had it, and intrinsics need no attribute
    on_x86 "cl.exe's shape" gcc -mavx2 -mavx512vnni || return
    sets="-mavx2 -mfma -mxsave -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni" only=
    grep -qw avx2 /proc/cpuinfo || { skip "cl.exe's shape" "this processor has no AVX2"; return; }
    if ! grep -qw avx512_vnni /proc/cpuinfo; then
        skip "cl.exe's shape, AVX-512" "this processor has none"
        sets="-mavx2 -mfma -mxsave" only=-DFOLD_NO_AVX512
    fi
    compiled "cl.exe's shape is read" in_shape "$out/kernels.i" tests/test_kernels.c \
        gcc -O1 $sets $only -Dmain=hosted_main || return
    compiled "cl.exe's shape" gcc -O1 -w -fexpensive-optimizations -ffp-contract=fast $sets \
        -c -o "$out/fold.o" "$out/kernels.i" || return
    for each in programs/main test_golden test_ops test_layers; do
        case $each in programs/main) what=kernels mode=short ;; *) what=${each#test_} mode= ;; esac
        compiled "cl.exe's shape, $what" \
            gcc -O1 $declarations -o "$out/$what" tests/$each.c "$out/fold.o" -lm &&
            counted "cl.exe's shape, $what" "$out/$what" $mode
    done
}
