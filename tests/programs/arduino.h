/* What examples/sketch/sketch.ino uses of Arduino's core, on a desktop: the sketch is compiled as C++, with -include. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEX = 16 };
struct serial_port {
    void begin(long) {}
    void print(const char *text) { printf("%s", text); }
    void print(int number) { printf("%d", number); }
    void print(unsigned long number) { printf("%lu", number); }
    void print(double number, int digits) { printf("%.*f", digits, number); }
    void println(double number, int digits) { printf("%.*f\n", digits, number); }
    void println(uint32_t number, int) { printf("%lX\n", (unsigned long)number); }
    [[noreturn]] void flush() { exit(fflush(stdout)); } /* where a board sleeps */
};
static serial_port Serial;
static unsigned long micros() { return 0; }

void setup();
void loop();
int main()
{
    setup();
    for (;;) loop();
}
