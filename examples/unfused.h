/* unfused.h - the same results on every compiler and with all flags, for a program's own arithmetic.

   Where the processor has multiply-adds (-march=native, -mfma, AArch64), compilers turn `a * b + c` into one, which rounds
   once instead of twice: gcc wherever it can, clang within an expression. A simulation then takes a different course. fold.h
   prevents that in its own code, and this header in whatever follows it: include it after all others, or copy the lines.
   With -ffp-contract=fast clang ignores it. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
#pragma fp_contract(off) /* on until Visual Studio 2022 17.0 */
#endif
