/* What a program needs to start on an emulated Cortex-M without an operating system: its vectors, and the floating-point unit
   switched on. Output, files and exit go through semihosting (rdimon.specs). tests/cross links it. */

extern void _start(void);

static void reset(void)
{
    *(volatile unsigned *)0xe000ed88u |= 0xfu << 20; /* CPACR: access to the floating-point unit */
    __asm__ volatile("dsb\n isb");
    _start();
}

/* The first two words of memory: the end of the stack and where to start. */
extern void (*const vectors[16])(void);
__attribute__((section(".vectors"), used)) void (*const vectors[16])(void) = { (void (*)(void))0x20400000u, reset };
