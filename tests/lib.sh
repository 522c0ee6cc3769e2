# tests/lib.sh - what the jobs of tests/jobs are made of; tests/readme and tests/sizes take it, too.
#
# A job is a function that calls step, counted, program, compiled or skip, which count what they do. A program
# that prints "SKIPPED: what (why)" has skipped that, and is counted so. Jobs may use their arguments, and
#   CC, CXX, CFLAGS   compilers and their flags
#   bin               the folder for programs that other jobs use: build, or build/all
#   out               the job's own folder, for all other files
#   SECTION           "sanitizers" if CFLAGS has sanitizers (ask `sanitizing`)
#   KERNELS           avx2 or portable: programs run on those kernels, else on the machine's best
#   FOLD_DATA         a folder with real data; without it programs make up data, and say so
#   FOLD_POLICIES     a folder of trained policies in ONNX files; without it they are skipped
#   FOLD_OCEAN        a folder with games of PufferLib 3.0, such as pong/pong.h; without it they are skipped
# and the flags below.
CC=${CC:-cc} CXX=${CXX:-c++} CFLAGS=${CFLAGS:--O2} bin=${bin:-build}
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wdouble-promotion -Werror"
smallest="-DFOLD_INFERENCE -DFOLD_NO_TEXT -DFOLD_PLAIN_CONTEXTS -DFOLD_NO_STDIO" # of all builds
smallest="$smallest -DFOLD_NO_MALLOC -DFOLD_ONLY_PORTABLE"
declarations=-DFOLD__IMPLEMENTED # a program compiled so takes the implementation from an object
implementation=tests/programs/implementation.c

# -- what is there -----------------------------------------------------------------------------------
sanitizing() { [ "${SECTION:-}" = sanitizers ]; }
have() { command -v "$1" >/dev/null 2>&1; }
skip() { echo "SKIPPED: $1 ($2)"; } # what, why
needs() ( # what, tool…: whether all tools are there; the first that is not is the reason to skip
    what=$1; shift
    for tool in "$@"; do have "$tool" || { skip "$what" "$tool is not installed"; return 1; }; done
)
knows() { # compiler, options…
    echo 'int x;' >"$out/empty.c" && "$@" -fsyntax-only "$out/empty.c" >/dev/null 2>&1
}
native() { ! knows $CC -march=native || echo -march=native; }
own_warnings() { ! knows $CC $warnings || echo "$warnings"; } # of $CC, if it knows them
makes_programs() { # compile command…: and they run
    echo 'int main(void) { return 0; }' >"$out/none.c"
    "$@" -o "$out/none" "$out/none.c" >/dev/null 2>&1 && "$out/none" >/dev/null 2>&1
}
has_cpp() { # what, more flags: whether $CXX makes programs; if not, it is skipped
    makes_programs $CXX -x c++ $2 || { skip "$1" "$CXX $2 does not compile"; return 1; }
}
has_wasi() { # what: whether clang makes WebAssembly, $out/none.wasm, which returns 0; if not, it is skipped
    echo 'int main(void) { return 0; }' >"$out/none.c"
    clang --target=wasm32-wasi -o "$out/none.wasm" "$out/none.c" 2>/dev/null ||
        { skip "$1" "no wasi-libc, or no compiler-rt for it"; return 1; }
}
python_with() { # module, what needs it: prints a python3 that has the module
    for python in python3 /usr/bin/python3; do
        if "$python" -c "import $1" 2>/dev/null; then echo "$python"; return; fi
    done
    skip "$2" "no python3 here has $1" >&2
    return 1
}

# -- tests, which count ------------------------------------------------------------------------------
result() { # name, exit status
    if [ "$2" -eq 0 ]; then echo "1 0" >>"$out/counts"; else echo "0 1" >>"$out/counts"; echo "FAILED: $1"; fi
    return "$2"
}

step() ( # name, command…: one test, its output shown when it fails
    step=$1; shift
    if "$@" >"$out/output" 2>&1; then result "$step" 0; grep '^SKIPPED' "$out/output"; return 0; fi
    tail -n 60 "$out/output"; result "$step" 1
)

counted() ( # name, command…: a program whose last line is "N passed, N failed", perhaps with ", N skipped"
    name=$1 since=$(date +%s); shift
    "$@" >"$out/output" 2>&1; status=$?
    counts=$(tr -d '\r' <"$out/output" | tail -n 1)
    numbers=$(echo "$counts" | sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, [0-9]+ skipped)?$/\1 \2/p')
    [ -n "$numbers" ] && [ "$status" -eq 0 ] || tail -n 40 "$out/output"
    if [ -z "$numbers" ]; then result "$name (status $status)" 1; return 1; fi
    case $numbers in
    *" 0") [ "$status" -eq 0 ] || result "$name (status $status)" 1 ;;
    *) echo "FAILED: $name: $counts" ;;
    esac
    echo "$numbers" >>"$out/counts"
    tr -d '\r' <"$out/output" | grep '^SKIPPED'
    echo "$name: $counts ($(($(date +%s) - since)) s)"
    return "$status"
)

compiled() ( # name, compile command…: whether it compiles; only failures count
    name=$1; shift
    "$@" >"$out/output" 2>&1 || { head -n 40 "$out/output"; result "compiling $name" 1; }
)

program() ( # name, compile command…: a test program that prints its own counts
    name=$1; shift
    compiled "$name" "$@" -o "$bin/$name" && counted "$name" "./$bin/$name"
)

# -- what a step can ask -----------------------------------------------------------------------------
ends_with_result() ( # command, keys: its last line must be its RESULT line, with every key named
    printed=$(eval "$1") || return 1
    line=$(echo "$printed" | tail -n 1)
    for key in $2; do case " $line " in *" $key"*) ;; *) echo "no $key in: $line"; return 1 ;; esac; done
)

