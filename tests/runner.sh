# tests/runner.sh - runs rows of tests/jobs.txt side by side, for tests/run, tests/all and tests/cross:
#
#   start FOLDER [--list] [WORD…]   a new run; what jobs print is kept in the folder. Words choose jobs that
#                                   have one of them, and with --list jobs are named and none runs
#   rows WHEN…                      queues the rows that have one of these in their first column
#   run_jobs                        runs the queue, and shows what jobs print, in its order
#   finish                          what was skipped or failed, and "N passed, N failed, N skipped". Status 0:
#                                   nothing failed
#
# A job is a shell of its own, which reads tests/lib.sh and its file of tests/jobs, so nothing that it sets is
# seen by others. Its folder $out is $work/N for the N-th of the queue. There the runner writes log (what it
# prints), counts (lines of "passed failed"), times, pid, and done when it has ended. The variables
# are work, words, listing, started, and title, which stands for the section of all jobs.
. tests/lib.sh
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
LIMIT=${LIMIT:-1800} # seconds after which a job is stopped that keeps all others waiting
title=

start() {
    work=$1 listing= words= started=$(date +%s); shift
    if [ "${1:-}" = --list ]; then listing=yes work=$work.list; shift; fi
    words=$*
    rm -rf "$work"
    mkdir -p "$work" "$bin"
    : >"$work/table"
}

rows() {
    awk -v whens="$*" -v words="$words" -v title="$title" -v list="$listing" -v known="$(sections)" \
        -v sources="$(echo tests/test_*.c)" -f tests/jobs.awk tests/jobs.txt >"$work/queue" || exit 2
}
sections() { echo test plain once best sanitizers $(sections_of_all) alone; }
sections_of_all() { echo speed compilers languages libraries pytorch longer pages source cross; }

# -- the jobs ----------------------------------------------------------------------------------------
worker() { # takes one job after the other; mkdir decides who has it
    number=0
    while IFS='|' read -r section name tools jobs command; do
        [ ! -e "$work/finished" ] || break
        number=$((number + 1)) out=$work/$number
        mkdir "$out" 2>/dev/null || continue
        (trap 'times >"$out/times"' EXIT; run_job; : >"$out/ended") >"$out/log" 2>&1 </dev/null &
        echo $! >"$out/pid"
        wait $!
        judge $? >>"$out/log"
        : >"$out/done"
    done <"$work/queue"
}

run_job() { # of $name, $tools, $jobs and $command, which worker read
    for tool in $tools; do have "$tool" || { skip "$name" "$tool is not installed"; return; }; done
    for job in $jobs; do
        until [ -e "$work/$job/done" ]; do sleep 0.2; done
        ! has_failed "$work/$job" ||
            { skip "$name" "$(sed -n "${job}p" "$work/queue" | cut -d '|' -f 2) failed"; return; }
    done
    eval "set -- $command"
    . "tests/jobs/$1.sh"
    shift
    "$@"
}
has_failed() { grep -q ' [1-9]' "$1/counts" 2>/dev/null; } # a job's folder

judge() { # status of its shell: a job that ended too early, or that tested nothing, has failed
    if [ -e "$out/stopped" ]; then result "$name was stopped after $LIMIT seconds" 1
    elif [ ! -e "$out/ended" ]; then result "$name ended too early, with status $1" 1
    elif [ ! -s "$out/counts" ] && ! grep -q '^SKIPPED' "$out/log"; then result "$name tested nothing" 1; fi
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

# -- what they print -----------------------------------------------------------------------------------
run_jobs() {
    if [ -n "$listing" ]; then cat "$work/queue"; return; fi
    workers &
    all=$! number=0 shown=
    trap stop_jobs INT TERM
    while IFS='|' read -r section name rest; do
        number=$((number + 1)) out=$work/$number
        await
        [ "$section" = "$shown" ] || echo "== $section"
        shown=$section
        show
    done <"$work/queue"
    wait
    trap - INT TERM
}

await() { # until the job has ended; it is stopped if it takes too long while all before it have ended
    turns=0
    until [ -e "$out/done" ] || [ -e "$work/finished" ]; do
        sleep 0.2
        turns=$((turns + 1))
        [ "$turns" -ne $((LIMIT * 5)) ] || { : >"$out/stopped"; stop "$(cat "$out/pid")"; }
    done
}

show() { # the job's output; its counts go into the table
    cat "$out/log"
    if [ ! -e "$out/done" ]; then echo "FAILED: $name (its worker died)"; echo "0 1" >>"$out/counts"; fi
    skipped=$(grep -c '^SKIPPED' "$out/log")
    counts=$(awk -v OFS='|' '{ p += $1; f += $2 } END { print p + 0, f + 0 }' "$out/counts" 2>/dev/null)
    echo "counts|$section|${counts:-0|0}|$skipped|$(processor_seconds "$out/times")|$name" >>"$work/table"
    grep -E '^(FAILED|SKIPPED)' "$out/log" | sed "s#^#note|$section|#" >>"$work/table"
}
processor_seconds() { # file: what times printed
    awk '{ for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += 60 * t[1] + t[2] } }
        END { printf "%.1f", sum }' "$1" 2>/dev/null
}

finish() { # more tables than this run's
    cat "$work/table" "$@" | awk -v wall="$(($(date +%s) - started))" -f tests/summary.awk
}

# -- to stop -------------------------------------------------------------------------------------------
stop() { # a process: it and all that it started, and those started, if there is a ps
    below=$(ps -A -o pid= -o ppid= 2>/dev/null | awk -v top="$1" '
        { parent[$1] = $2 }
        END {
            for (each in parent) {
                for (above = each; above > 1 && above != top; above = parent[above]);
                if (above == top) print each
            }
        }')
    for signal in STOP TERM CONT; do kill -"$signal" $below; done 2>/dev/null
}
stop_jobs() { # on a signal: the workers take no further job, and what runs is ended, or waited for without ps
    trap '' INT TERM
    : >"$work/finished"
    stop "$all"
    wait
    echo "stopped"
    exit 1
}
