# tests/lib.sh - what tests/run, tests/all and tests/cross share: jobs that run side by side, shown in order.
#
#   start folder [word…]   an empty queue; what jobs print is kept in the folder. Words choose jobs that have
#                          one of them; with --list before them jobs are named and none runs
#   section "title"        of the jobs that follow, and of their row in the table
#   job "command"          queues a command; it is evaluated in a shell of its own
#   run_jobs               runs the queue, JOBS at once (default: one per processor), and shows what they print
#   finish                 prints seconds and "N passed, N failed, N skipped". Status 0: nothing failed
#
# In a job, result, step, counted, program and skip count what they do; $out is its own folder for files. A
# program that prints "SKIPPED: what (why)" has skipped that; such lines are counted. CC, CXX and CFLAGS
# choose the compilers; $bin is the folder that programs are built into. TABLE names a file that collects what
# ran, for tests/all.

CC=${CC:-cc} CXX=${CXX:-c++} CFLAGS=${CFLAGS:--O2} bin=${bin:-build} TABLE=${TABLE:-/dev/null}
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wdouble-promotion -Werror"
smallest="-DFOLD_INFERENCE -DFOLD_NO_TEXT -DFOLD_PLAIN_CONTEXTS -DFOLD_NO_STDIO" # of all builds
smallest="$smallest -DFOLD_NO_MALLOC -DFOLD_ONLY_PORTABLE"
declarations=-DFOLD__IMPLEMENTED # a program compiled so takes the implementation from an object

# -- jobs ------------------------------------------------------------------------------------------

start() {
    work=$1 listing=; shift
    if [ "${1:-}" = --list ]; then listing=yes work=$work.list; shift; fi
    words=$* passed=0 failed=0 skipped=0 spent=0 started=$(date +%s)
    rm -rf "$work"
    mkdir -p "$work" "$bin"
    : >"$work/queue"
    implementation='#define FOLD_IMPLEMENTATION\n#include "fold.h"\n'
    printf "$implementation" >build/implementation.c
    printf "${implementation}int main(void) { return fold_shape1(2).dim[0] - 2; }\n" >build/alone.c
    printf '%s\n' 'int hosted_main(int, char **);' \
        'int main(int count, char **words) { return hosted_main(count, words); }' >build/main.c
    { # all headers that stand beside fold.h
        echo '#include "fold.h"'
        for each in draw fit onnx rl torch to_c; do
            echo "#define $(echo $each | tr '[:lower:]' '[:upper:]')_IMPLEMENTATION"
            echo "#include \"examples/$each.h\""
        done
        echo 'int main(void) { return 0; }'
    } >build/optional.c
}

chosen() { # command: whether it has one of $words, or there are none
    [ -n "$words" ] || return 0
    for word in $words; do case $1 in *"$word"*) return 0 ;; esac; done
    return 1
}
job() { chosen "$1" && echo "$1" >>"$work/queue"; }
section() { echo "title='$1'" >>"$work/queue"; }

worker() { # takes one job after the other; mkdir decides who has it
    number=0
    while read -r command; do
        [ ! -e "$work/finished" ] || break
        number=$((number + 1)) out=$work/$number
        mkdir "$out" 2>/dev/null || continue
        (trap 'times >"$out/times"' EXIT; eval "$command") >"$out/log" 2>&1 </dev/null
        : >"$out/done"
    done <"$work/queue"
}

workers() { # all of them; $work/finished says that none is left, or that none shall take another job
    slot=0
    while [ "$slot" -lt "$JOBS" ]; do
        slot=$((slot + 1))
        worker &
    done
    wait
    : >"$work/finished"
}

processor_seconds() { # what times printed
    awk '{ for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += 60 * t[1] + t[2] } }
        END { printf "%.1f", sum }' "$@"
}
show() { # the folder of a job that is done: what it printed, its counts added up
    cat "$1/log"
    if [ ! -e "$1/done" ]; then echo "FAILED: $command (its shell died)"; echo "0 1" >>"$1/counts"; fi
    p=0 f=0 s=$(grep -c '^SKIPPED' "$1/log")
    [ ! -e "$1/counts" ] ||
        while read -r more_p more_f; do p=$((p + more_p)) f=$((f + more_f)); done <"$1/counts"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    seconds=$(processor_seconds "$1/times" 2>/dev/null)
    spent=$(awk -v a="$spent" -v b="$seconds" 'BEGIN { print a + b }')
    echo "$title|$p|$f|$s|$seconds|$command" >>"$TABLE"
    grep -E '^(FAILED|SKIPPED)' "$1/log" | sed "s#^#$title|#" >>"$TABLE"
}