# Numbers of its RESULT line, as awk has them: holds "./swarm" "error_after < 0.8 * error_before".
holds() ( # command, condition
    line=$(eval "$1" | grep '^RESULT')
    numbers=$(echo "$line" | tr ' ' '\n' | sed -n 's/^[a-z_0-9]*=[-0-9.e+]*$/-v &/p')
    for key in $(echo "$2" | grep -oE '[a-z_]+'); do
        case $numbers in *"-v $key="*) ;; *) echo "no number $key in: $line"; return 1 ;; esac
    done
    awk $numbers "BEGIN { exit !($2) }" </dev/null || { echo "not so: $2 in: $line"; return 1; }
)

says() ( # command, pattern: one of its lines, of errors too, has it
    eval "$1" >"$out/said" 2>&1
    grep -e "$2" "$out/said" || { cat "$out/said"; echo "no line has: $2"; return 1; }
)

hashes() ( # command…: the number of commands, and of different hashes in their RESULT lines
    : >"$out/hashes"
    for each in "$@"; do eval "$each" | sed -n 's/^RESULT.* hash=//p' >>"$out/hashes"; done
    echo $(wc -l <"$out/hashes") $(sort -u "$out/hashes" | wc -l)
)
same_hash() { # command…: all print one hash. A single one runs twice
    [ $# -gt 1 ] || set -- "$1" "$1"
    [ "$(hashes "$@")" = "$# 1" ] || { cat "$out/hashes"; return 1; }
}
other_hash() { [ "$(hashes "$@")" = "$# $#" ]; } # command…

refuses() ( # program: a seed that is no whole number ends it, and it names the option
    said=$("$1" --seed 1x 2>&1) && return 1
    case $said in *--seed*1x*) ;; *) echo "it says: $said"; return 1 ;; esac
)

# -- how programs are compiled -----------------------------------------------------------------------
# Nearly all of the time of compiling a program is the implementation's. A test that must be compiled with it,
# since it calls private functions, brings it to others: as an object in which the test's main is called
# hosted_main, as tests/programs/main.c expects.
host() ( # test, object, compile command…
    hosted=tests/test_$1.c object=$2; shift 2
    "$@" -Dmain=hosted_main -I. -c -o "$object" "$hosted"
)

# The level at which a test program is compiled beside an implementation: references are worth optimising, but
# not under sanitizers, where -O0 is the fastest to compile.
level() { # source
    if ! sanitizing && grep -qE 'include "(reference|op_table)\.h"' "$1"; then echo -O1; else echo -O0; fi
}

# The cc line in a source's own first comment, with our compiler and flags, into $bin.
own_line() { # source, more flags, objects
    grep -m 1 -oE 'cc -O2 [^&]*( -l[a-z]+)+' "$1" |
        sed -E -e "s#^cc -O2#$CC $CFLAGS $2#" -e "s#-o (bench/)?#-o $bin/#" -e "s#(.*\.c) #\1 $3 #"
}

linked_to() { # object, name, source: a program $out/NAME that takes the implementation from the object
    compiled "$2" $CC $CFLAGS $(level "$3") $declarations -o "$out/$2" "$3" "$1" -lm -lpthread
}

# What examples/fold_to_c.h printed, compiled in one way and run. A compiler that is not there, or does not know
# its options, is skipped.
printed_c() ( # file, compile command…
    printed=$1; shift
    needs "$printed by $*" "$1" || return
    makes_programs "$@" || { skip "$printed by $*" "this $1 does not know it"; return; }
    case $1 in tcc) given= ;; *) given=$warnings ;; esac
    compiled "$printed by $*" "$@" $given -o "$out/printed" "$printed" &&
        counted "$(basename "$printed") by $*" "$out/printed"
)

# Flags of unsafe mathematics change no bit; vectors, which clang may fuse under some of them, are left out.
golden_under() ( # compiler, flags of the implementation…
    what="golden bits by $*" compiler=$1; shift
    case "$*" in *-ffast-math*) traps=-DNO_TRAPS ;; *) traps= ;; esac
    compiled "$what" $compiler "$@" -DFOLD_ONLY_PORTABLE -I. -c -o "$out/fold.o" $implementation &&
        compiled "$what" $compiler -O1 $traps $declarations -DFOLD_ONLY_PORTABLE -I. -o "$out/golden" \
            tests/test_golden.c "$out/fold.o" -lm && counted "$what" "$out/golden"
)

# What cl.exe would read (tests/cl/shape.h) of a source, so that gcc or clang can compile it: its pragmas in
# their words. Warnings of level 4 are unused functions here, and C4996 is what is deprecated.
in_shape() ( # file to write, source, compiler, options…
    shaped=$1 from=$2; shift 2
    contract='GCC optimize("fp-contract=off")'
    case $1 in clang*) contract="STDC FP_CONTRACT OFF" ;; esac
    unused='#pragma GCC diagnostic ignored "-Wunused-function"'
    "$@" -Itests/cl -include tests/cl/shape.h -I. -E "$from" >"$shaped.raw" || return
    sed -e '/^#pragma float_control(/d' -e "s/^#pragma fp_contract(off)$/#pragma $contract/" \
        -e "s/^#pragma warning(push, 3)$/#pragma GCC diagnostic push\n$unused/" \
        -e 's/^#pragma warning(disable : 4996)$/#pragma GCC diagnostic ignored "-Wdeprecated-declarations"/' \
        -e 's/^#pragma warning(pop)$/#pragma GCC diagnostic pop/' "$shaped.raw" >"$shaped"
)
