/* count_malloc.h - how often a program calls malloc and its kin, libraries too: malloc_calls(). glibc lets a program bring
   its own malloc; where it is another library's, or a sanitizer's, or with -DOWN_MALLOC=0 (for valgrind), OWN_MALLOC is 0
   and nothing is counted. Include it in one file, behind others. */

#ifndef COUNT_MALLOC_H
#define COUNT_MALLOC_H

#include <stdint.h> /* tells glibc */
#include <stdlib.h>

#ifndef OWN_MALLOC
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OWN_MALLOC 1
#else
#define OWN_MALLOC 0
#endif
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#undef OWN_MALLOC
#define OWN_MALLOC 0
#endif
#endif

#if OWN_MALLOC
#ifdef __cplusplus
#define NO_THROW noexcept
extern "C" {
#else
#define NO_THROW
#endif
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);
static long mallocs; /* by all threads */
static void count_malloc(void) { __atomic_add_fetch(&mallocs, 1, __ATOMIC_RELAXED); }
void *malloc(size_t size) NO_THROW { count_malloc(); return __libc_malloc(size); }
void *calloc(size_t n, size_t size) NO_THROW { count_malloc(); return __libc_calloc(n, size); }
void *realloc(void *p, size_t size) NO_THROW { count_malloc(); return __libc_realloc(p, size); }
void free(void *p) NO_THROW { count_malloc(); __libc_free(p); }
#ifdef __cplusplus
}
#endif
static long malloc_calls(void) { return __atomic_load_n(&mallocs, __ATOMIC_RELAXED); }
#else
static long malloc_calls(void) { return 0; }
#endif

#endif /* COUNT_MALLOC_H */
