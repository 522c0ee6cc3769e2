# A main for a policy.c that examples/fold_to_c.h printed, whose first comment names its arrays, each on a line of
# its own: "reads NAME[ROWS][COLUMNS] …" or "writes …". It reads numbers until there are no more, and prints
# what the policy makes of them.
BEGIN { print "#include <stdio.h>\n#include \"policy.c\"" }
/^ *(reads|writes) / && !body {
    size = 1
    for (i = 3; i <= NF; i++) { gsub(/[^0-9]/, "", $i); if ($i) size *= $i }
    print "static float " $2 "[" size "];"
    way[++n] = $1; name[n] = $2
}
/^#ifndef/ { body = 1 }
function each(wanted, text, i) {
    for (i = 1; i <= n; i++) if (way[i] == wanted) {
        printf "for (size_t k = 0; k < sizeof %s / 4; k++) ", name[i]
        printf text "\n", name[i]
    }
}
END {
    print "int main(void) {"
    each("reads", "if (scanf(\"%%f,\", &%s[k]) != 1) return 1;")
    printf "policy_step("
    for (i = 1; i <= n; i++) printf "%s%s", (i > 1 ? ", " : ""), name[i]
    print ");"
    each("writes", "printf(\"%%.9g,\", (double)%s[k]);")
    print "return puts(\"\") < 0; }"
}
