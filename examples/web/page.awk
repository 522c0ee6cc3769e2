# Makes a page of the site: awk -v source=FILE -f page.awk PAGE.html
# A line @FILE@ becomes the text of that file, @source@ the text of the source file, escaped, and @name@ its name.
function include(file, escape,   line, got) {
    while ((got = (getline line <file)) > 0) {
        if (escape) { gsub(/&/, "\\&amp;", line); gsub(/</, "\\&lt;", line) }
        print line
    }
    if (got < 0) { print "page.awk: there is no " file >"/dev/stderr"; exit 1 }
}
/^@source@$/ { include(source, 1); next }
/^@.*@$/ { include(substr($0, 2, length($0) - 2)); next }
{ if (source) { name = source; sub(/.*examples\//, "", name); gsub(/@name@/, name) } print }
