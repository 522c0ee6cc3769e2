/* printed.h - the beginning and the end of files that compare what examples/fold_to_c.h printed with what it must give. */

static void write_begin(FILE *file)
{
    fprintf(file, "#include <stdio.h>\n#include <string.h>\n"
                  "static int differs(float x, unsigned want)\n{\n    unsigned bits;\n    memcpy(&bits, &x, sizeof bits);\n"
                  "    if ((want & 0x7fffffffu) > 0x7f800000u) return (bits & 0x7fffffffu) <= 0x7f800000u; /* NaN */\n"
                  "    return bits != want;\n}\n");
}
static void write_end(FILE *file, const char *names, int count)
{
    fprintf(file, "int main(void)\n{\n    int failed = 0;\n%s    printf(\"%%d passed, %%d failed\\n\", %d - failed, failed);\n    return failed;\n}\n", names, count);
}
