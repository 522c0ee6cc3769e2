# Other machines, by cross compilers and emulators. AArch64 takes the NEON kernels, Windows the SIMD ones, all
# others here the portable ones: the golden bits are the desktop's under FOLD_REPRODUCIBLE, and those of the
# desktop's portable path without.
libraries=-lm

on() ( # what, emulator, test, its arguments, compile command…: the program is compiled, run and counted
    what=$1 emulator=$2 test=$3 arguments=$4; shift 4
    compiled "$what" "$@" -o "$out/$test.exe" "tests/test_$test.c" $libraries &&
        counted "$what" $emulator "$out/$test.exe" $arguments
)
hosted() ( # the same, of a test that leaves the implementation in $out/TEST.o, to which others can be linked
    what=$1 emulator=$2 test=$3 arguments=$4; shift 4
    compiled "$what" host "$test" "$out/$test.o" "$@" &&
        compiled "$what" "$@" -o "$out/$test.exe" tests/programs/main.c "$out/$test.o" $libraries &&
        counted "$what" $emulator "$out/$test.exe" $arguments
)
reproducible() ( # machine, emulator, compile command…: the golden bits of all machines
    machine=$1 runs=$2; shift 2
    case $machine in windows | wasm32) speed=-O0 ;; *) speed=-O1 ;; esac # these run faster than they compile
    on "$machine, golden, reproducible" "$runs" golden "" "$@" $speed $warnings -DFOLD_REPRODUCIBLE
)
golden() ( # those of this machine's kernels
    machine=$1 runs=$2; shift 2
    on "$machine, golden" "$runs" golden "" "$@" -O2 $warnings
)
both() {
    golden "$@"
    reproducible "$@"
}
with_files() ( # machine, emulator, arguments of test_files, compile command…: little-endian files, too
    machine=$1 runs=$2 places=$3; shift 3
    reproducible "$machine" "$runs" "$@"
    hosted "$machine, files" "$runs" files "$places" "$@" -O2 $warnings
    on "$machine, golden" "$runs" golden "" "$@" -O2 $declarations "$out/files.o"
)

leaves() { cp "$2" "$bin/$1.o"; } # machine, object: its implementation, for lockstep

