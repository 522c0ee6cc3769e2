# How long fold.h compiles, and how fast it is as -march=native.

compile_time() { # of the implementation at -O2, as a ratio to a file that never changes
    frames= # and no frame over 1 KB, if it is gcc
    $CC --version 2>/dev/null | grep -q clang || ! knows $CC -Wframe-larger-than=1024 ||
        frames="-Wframe-larger-than=1024 -Werror"
    awk -f tests/jobs/functions.awk >"$out/same.c"
    for _ in 1 2 3; do # more turns, where other work disturbed the first ones
        same=$(seconds $CC -O2 -c -o "$out/o.o" "$out/same.c")
        echo "$same $(seconds $CC -O2 $frames -I. -c -o "$out/o.o" $implementation)" >>"$out/seconds"
        awk '
            NF == 2 {
                if (!n++ || $1 < same) same = $1
                if (n == 1 || $2 < best) best = $2
            }
            END {
                printf "the implementation compiles in %.2f s, ", best
                printf "in %.2f times the time of 400 small functions\n", same ? best / same : 0
                exit !(n == NR && same > 0 && best < 9 * same)
            }' "$out/seconds" && break
    done
    result "compile time, and no stack frame over 1 KB" $?
}
seconds() { # command…: processor time of it
    sh -c '"$@" && times' seconds "$@" | awk 'NR == 2 { split($1, t, /[ms]/); print t[1] * 60 + t[2] }'
}

bench_builds() { # of the bench, for native_speed and pytorch_bench
    rm -f "$bin/bench_plain" "$bin/bench_native"
    for native in "" -march=native; do
        if [ -n "$native" ] && ! knows gcc $native; then
            skip "the bench with -march=native" "this gcc does not know it"
            return
        fi
        step "the bench compiles${native:+ with $native}" gcc -O2 $native \
            -o "$bin/bench_${native:+native}" bench/bench.c bench/policy.c -lm -lpthread
        [ -n "$native" ] || mv "$bin/bench_" "$bin/bench_plain"
    done
}
native_speed() { # one at a time and in batches as fast with -march=native as without, but for noise
    [ -x "$bin/bench_native" ] || { skip "speed of -march=native" "bench_builds made no bench"; return; }
    for options in "treelstm-sick --mode infer --batch 1" "treelstm-sst --mode infer --batch 1" \
        "treelstm-sick --mode train --batch 64"; do
        : >"$out/speeds"
        for _ in 1 2 3; do # more turns, where other work disturbed the first ones
            for _ in 1 2 3 4 5 6; do
                for build in plain native; do
                    "$bin/bench_$build" --json --seconds 0.1 --workload $options |
                        sed -nE "s/.*\"samples_per_s\":([0-9.e+]+).*/$build \1/p"
                done
            done >>"$out/speeds"
            awk -v what="$options" '
                $2 > best[$1] { best[$1] = $2 }
                END {
                    ratio = best["plain"] ? best["native"] / best["plain"] : 0
                    printf "%s: with -march=native %.3f of the speed without\n", what, ratio
                    exit !(ratio > 0.93)
                }' "$out/speeds" && break
        done
        result "speed of -march=native: $options" $?
    done
}
