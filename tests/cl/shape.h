/* shape.h - cl.exe as a header sees it, for gcc, clang and mingw: they get it by -include, before anything else.

   It reads the system's headers first, as they are meant for the compiler at work. Then it takes that compiler's names away and
   gives cl.exe's. Vectors keep their operators here; tests/cl/model takes those, and makes nothing that runs. */

#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <float.h>
#include <immintrin.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <wchar.h>
#ifdef FOLD_USE_THREADS
#include <pthread.h>
#endif
#ifdef _WIN32
#include <io.h>
#else
#include <sys/file.h>
#include <unistd.h>
#endif

/* What <intrin.h> has. */
static inline void cl_cpuidex(int out[4], int leaf, int part)
{
    __asm__ volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "a"(leaf), "c"(part));
}

static inline unsigned long long cl_xgetbv(unsigned at)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(at));
    return (unsigned long long)high << 32 | low;
}
#undef __cpuidex
#define __cpuidex cl_cpuidex
#undef _xgetbv
#define _xgetbv cl_xgetbv

/* C4996, which /sdl makes an error. */
#ifdef __cplusplus
extern "C"
#endif
    __attribute__((deprecated)) FILE *fopen(const char *path, const char *mode);

#pragma GCC system_header /* taking away what compilers define is worth a warning */

/* It has no GNU names. `__attribute` without its last underscores stays the compiler's own. */
#undef __has_attribute
#undef __has_builtin
#undef __GNUC__
#undef __GNUC_MINOR__
#undef __GNUC_PATCHLEVEL__
#undef __clang__
#undef __clang_major__
#undef __clang_minor__
#undef __MINGW32__
#undef __MINGW64__
#undef __x86_64__
#undef __x86_64
#undef __amd64__
#undef __amd64
#undef __SSE__
#undef __SSE2__
#undef __SSE2_MATH__
#undef __AVX__
#undef __AVX2__
#undef __AVX512F__
#undef __FMA__
#undef __OPTIMIZE__
#undef __OPTIMIZE_SIZE__
#undef __STDC__
#undef __STDC_VERSION__
#define __attribute__(words) cl_has_no_attribute(words)
#define __asm__ cl_has_no_asm
#define __builtin_expect cl_has_no_builtin
#define __builtin_prefetch cl_has_no_builtin

/* Visual Studio 2022 on x86-64. Its C++ calls itself C++98 in __cplusplus. */
#define _MSC_VER 1939
#define _M_X64 100
#define _M_AMD64 100
#undef __declspec
#define __declspec(word) __attribute((word))
#define __forceinline inline __attribute((always_inline))
#ifdef __cplusplus
#undef __cplusplus
#define __cplusplus 199711L
#ifndef _MSVC_LANG
#define _MSVC_LANG 201703L
#endif
#endif