aarch64() {
    set -- aarch64-linux-gnu-gcc -O2 -static -DFOLD_USE_THREADS
    libraries="-lm -lpthread" qemu=qemu-aarch64-static object=$out/kernels.o
    hosted "aarch64, kernels" $qemu kernels short "$@" $warnings -DFOLD__SHARED_WORK=500 -DFOLD__LONG_LIST=2
    leaves aarch64 "$object"
    on "aarch64, golden" $qemu golden "" "$@" $declarations "$object"
    on "aarch64, ops" $qemu ops "matmul softmax_mean gelu_tanh NaN" "$@" $declarations "$object"
    on "aarch64, sessions" $qemu sessions "--sessions 100 --reference 10" "$@" $declarations "$object"
    on "aarch64, golden without dot products of bytes" "$qemu -cpu cortex-a53" golden "" \
        "$@" $declarations "$object"
    needs "aarch64 by clang" clang &&
        on "aarch64 by clang, golden" $qemu golden "" clang --target=aarch64-linux-gnu -O1 -static $warnings
}
arm() { # NEON flushes subnormal numbers: compilers use it under unsafe flags alone
    set -- arm-linux-gnueabihf-gcc -static -DFOLD_USE_THREADS
    libraries="-lm -lpthread"
    with_files arm qemu-arm-static place "$@"
    leaves arm "$out/files.o"
    compiled "arm, unsafe flags" "$@" -O2 -mfpu=neon -funsafe-math-optimizations -I. -c -o "$out/unsafe.o" \
        $implementation &&
        on "arm, golden, unsafe flags" qemu-arm-static golden "" "$@" -O2 $declarations "$out/unsafe.o"
    needs "arm by clang" clang && on "arm by clang, golden" qemu-arm-static golden "" \
        clang --target=arm-linux-gnueabihf -march=armv7-a -mfpu=neon -O1 -static $warnings
}
riscv64() {
    set -- riscv64-linux-gnu-gcc -static -DFOLD_USE_THREADS $warnings
    libraries="-lm -lpthread"
    for each in "plain -O2" "fused -O1 -DFOLD_REPRODUCIBLE"; do
        flags=${each#* } object=$out/${each%% *}.o
        compiled "riscv64 $flags" "$@" $flags -I. -c -o "$object" $implementation &&
            on "riscv64, golden $flags" qemu-riscv64-static golden "" "$@" $flags $declarations "$object"
        leaves "riscv64_${each%% *}" "$object"
    done
}
powerpc64() { with_files powerpc64 qemu-ppc64-static "" powerpc64-linux-gnu-gcc -static; } # big-endian files
s390x() { both s390x qemu-s390x-static s390x-linux-gnu-gcc -static; }
i686() {
    gcc="i686-linux-gnu-gcc -static" emulator=
    makes_programs $gcc || emulator="qemu-i386-static"
    needs i686 $emulator && both i686 "$emulator" $gcc
}
wasm32() {
    has_wasi wasm32 || return
    for node in "node --no-warnings" "node --no-warnings --experimental-wasi-unstable-preview1" ""; do
        [ -n "$node" ] || { skip wasm32 "node has no WASI"; return; }
        $node tests/wasi.js "$out/none.wasm" 2>/dev/null && break
    done
    both wasm32 "$node tests/wasi.js" clang --target=wasm32-wasi
    on "wasm32-simd, golden" "$node tests/wasi.js" golden "" \
        clang --target=wasm32-wasi -msimd128 -O1 $warnings
}
cortex() { # both or golden, m4 or m7, its floating-point unit, the machine of qemu that has it
    "$1" "cortex-$2" "$(on_board "$4")" \
        arm-none-eabi-gcc "-mcpu=cortex-$2" -mthumb -mfloat-abi=hard "-mfpu=$3" --specs=rdimon.specs \
        -Wl,--section-start=.vectors=0 tests/cortex_m.c
}
on_board() { # a machine of qemu: how it runs a program that prints by semihosting
    echo "qemu-system-arm -M $1 -nographic -monitor none -serial none -semihosting-config" \
        "enable=on,target=native,chardev=c -chardev stdio,id=c -kernel"
}

# -- lock-step ---------------------------------------------------------------------------------------
# A thousand agents learn by examples/train.c: to one hash by the portable kernels of all machines, and to one by
# all kernels with fused multiply-adds. Other jobs left the implementations. In browsers, learn.html does: job web.
lockstep() {
    thousand="--environments 1000 --steps 8 --updates 2 --width 16"
    case $(uname -m) in
    x86_64) fused="fused:avx512 fused:avx2" ;;
    aarch64) fused=fused:neon ;;
    *) fused= ;;
    esac
    : >"$out/learned"
    learn_on here "" "$bin/fold.o" "plain:portable $fused" $CC $(native)
    learn_on clang "" "$bin/clang.o" "plain:portable $fused" clang -march=native
    learn_on aarch64 qemu-aarch64-static "$bin/aarch64.o" "plain:portable fused:neon" aarch64-linux-gnu-gcc -static
    learn_on arm qemu-arm-static "$bin/arm.o" plain:portable arm-linux-gnueabihf-gcc -static
    for form in plain fused; do
        learn_on "riscv64_$form" qemu-riscv64-static "$bin/riscv64_$form.o" $form:portable \
            riscv64-linux-gnu-gcc -static
    done
    sed 's/^/RESULT lockstep /' "$out/learned"
}
learn_on() ( # machine, emulator, implementation, kernels that learn, compile command…
    machine=$1 emulator=$2 object=$3 kernels=$4; shift 4
    what="lock-step on $machine"
    [ -e "$object" ] || { skip "$what" "no job left an implementation"; return; }
    compiled "$what" "$@" -O2 $declarations -o "$out/$machine" examples/train.c "$object" -lm -lpthread || return
    for each in $kernels; do
        step "$what by ${each#*:} kernels" learns "${each%:*}" "$machine" "${each#*:}" $emulator "$out/$machine"
    done
)
learns() { # plain or fused, machine, kernels, command…: to the hash of the first that is plain, or fused
    form=$1 machine=$2 isa=$3; shift 3
    printed=$("$@" $thousand --isa "$isa" 2>&1)
    case $printed in *"not available"*) skip "lock-step on $machine" "it has no $isa kernels"; return ;; esac
    echo "$printed"
    case $printed in *" hash="*) ;; *) return 1 ;; esac
    echo "$form hash=${printed##* hash=} on $machine by $isa" >>"$out/learned"
    cat "$out/learned"
    test "hash=${printed##* hash=}" = "$(grep -m 1 "^$form " "$out/learned" | cut -d ' ' -f 2)"
}

# -- Windows -----------------------------------------------------------------------------------------
wine() { command -v wine64 || echo /usr/lib/wine/wine64; }
has_wine() { # what: jobs that run at the same time have homes of their own
    export WINEDEBUG=-all WINEPREFIX="${TMPDIR:-/tmp}/fold-wine-$1"
    needs "running on $1" "$(wine)"
}
windows() {
    set -- x86_64-w64-mingw32-gcc -static
    printf '#include <windows.h>\n#define FOLD_IMPLEMENTATION\n#include "fold.h"\n' >"$out/behind.c"
    for define in "" -DFOLD_NO_STDIO; do
        step "windows: behind windows.h $define" \
            "$1" -std=c99 $warnings $define -I. -fsyntax-only "$out/behind.c"
    done
    if has_wine windows; then with_files windows "$(wine)" "" "$@"
    else step "windows: golden compiles" "$@" -O2 $warnings -o "$out/golden.exe" tests/test_golden.c; fi
}
windows_cl() { # in cl.exe's shape, tests/cl
    what="windows in cl.exe's shape"
    sets="-mavx2 -mfma -mxsave -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni"
    grep -qw avx512_vnni /proc/cpuinfo || { skip "$what" "this processor has no AVX-512"; return; }
    set -- x86_64-w64-mingw32-gcc -O1 $sets
    compiled "$what is read" in_shape "$out/golden.i" tests/test_golden.c "$@" || return
    compiled "$what" "$@" -static -w -fexpensive-optimizations -ffp-contract=fast -o "$out/golden.exe" \
        "$out/golden.i" -lm && has_wine windows_cl && counted "windows_cl, golden" "$(wine)" "$out/golden.exe"
}