processes_below() { # a process: all that it started, and those started; none where there is no ps
    ps -A -o pid= -o ppid= 2>/dev/null | awk -v top="$1" '{ parent[$1] = $2 } END { for (each in parent) {
        for (above = each; above > 1 && above != top; above = parent[above]);
        if (above == top) print each } }'
}
stop_jobs() { # on a signal: the workers take no further job, and what runs is ended, or waited for without ps
    trap '' INT TERM
    : >"$work/finished"
    below=$(processes_below "$all")
    for signal in STOP TERM CONT; do kill -"$signal" $below; done 2>/dev/null
    wait
    echo "stopped"
    exit 1
}

run_jobs() {
    if [ -n "$listing" ]; then sed "s/^title='\(.*\)'$/== \1/" "$work/queue"; return; fi
    workers &
    all=$! number=0 title=${title:-tests}
    trap stop_jobs INT TERM
    while read -r command; do
        number=$((number + 1)) out=$work/$number
        until [ -e "$out/done" ] || [ -e "$work/finished" ]; do sleep 0.2; done
        case $command in
        title=*) eval "$command"; echo "== $title" ;;
        *) show "$out" ;;
        esac
    done <"$work/queue"
    wait
    trap - INT TERM
}

finish() {
    echo "$(($(date +%s) - started)) seconds, $spent of processors"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}

# -- in a job --------------------------------------------------------------------------------------

skip() { echo "SKIPPED: $1 ($2)"; } # what, why
have() { command -v "$1" >/dev/null 2>&1; }
needs() { # what, tool…: whether all tools are there; the first that is not is the reason to skip
    what=$1; shift
    for tool in "$@"; do have "$tool" || { skip "$what" "$tool is not installed"; return 1; }; done
}

has_cpp() { # what, more flags: whether $CXX makes programs; if not, it is skipped
    echo 'int main() { return 0; }' >"$out/main.cpp"
    # shellcheck disable=SC2086
    $CXX $2 -o "$out/main" "$out/main.cpp" >/dev/null 2>&1 ||
        { skip "$1" "$CXX $2 does not compile"; return 1; }
}

has_wasi() { # what: whether clang makes WebAssembly, $out/main.wasm, which returns 0; if not, it is skipped
    echo 'int main(void) { return 0; }' >"$out/main.c"
    clang --target=wasm32-wasi -o "$out/main.wasm" "$out/main.c" 2>/dev/null ||
        { skip "$1" "no wasi-libc, or no compiler-rt for it"; return 1; }
}

result() { # name, exit status
    if [ "$2" -eq 0 ]; then echo "1 0" >>"$out/counts"; else echo "0 1" >>"$out/counts"; echo "FAILED: $1"; fi
    return "$2"
}

step() { # name, command…: one test, its output shown when it fails
    step=$1; shift
    if "$@" >"$out/output" 2>&1; then result "$step" 0; grep '^SKIPPED' "$out/output"; return 0; fi
    tail -n 60 "$out/output"; result "$step" 1
}

counted() { # name, command…: a program whose last line is "N passed, N failed", perhaps with ", N skipped"
    name=$1 since=$(date +%s); shift
    "$@" >"$out/output" 2>&1; status=$?
    counts=$(tr -d '\r' <"$out/output" | tail -n 1)
    numbers=$(echo "$counts" | sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, [0-9]+ skipped)?$/\1 \2/p')
    [ -n "$numbers" ] && [ "$status" -eq 0 ] || tail -n 40 "$out/output"
    if [ -z "$numbers" ]; then result "$name (status $status)" 1; return 1; fi
    case $numbers in *" 0") [ "$status" -eq 0 ] || result "$name (status $status)" 1 ;; esac
    echo "$numbers" >>"$out/counts"
    tr -d '\r' <"$out/output" | grep '^SKIPPED'
    echo "$name: $counts ($(($(date +%s) - since)) s)"
    return "$status"
}

ends_with_result() { # command, keys: its last line must be its RESULT line, with every key named
    printed=$(eval "$1") || return 1
    line=$(echo "$printed" | tail -n 1)
    for key in $2; do case " $line " in *" $key"*) ;; *) echo "no $key in: $line"; return 1 ;; esac; done
}

