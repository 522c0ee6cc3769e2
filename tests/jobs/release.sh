# What make release writes, unpacked and used as others would; and its sketch on an emulated Arduino Uno.

archives() { # leaves the unpacked one in $bin/unpacked
    git rev-parse --git-dir >/dev/null 2>&1 || { skip "make release" "this is no clone"; return; }
    version=$(sed -nE 's/^#define FOLD_VERSION_(MAJOR|MINOR|PATCH) //p' fold.h | paste -sd . -)
    mkdir -p "$out/site" && echo "<!DOCTYPE html>" >"$out/site/index.html" # make web is another job's
    CFLAGS=-O0
    linked_to "$bin/fold.o" policy examples/policy.c || return
    step "make release" make -s release OUT="$out/first" POLICY="$out/policy" URL=https://example.org/fold \
        PAGES="$out/site" || return
    archive=$PWD/$out/first/fold-$version.tar.gz
    counted "what is in the archives" python3 tests/check_release.py "$archive" "$(git rev-parse HEAD)"
    step "other folders, times, zones and rights of files: the same bytes" again
    rm -rf "$bin/unpacked" && mkdir -p "$bin/unpacked" && tar xzf "$archive" -C "$bin/unpacked"
    unpacked=$PWD/$bin/unpacked/fold-$version
    step "unpacked, hello compiles by its one line" sh -c "cd '$unpacked' && $(first_line)"
    step "unpacked, headers are found in src" $CC -O0 -I"$unpacked/src" -fsyntax-only -x c "$out/includes.c"
    if needs "the archive by CMake" cmake; then
        step "CMake makes a component of ESP-IDF of it" component
        ! has_cpp "the archive in a C++ project by CMake" "" || by_cmake
    fi
}
again() (
    umask 077
    git clone -q . "$out/clone" && git ls-files -z | xargs -0 cp --parents -t "$out/clone" &&
        TZ=Asia/Tokyo python3 "$out/clone/tests/release.py" --out "$out/second" --url https://example.org/fold \
            --network "$PWD/$out/first/network.h" --site "$PWD/$out/site" || return 1
    for each in .tar.gz .zip -notes.md; do
        cmp "$out/first/fold-$version$each" "$out/second/fold-$version$each" || return 1
    done
)
first_line() { # of hello, by the compiler that needs least time; and includes.c, which includes all headers
    for each in fold.h examples/fold_*.h; do echo "#include \"$(basename "$each")\""; done >"$out/includes.c"
    if have tcc; then quick=tcc; else quick="$CC -O0"; fi
    sed -n "1s|.*\(cc .* -lm\).*|\1|; 1s|^cc -O2|$quick|p" examples/hello.c
}
component() ( # what ESP-IDF reads of CMakeLists.txt
    cat >"$out/component.cmake" <<END
set(ESP_PLATFORM ON)
function(idf_component_register)
    cmake_parse_arguments(component "" "" "INCLUDE_DIRS" \${ARGN})
    if(NOT EXISTS "$unpacked/\${component_INCLUDE_DIRS}/fold.h")
        message(FATAL_ERROR "no fold.h in '\${component_INCLUDE_DIRS}'")
    endif()
    message("component: \${component_INCLUDE_DIRS}")
endfunction()
include("$unpacked/CMakeLists.txt")
END
    cmake -P "$out/component.cmake" 2>&1 | grep "^component: src$"
)
by_cmake() { # the archive itself, as a project of C++ fetches it
    mkdir -p "$out/app"
    cat >"$out/app/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(app CXX)
include(FetchContent)
FetchContent_Declare(fold URL "$archive" URL_HASH SHA256=$(sed -n 's/^| .*\.tar\.gz | \(.*\) |$/\1/p' "$out/first/"*-notes.md))
FetchContent_MakeAvailable(fold)
add_executable(app main.cpp)
target_compile_definitions(app PRIVATE $(echo $declarations | sed 's/^-D//'))
target_link_libraries(app fold::fold "$PWD/$bin/fold.o" pthread)
END
    cat >"$out/app/main.cpp" <<'END'
#include "fold.h"
#include <cstdio>
int main()
{
    fold_model *m = fold_model_new(NULL);
    std::printf("fold.h %s %d\n", FOLD_VERSION, fold_model_status(m));
    fold_model_free(m);
}
END
    step "a C++ project fetches the archive by CMake" cmake -S "$out/app" -B "$out/app/made" &&
        step "it is built" cmake --build "$out/app/made" &&
        step "it has this version" says "$out/app/made/app" "^fold.h $version.* 0$"
}

