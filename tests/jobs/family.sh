# fold.h and its companions in programs of others: in several files, in C and C++, by CMake and pkg-config. The
# program is tests/programs/family.c, which has a draw.h, fit.h and data.h of its own.

own_headers() { # folder
    for each in draw fit data; do
        name=$(echo "$each" | tr '[:lower:]' '[:upper:]')
        cat >"$1/$each.h" <<END
#ifndef ${name}_H
#define ${name}_H
#define ${name}_IMPLEMENTATION
static int yours_$each(void) { return 2; }
#endif
END
    done
}

# -- two files ---------------------------------------------------------------------------------------
family() { # all companions, each included twice
    own_headers "$out"
    two_files "C99" "$CC -std=c99" -DIMPLEMENTS ""
    step "all public names begin with fold_" all_begin_with_fold "$out/a.o"
    two_files "hidden visibility" "$CC -std=c99 -fvisibility=hidden" -DIMPLEMENTS ""
    shared_library
    older_versions
    has_cpp "companions in C++" "" || return
    private="-DIMPLEMENTS -DFOLD_STATIC"
    two_files "C++17, FOLD_STATIC" "$CXX -x c++ -std=c++17" "$private" "$private"
    step "FOLD_STATIC makes all names private" test "$(nm "$out/a.o" | grep -c ' [TDBRC] ')" = 1
}
all_begin_with_fold() { ! nm "$1" | awk '$2 ~ /^[TDBRC]$/ && $3 !~ /^_?(fold_|main$)/' | grep .; }
two_files() { # title, compiler, flags of the file with main, flags of the other, more to link
    title=$1 compiler=$2 first=$3 other=$4 more=${5:-}
    set -- $compiler $warnings -O0 -I"$out" -I. -Iexamples -c tests/programs/family.c -o
    step "companions, $title: the file with main" "$@" "$out/a.o" -DFAMILY_MAIN $first
    step "companions, $title: the other" "$@" "$out/b.o" $other
    step "companions, $title: linked" ${compiler%% *} -o "$out/family" "$out/a.o" "$out/b.o" $more -lm
    step "companions, $title: calls" "$out/family"
}
shared_library() { # has them all and exports what they declare; a program has neither
    set -- $CC -std=c99 -O0 -fvisibility=hidden -I"$out" -I. -Iexamples -x c tests/programs/family.h
    step "companions, shared library" "$@" -fPIC -shared -DIMPLEMENTS -o "$out/libfamily.so" -lm
    two_files "shared library" "$CC -std=c99 -fvisibility=hidden" "" "" "-L$out -lfamily -Wl,-rpath,$out"
    "$@" -E | grep '^extern .*fold_' | grep -oE 'fold_[a-z0-9_]+\(' | tr -d '(' | sort -u >"$out/declared"
    nm -D --defined-only "$out/libfamily.so" | sed -n 's/.* T //p' | sort >"$out/exported"
    step "companions, shared library: it exports what they declare" cmp "$out/declared" "$out/exported"
}

older_versions() { # each companion needs the version that is beside it, and says which it found instead
    set -- $(sed -n 's/^#define FOLD_VERSION_[A-Z]* //p' fold.h)
    needed=$1.$2.$3
    if [ "$3" -gt 0 ]; then set -- "$1" "$2" "$(($3 - 1))"; else set -- "$1" "$(($2 - 1))" 999; fi
    mkdir -p "$out/older"
    printf '#define FOLD_H\n#define FOLD_VERSION "%s"\n' "$1.$2.$3" >"$out/older/fold.h"
    printf '#define FOLD_VERSION_%s %s\n' MAJOR "$1" MINOR "$2" PATCH "$3" >>"$out/older/fold.h"
    for each in draw fit onnx record rl to_c torch; do
        step "fold_$each.h refuses an older fold.h" refuses_older "fold_$each.h" "$needed" "$1.$2.$3"
    done
    step "fold_onnx_ops.h says what to include instead" sh -c "
        ! $CC -DFOLD_ONNX_IMPLEMENTATION -fsyntax-only -x c examples/fold_onnx_ops.h 2>$out/refused &&
        grep '#error.*include fold_onnx.h' $out/refused"
}
refuses_older() ( # companion, the version that it needs, the one that it finds
    ! $CC -I"$out/older" -fsyntax-only -x c "examples/$1" 2>"$out/refused" &&
        grep "#error.*$1 needs fold.h $2" "$out/refused" && grep "fold.h is version.*$3" "$out/refused"
)

