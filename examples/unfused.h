/* unfused.h - the same results on every compiler and with all flags, for a program's own arithmetic.

   Where the processor has multiply-adds (-march=native, -mfma, AArch64), compilers make one of `a * b + c`, which
   rounds once instead of twice: gcc wherever it can, clang within an expression. So a simulation takes another course.
   fold.h does not let them, and neither does what follows this header. Include it behind all others, or copy the lines.
   With -ffp-contract=fast clang does not listen. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
#pragma fp_contract(off) /* on until Visual Studio 2022 17.0 */
#endif
