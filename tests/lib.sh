# tests/lib.sh - what tests/run, tests/all and tests/cross share: jobs that run side by side, shown in order.
#
#   start                      empties the queue, notes the time
#   job "command"              queues a command; it is evaluated in a shell of its own
#   run_jobs                   runs the queue, JOBS at once (default: one per processor), and shows what each printed
#   finish                     prints "N passed, N failed, N skipped"; its status is 0 when nothing failed
#
# In a job: result, step, program and skip count what they do; $out is the job's own folder for files it makes.
# A program that prints "SKIPPED: what (why)" has skipped that; the number of such lines is the number of tests skipped.
# CC, CXX and CFLAGS choose the compilers; $bin is the folder that programs are built into.

CC=${CC:-cc} CXX=${CXX:-c++} CFLAGS=${CFLAGS:--O2} bin=${bin:-build}
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wdouble-promotion -Werror"
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
declarations=-DFOLD__IMPLEMENTED # a program compiled so takes the implementation from an object

# -- jobs ------------------------------------------------------------------------------------------

start() { # the folder of the jobs' outputs
    work=$1 passed=0 failed=0 skipped=0 started=$(date +%s)
    rm -rf "$work"
    mkdir -p "$work" "$bin"
    : >"$work/queue"
}

job() { echo "$1" >>"$work/queue"; }

worker() { # takes one job after the other; mkdir decides who has it
    number=0
    while read -r command; do
        number=$((number + 1)) out=$work/$number
        mkdir "$out" 2>/dev/null || continue
        (eval "$command") >"$out/log" 2>&1 </dev/null
        : >"$out/done"
    done <"$work/queue"
}

workers() { # all of them; $work/finished says that none is left
    slot=0
    while [ "$slot" -lt "$JOBS" ]; do
        slot=$((slot + 1))
        worker &
    done
    wait
    : >"$work/finished"
}

run_jobs() {
    workers &
    all=$! number=0
    trap 'kill "$all"; exit 1' INT TERM
    while read -r command; do
        number=$((number + 1)) out=$work/$number
        until [ -e "$out/done" ] || [ -e "$work/finished" ]; do sleep 0.2; done
        cat "$out/log"
        [ -e "$out/done" ] || result "$command (its shell died)" 1
        skipped=$((skipped + $(grep -c '^SKIPPED' "$out/log")))
        [ -e "$out/counts" ] || continue
        while read -r p f; do passed=$((passed + p)) failed=$((failed + f)); done <"$out/counts"
    done <"$work/queue"
    wait
    trap - INT TERM
    rm -f "$work/finished"
    mv "$work" "$work.before" && mkdir "$work" && rm -rf "$work.before"
    : >"$work/queue"
}

finish() {
    echo "$(($(date +%s) - started)) seconds"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}

# -- in a job --------------------------------------------------------------------------------------

have() { command -v "$1" >/dev/null 2>&1; }
skip() { echo "SKIPPED: $1 ($2)"; } # what, why

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
    grep '^SKIPPED' "$out/output"
    echo "$name: $counts ($(($(date +%s) - since)) s)"
    return "$status"
}

compiled() { # name, compile command…: whether it compiles; only failures count
    name=$1; shift
    "$@" >"$out/output" 2>&1 || { head -n 40 "$out/output"; result "compiling $name" 1; }
}

program() { # name, compile command…: a test program that prints its own counts
    name=$1; shift
    compiled "$name" "$@" -o "$bin/$name" && counted "$name" "./$bin/$name"
}

# The cc line in a source's own first comment, with our compiler and flags, into $bin.
own_line() { # source, more flags, objects
    grep -m 1 -oE 'cc -O2 [^&]*( -l[a-z]+)+' "$1" |
        sed -E -e "s#^cc -O2#$CC $CFLAGS $2#" -e "s#-o (bench/)?#-o $bin/#" -e "s#(.*\.c) #\1 $3 #"
}
