/* count_steps.h - how much work code does, whatever else the machine has to do: counted_steps. A step is a pass of a loop, or 64 bytes
   that the C library moves, sets or compares. Include it behind all headers of the system and before the code that is counted. */

#ifndef COUNT_STEPS_H
#define COUNT_STEPS_H

#include <stddef.h>
#include <string.h>

static long long counted_steps;

static inline void *count_memcpy(void *to, const void *from, size_t n) { counted_steps += (long long)(n / 64); return memcpy(to, from, n); }
static inline void *count_memmove(void *to, const void *from, size_t n) { counted_steps += (long long)(n / 64); return memmove(to, from, n); }
static inline void *count_memset(void *to, int byte, size_t n) { counted_steps += (long long)(n / 64); return memset(to, byte, n); }
static inline int count_memcmp(const void *a, const void *b, size_t n) { counted_steps += (long long)(n / 64); return memcmp(a, b, n); }
static inline size_t count_strlen(const char *text)
{
    const size_t n = strlen(text);
    counted_steps += (long long)(n / 64);
    return n;
}

#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wdangling-else"
#endif
#define memcpy(to, from, n) count_memcpy(to, from, n)
#define memmove(to, from, n) count_memmove(to, from, n)
#define memset(to, byte, n) count_memset(to, byte, n)
#define memcmp(a, b, n) count_memcmp(a, b, n)
#define strlen(text) count_strlen(text)
/* The else keeps an else of the code with its own if. */
#define while(...) while (++counted_steps, (__VA_ARGS__))
#define for(...) for (__VA_ARGS__) if (++counted_steps, 0) { } else

#endif /* COUNT_STEPS_H */