# -- the sketch ----------------------------------------------------------------------------------------
# On an Arduino Uno, with 2 KB of RAM, floats in software and ints of 16 bits.
sketch() {
    cores=/usr/share/arduino/hardware # of Debian's arduino-core-avr
    [ -d "$cores/arduino/avr" ] || { skip "the sketch" "there is no $cores/arduino/avr"; return; }
    step "the archive is there" test -d "$bin/unpacked" || return
    folder=$PWD/$(echo "$bin"/unpacked/fold-*)
    for_uno sketch "$folder/examples/sketch/sketch.ino" || return
    step "the sketch compiles without warnings" sh -c "! grep -i 'sketch.*warning' '$out/sketch.log'"
    ran=$(on_uno sketch)
    step "the sketch runs" says "echo '$ran'" "^RESULT sketch steps=200 .* hash="
    if has_cpp "the sketch on the desktop" -std=c++17; then
        compiled "the sketch here" $CXX -std=c++17 $warnings -O1 -x c++ -include tests/programs/arduino.h -o "$out/here" \
            "$folder/examples/sketch/sketch.ino" && here=$("$out/here")
        step "it has the desktop's bits" same_hash_as "$ran" "$here"
    fi
    echo "$ran" | grep '^RESULT'
    grep '^Global variables' "$out/sketch.log"

    mkdir -p "$out/library" # src and library.properties, as the IDE reads them
    printf '#include <fold_to_c.h>\n#include <avr/sleep.h>\nvoid loop() {}\nvoid setup() { Serial.begin(115200); %s }\n' \
        'Serial.println(FOLD_VERSION); Serial.flush(); noInterrupts(); sleep_mode();' >"$out/library/library.ino"
    for_uno library "$out/library/library.ino" -libraries "${folder%/*}" &&
        step "an Arduino library: its header is found" says "on_uno library" "^${folder##*-}"
}
for_uno() { # name, sketch, options…: compiles it. Its WString.cpp needs DECIMAL_DIG, which gcc 5 has in C alone
    name=$1 source=$2; shift 2
    mkdir -p "$out/$name.made"
    step "$name compiles for an Uno" logged "$out/$name.log" arduino-builder -compile -tools /usr/bin \
        -hardware "$cores" -hardware /usr/share/arduino-builder \
        -prefs=compiler.cpp.extra_flags=-DDECIMAL_DIG=__DECIMAL_DIG__ -warnings all \
        -fqbn arduino:avr:uno -build-path "$PWD/$out/$name.made" "$@" "$source"
}
logged() { # file, command…
    log=$1; shift
    "$@" >"$log" 2>&1 || { cat "$log"; return 1; }
}
on_uno() { # name: what it prints, without the simulator's colours and dots for carriage returns
    timeout 60 simavr -m atmega328p -f 16000000 "$out/$1.made/$1.ino.elf" 2>&1 |
        sed "s/$(printf '\033')\[[0-9;]*m//g; s/\.\.$//"
}
same_hash_as() { # what two programs printed
    echo "$1" | sed -n 's/^RESULT.* hash=//p' >"$out/hash.1"
    echo "$2" | sed -n 's/^RESULT.* hash=//p' >"$out/hash.2"
    test -s "$out/hash.1" && diff "$out/hash.1" "$out/hash.2"
}