# Numbers of its RESULT line, as awk has them: holds "./swarm" "error_after < 0.8 * error_before".
holds() { # command, condition
    line=$(eval "$1" | grep '^RESULT')
    numbers=$(echo "$line" | tr ' ' '\n' | sed -n 's/^[a-z_0-9]*=[-0-9.e+]*$/-v &/p')
    for key in $(echo "$2" | grep -oE '[a-z_]+'); do
        case $numbers in *"-v $key="*) ;; *) echo "no number $key in: $line"; return 1 ;; esac
    done
    # shellcheck disable=SC2086
    awk $numbers "BEGIN { exit !($2) }" </dev/null || { echo "not so: $2 in: $line"; return 1; }
}

says() { # command, pattern: one of its lines, of errors too, has it
    eval "$1" >"$out/said" 2>&1
    grep -e "$2" "$out/said" || { cat "$out/said"; echo "no line has: $2"; return 1; }
}

hashes() { # command…: the number of commands, and of different hashes in their RESULT lines
    : >"$out/hashes"
    for each in "$@"; do eval "$each" | sed -n 's/^RESULT.* hash=//p' >>"$out/hashes"; done
    echo $(wc -l <"$out/hashes") $(sort -u "$out/hashes" | wc -l)
}
same_hash() { # command…: all print one hash. A single one runs twice
    [ $# -gt 1 ] || set -- "$1" "$1"
    [ "$(hashes "$@")" = "$# 1" ] || { cat "$out/hashes"; return 1; }
}
other_hash() { [ "$(hashes "$@")" = "$# $#" ]; }

compiled() { # name, compile command…: whether it compiles; only failures count
    name=$1; shift
    "$@" >"$out/output" 2>&1 || { head -n 40 "$out/output"; result "compiling $name" 1; }
}

# Nearly all of the time of compiling a program is the implementation's. A test that must be compiled with it,
# since it calls private functions, brings it to others: as an object in which the test's main is called
# hosted_main, as build/main.c expects.
host() { # test, object, compile command…
    compiled_test=tests/test_$1.c object=$2; shift 2
    "$@" -Dmain=hosted_main -I. -c -o "$object" "$compiled_test"
}

# What cl.exe would read (tests/cl/shape.h) of a source, so that gcc or clang can compile it: its pragmas in
# their words. Warnings of level 4 are unused functions here, and C4996 is what is deprecated.
in_shape() { # file to write, source, compiler, options…
    shaped=$1 from=$2; shift 2
    contract='GCC optimize("fp-contract=off")'
    case $1 in clang*) contract="STDC FP_CONTRACT OFF" ;; esac
    unused='#pragma GCC diagnostic ignored "-Wunused-function"'
    "$@" -Itests/cl -include tests/cl/shape.h -I. -E "$from" >"$shaped.raw" || return
    sed -e '/^#pragma float_control(/d' -e "s/^#pragma fp_contract(off)$/#pragma $contract/" \
        -e "s/^#pragma warning(push, 3)$/#pragma GCC diagnostic push\n$unused/" \
        -e 's/^#pragma warning(disable : 4996)$/#pragma GCC diagnostic ignored "-Wdeprecated-declarations"/' \
        -e 's/^#pragma warning(pop)$/#pragma GCC diagnostic pop/' "$shaped.raw" >"$shaped"
}

program() { # name, compile command…: a test program that prints its own counts
    name=$1; shift
    compiled "$name" "$@" -o "$bin/$name" && counted "$name" "./$bin/$name"
}

# The level at which a test program is compiled beside an implementation: references are worth optimising.
level() { if grep -qE 'include "(reference|op_table)\.h"' "$1"; then echo -O1; else echo -O0; fi; }

# The cc line in a source's own first comment, with our compiler and flags, into $bin.
own_line() { # source, more flags, objects
    grep -m 1 -oE 'cc -O2 [^&]*( -l[a-z]+)+' "$1" |
        sed -E -e "s#^cc -O2#$CC $CFLAGS $2#" -e "s#-o (bench/)?#-o $bin/#" -e "s#(.*\.c) #\1 $3 #"
}

# What examples/to_c.h printed, compiled in one way and run. A compiler that is not there, or does not know
# its options, is skipped.
printed_c() { # file, compile command…
    printed=$1; shift
    needs "$printed by $*" "$1" || return
    echo 'int main(void) { return 0; }' >"$out/none.c"
    "$@" -o "$out/none" "$out/none.c" >/dev/null 2>&1 ||
        { skip "$printed by $*" "this $1 does not know it"; return; }
    case $1 in tcc) given= ;; *) given=$warnings ;; esac
    # shellcheck disable=SC2086
    compiled "$printed by $*" "$@" $given -o "$out/printed" "$printed" &&
        counted "$(basename "$printed") by $*" "$out/printed"
}
