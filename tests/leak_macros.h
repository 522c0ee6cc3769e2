/* What leak checkers (MSVC's _CRTDBG_MAP_ALLOC, stb_leakcheck.h) and socket libraries (lwIP) make macros of, before they include
   anything else: names of functions as macros of so many arguments. A member of that name must not be called as one. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h> /* round, floor and so on are macros there */
#include <time.h>
#include <unistd.h>
#define malloc(size) ((malloc)(size))
#define calloc(count, size) ((calloc)(count, size))
#define realloc(memory, size) ((realloc)(memory, size))
#define free(memory) ((free)(memory))
#define alloc(size) ((malloc)(size))
#define strdup(text) ((strdup)(text))
#define strndup(text, size) ((strndup)(text, size))
#define aligned_alloc(align, size) ((aligned_alloc)(align, size))
#define memcpy(to, from, size) ((memcpy)(to, from, size))
#define memmove(to, from, size) ((memmove)(to, from, size))
#define memset(to, byte, size) ((memset)(to, byte, size))
#define open(...) ((open)(__VA_ARGS__))
#define read(file, to, size) ((read)(file, to, size))
#define write(file, from, size) ((write)(file, from, size))
#define clock() ((clock)())
