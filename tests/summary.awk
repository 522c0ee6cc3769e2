# What ran, of the tables that tests/runner.sh writes, the counts last. Lines of a table are
#   counts|section|passed|failed|skipped|seconds of processors|job
#   note|section|what was skipped or failed
BEGIN { FS = "|" }
$1 == "counts" {
    if (!($2 in passed)) section[++sections] = $2
    passed[$2] += $3; failed[$2] += $4; skipped[$2] += $5; seconds[$2] += $6
    all_passed += $3; all_failed += $4; all_skipped += $5; all_seconds += $6
}
$1 == "note" {
    text = sprintf("  %-12s %s", $2, substr($0, length($1 $2) + 3))
    if (!times[text]++) note[++notes] = text
}
function row(title, p, f, s, t) { printf "%-12s %7d %7d %8d %8d\n", title, p, f, s, t }
END {
    if (sections > 1) {
        print "== what ran"
        printf "%-12s %7s %7s %8s %8s\n", "", "passed", "failed", "skipped", "seconds of processors"
        for (i = 1; i <= sections; i++) {
            each = section[i]
            row(each, passed[each], failed[each], skipped[each], seconds[each])
        }
        row("all", all_passed, all_failed, all_skipped, all_seconds)
    }
    if (notes) print "skipped or failed:"
    for (i = 1; i <= notes; i++) print note[i] (times[note[i]] > 1 ? " (" times[note[i]] " times)" : "")
    printf "%d seconds, %d of processors\n", wall, all_seconds
    printf "%d passed, %d failed, %d skipped\n", all_passed, all_failed, all_skipped
    exit all_failed > 0
}
