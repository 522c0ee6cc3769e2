# The policy of examples/firmware.c on emulated processors that have no system, and as examples/fold_to_c.h prints
# it: the desktop's bits; sizes, stack and instructions at most so many.

. tests/jobs/machines.sh # on_board

told() { # key, what a program printed: the value of the key there
    echo "$2" | sed -n "s/.*[ -D]$1=\([^ ]*\).*/\1/p" | head -n 1
}
at_most() ( # value, limit, value, limit…
    while [ $# -gt 0 ]; do
        test "$1" -gt 0 && test "$1" -le "$2" || { echo "it is '$1', at most $2"; return 1; }
        shift 2
    done
)
small_stack() { # what, what the firmware printed
    step "$1: at most 4096 bytes of stack to make layers, 3072 to record and run, 2048 to replay" \
        at_most "$(told make_layers "$2")" 4096 "$(told record_and_run "$2")" 3072 "$(told replay "$2")" 2048
}
stack() { echo "stack=$(told make_layers "$1"),$(told record_and_run "$1"),$(told replay "$1")"; }
same_told() { # key, what two programs printed
    test -n "$(told "$1" "$2")" && test "$(told "$1" "$2")" = "$(told "$1" "$3")"
}

# -- a Cortex-M7 -------------------------------------------------------------------------------------
m7() { # flags and sources…: compiled for it
    arm-none-eabi-gcc -mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-d16 -Os -ffunction-sections \
        -fdata-sections -Wl,--gc-sections "-I$out" "$@"
}
on_m7() { # flags and source…: what it prints there; the clock counts instructions
    m7 -Wl,-u,vectors --specs=rdimon.specs -Wl,--section-start=.vectors=0 tests/cortex_m.c "$@" -lm \
        -o "$out/m7.elf" && $(on_board mps2-an500 | sed 's/-M/-icount shift=0 -M/') "$out/m7.elf"
}
cortex_m7() { # both kinds of weights on the same objects; here that of FOLD_REPRODUCIBLE has all kernels
    step "firmware: export compiles" $CC -O0 -o "$out/export" examples/export.c -lm || return
    settings=$(sed -n 's/^#define \(FOLD_[A-Z_]*\)$/-D\1/p' examples/firmware.c)
    for define in -DFOLD_ONLY_PORTABLE -DFOLD_REPRODUCIBLE; do
        set -- $settings $define -x c -c fold.h -o
        compiled "firmware $define, here" $CC -O0 "$@" "$out/here$define.o" &&
            compiled "firmware $define" m7 "$@" "$out/m7$define.o" || return
    done
    flies floats 213500 5500 ""
    flies bytes 134500 6500 -DIN_BYTES --bytes
}
flies() { # weights, the most flash and RAM of the model, what reads such weights, what makes them
    what="firmware in $1" flash=$2 model=$3 reads="-DWEIGHTS $4"; shift 4
    step "$what: its weights" "$out/export" --steps 100 "$@" --out "$out/policy_weights.h" || return
    set -- $reads examples/firmware.c
    # without lists of parameters it tells which it has, in large arrays which sizes are enough
    linked="$declarations $out/m7-DFOLD_ONLY_PORTABLE.o"
    lists=$(on_m7 $linked "$@" | sed -n 's/^sizes .*\(-DPARAMS.*\)/\1/p')
    sizes=$(on_m7 $linked -DMODEL_BYTES=131072 -DCONTEXT_BYTES=65536 $lists "$@" | sed -n 's/^sizes //p')
    for define in -DFOLD_ONLY_PORTABLE -DFOLD_REPRODUCIBLE; do
        compiled "$what, here" \
            $CC -O0 "-I$out" $declarations -o "$out/firmware" "$@" "$out/here$define.o" -lm
        ran=$(on_m7 $sizes $declarations "$@" "$out/m7$define.o")
        step "$what $define: the desktop's bits" same_told hash "$("$out/firmware")" "$ran"
    done
    small_stack "$what" "$ran"
    m7 -DBARE $sizes -nostartfiles --specs=nano.specs -Wl,--entry=main "$@" -lm -o "$out/bare.elf"
    step "$what: no malloc, no stdio" bare "$out/bare.elf"
    text=$(arm-none-eabi-size "$out/bare.elf" | awk 'NR == 2 { print $1 + $2 }')
    step "$what: at most $flash bytes of flash, $model for the model, 24500 for the context" at_most \
        "$text" "$flash" "$(told ram_model "$ran")" "$model" "$(told ram_context "$ran")" 24500
    ticks=$(told ticks_per_step "$ran")
    echo "RESULT $what: flash=$text ram_model=$(told ram_model "$ran")" \
        "ram_context=$(told ram_context "$ran")" "instructions_per_step=$((ticks * 40)) $(stack "$ran")"
}
bare() { ! arm-none-eabi-nm "$1" | grep -E ' (malloc|_?sbrk|printf|_write)'; } # program

# As C: code without weights, a frame as large as its values, 0.6 of the instructions of a replay.
printed() {
    step "printed: test_to_c compiles" $CC -O0 -o "$out/test_to_c" tests/test_to_c.c -lm || return
    here=$("$out/test_to_c" --write "$out/policy.c" policy)
    step "printed: no warnings" m7 $warnings -fstack-usage -c -o "$out/policy.o" "$out/policy.c"
    ran=$(on_m7 "$out/policy.c") ticks=$(told ticks "$ran") work=$(told work "$here")
    step "printed: the desktop's bits" test "$(echo "$ran" | grep -c '^1 passed, 0 failed')" -eq 1
    sizes=$(arm-none-eabi-nm -S "$out/policy.o" |
        awk '$4 ~ /^policy_/ && $3 ~ /[tT]/ && $4 !~ /_check$/ { printf " + 0x%s", $2 }')
    code=$((0$sizes))
    frame=$(awk '$1 ~ /policy_step$/ { print $2 }' "$out/policy.su")
    step "printed: at most 12000 bytes of code, values and 5 % of stack, 0.6 of a replay's instructions" \
        at_most "$code" 12000 "$frame" $((work * 105 / 100 + 64)) $((ticks * 40)) 104760
    echo "RESULT printed code=$code weights=$(told weights "$here") frame=$frame work=$work" \
        "instructions_per_step=$((ticks * 40))"
}

# The head of a small GRU learns there, too.
adapts() {
    set -- -DFOLD_NO_TEXT -DFOLD_PLAIN_CONTEXTS -DFOLD_NO_STDIO -DFOLD_NO_MALLOC -DFOLD_REPRODUCIBLE
    here="$CC -O0"
    ! have tcc || here=tcc # in a hundredth of the time
    compiled "adapt, here" $here "$@" -DFOLD_ONLY_PORTABLE -o "$out/adapt" examples/cookbook/adapt.c -lm &&
        compiled "adapt: the implementation" m7 "$@" -DFOLD_IMPLEMENTATION -x c -c fold.h -o "$out/m7.o" || return
    printed=$("$out/adapt") hash=${printed##* hash }
    set -- --specs=nano.specs "$@" $declarations "$out/m7.o" examples/cookbook/adapt.c
    bytes=$(on_m7 "$@" | sed -n 's/^model \([0-9]*\) bytes, context \([0-9]*\) bytes.*/\1 \2/p')
    ran=$(on_m7 "-DMODEL_BYTES=${bytes% *}" "-DCONTEXT_BYTES=${bytes#* }" "$@")
    step "adapt: the desktop's bits, in blocks of $bytes bytes" same_bits "$hash" "${ran##* hash }"
    sizes=$(arm-none-eabi-size "$out/m7.elf" | awk 'NR == 2 { print $1 + $2, $2 + $3 }')
    step "adapt: at most 135000 bytes of flash, 158000 of RAM" at_most "${sizes% *}" 135000 "${sizes#* }" 158000
    echo "RESULT adapt flash=${sizes% *} ram=${sizes#* } model=${bytes% *} context=${bytes#* } hash=$hash"
}
same_bits() { [ -n "$1" ] && [ "$1" = "$2" ]; } # hashes

# -- RISC-V ------------------------------------------------------------------------------------------
on_riscv() { # bits, flags and source…: what it prints there; the counter counts instructions
    bits=$1; shift
    riscv64-unknown-elf-gcc -mcmodel=medany -ffunction-sections -fdata-sections --specs=picolibc.specs \
        --crt0=hosted --oslib=semihost -Wl,--defsym=__flash=0x80000000,--defsym=__flash_size=0x400000 \
        -Wl,--defsym=__ram=0x80400000,--defsym=__ram_size=0x400000 "$@" -lm -o "$out/riscv.elf" &&
        qemu-system-riscv$bits -M virt -bios none -icount shift=0 -nographic -monitor none -serial none \
            -semihosting-config enable=on,target=native,chardev=c -chardev stdio,id=c -kernel "$out/riscv.elf"
}
riscv() { # bits, processor and calls, how it is optimised, the most instructions a step
    bits=$1 what="firmware on ${2%% *} $3" most=$4
    # where there are no vector registers compilers emulate vectors through memory: plain loops must be taken
    set -- -march=${2% *} -mabi=${2#* } $3 examples/firmware.c
    riscv64-unknown-elf-gcc --specs=picolibc.specs -E - </dev/null >/dev/null 2>&1 ||
        { skip "$what" "picolibc is not installed"; return; }
    compiled "$what, here" $CC -O1 -DFOLD_ONLY_PORTABLE -o "$out/firmware" examples/firmware.c -lm || return
    ran=$(on_riscv $bits "$@") ticks=$(told ticks_per_step "$ran")
    plain=$(told ticks_per_step "$(on_riscv $bits -DFOLD__PLAIN_SCALARS "$@")")
    step "$what: the desktop's bits" same_told hash "$("$out/firmware")" "$ran"
    step "$what: at most 1.05 times the instructions of plain scalars" \
        at_most $((ticks * 100)) $((plain * 105))
    step "$what: at most $most instructions a step" at_most "$ticks" "$most"
    [ "$bits" -eq 64 ] || small_stack "$what" "$ran"
    echo "RESULT $what: instructions_per_step=$ticks plain=$plain $(stack "$ran")"
}
