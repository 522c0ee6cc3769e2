# 400 small functions in C, a file that never changes: what compile_time measures compilers by.
BEGIN {
    for (i = 0; i < 400; i++) {
        printf "float f%d(const float *a, float *b, int n) { float s = 0; ", i
        printf "for (int i = 0; i < n; i++) { "
        printf "if (a[i] > %d) s += a[i] * b[n - 1 - i]; else b[i] = s - a[i]; } ", i
        printf "return n > %d ? s : f%d(b, b, n - 1); }\n", i, i ? i - 1 : 0
    }
}