# -- CMake and pkg-config ------------------------------------------------------------------------------
# They take a copy of what is theirs, so that nothing else helps. To save time its library is not optimised.
cmake_projects() {
    fold=$PWD/$out/fold
    mkdir -p "$fold/examples" && cp fold.h "$fold" && cp examples/fold_*.h "$fold/examples" &&
        sed 's/-O2/-O0/' CMakeLists.txt >"$fold/CMakeLists.txt"
    export CC CXX CFLAGS="-O0 -DFOLD_ONLY_PORTABLE" CXXFLAGS="-O0 -DFOLD_ONLY_PORTABLE"
    cpp= both=C
    ! has_cpp "projects of C++ by CMake" "" || cpp=CXX both="C CXX"

    for language in C $cpp; do
        project "add_subdirectory, $language" $language fold::compiled "add_subdirectory($fold fold)"
        project "header as a source, $language" $language m "$(header_as_source $language)"
    done
    project "FetchContent, headers alone" "$both" fold::fold "include(FetchContent)
        FetchContent_Declare(fold GIT_REPOSITORY https://nowhere.invalid)
        FetchContent_MakeAvailable(fold)
        set_source_files_properties(main.c main.cpp PROPERTIES COMPILE_DEFINITIONS IMPLEMENTS)" \
        "-DFETCHCONTENT_SOURCE_DIR_FOLD=$fold"
    installed static ""
    installed shared -DBUILD_SHARED_LIBS=ON -DCMAKE_C_VISIBILITY_PRESET=hidden -DFOLD_THREADS=ON
    if echo '#include <cblas.h>' | $CC -fsyntax-only -x c - 2>/dev/null; then installed cblas -DFOLD_CBLAS=ON
    else skip "the library with cblas" "there is no cblas.h"; fi
}
header_as_source() { # language: lines that compile each header by itself
    for header in fold.h examples/fold_draw.h examples/fold_fit.h examples/fold_onnx.h \
        examples/fold_record.h examples/fold_rl.h examples/fold_to_c.h examples/fold_torch.h; do
        name=$(basename "$header" .h | tr '[:lower:]' '[:upper:]')
        echo "list(APPEND sources $fold/$header)
            set_source_files_properties($fold/$header PROPERTIES
                LANGUAGE $1 COMPILE_DEFINITIONS ${name}_IMPLEMENTATION)"
    done
    echo "include_directories($fold $fold/examples)"
}
project() { # title, languages, libraries, lines of CMakeLists.txt, options…: a program in each language
    title=$1 languages=$2 libraries=$3 lines=$4; shift 4
    folder=$out/$(echo "$title" | tr -cd a-zA-Z)
    mkdir -p "$folder" && own_headers "$folder" && cp tests/programs/family.[ch] "$folder"
    echo "cmake_minimum_required(VERSION 3.20)
        project(app $languages)
        $lines
        foreach(language $(echo "$languages" | sed 's/CXX/cpp/; s/C /c /; s/C$/c/'))
            add_executable(app_\${language} main.\${language} other.\${language} \${sources})
            target_link_libraries(app_\${language} $libraries)
        endforeach()" >"$folder/CMakeLists.txt"
    for file in other.c other.cpp; do echo '#include "family.c"' >"$folder/$file"; done
    for file in main.c main.cpp; do printf '#define FAMILY_MAIN\n#include "family.c"\n' >"$folder/$file"; done
    step "$title: configured" cmake -S "$folder" -B "$folder/made" "$@" &&
        step "$title: built" cmake --build "$folder/made" || return
    for program in "$folder"/made/app_*; do step "$title: $(basename "$program") calls" "$program"; done
}
installed() { # title, options…: found there by find_package and by pkg-config
    way=$1 place=$PWD/$out/$1 made=$out/made_$1; shift
    step "$way: configured" cmake -S "$fold" -B "$made" "-DCMAKE_INSTALL_PREFIX=$place" "$@" &&
        step "$way: built" cmake --build "$made" && step "$way: installed" cmake --install "$made" || return
    case $* in *FOLD_THREADS*) define=FAMILY_POOL ;; *) define=FAMILY ;; esac
    version=$(sed -nE 's/^#define FOLD_VERSION_(MAJOR|MINOR) //p' fold.h | paste -sd . -)
    project "$way, find_package" "$both" fold::compiled "find_package(fold $version REQUIRED)
        add_compile_definitions($define)" "-DCMAKE_PREFIX_PATH=$place"
    needs "$way, pkg-config" pkg-config || return
    set -- $(PKG_CONFIG_PATH=$(echo "$place"/lib*/pkgconfig) pkg-config --cflags --libs fold)
    step "$way, pkg-config: built" $CC "-D$define" -o "$folder/app" "$folder/main.c" "$folder/other.c" "$@" \
        "-Wl,-rpath,$place/lib" &&
        step "$way, pkg-config: app calls" "$folder/app"
}
