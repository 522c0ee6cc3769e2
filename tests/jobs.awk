# Rows of tests/jobs.txt that run: whens, words and list choose them, as tests/runner.sh tells. Prints of each
#   section|name|programs it needs|numbers of the jobs it waits for|command
# or, for a list, section, name and command. What is wrong in the table is an error, whoever runs.
BEGIN {
    FS = " *[|] *"
    words = split(words, word, " ")
}
/^ *(#|$)/ { next }
NF != 4 || !$2 || $4 !~ /^[a-z_]+ [a-z_]/ { wrong("must be: when | name | needs | FILE FUNCTION ARGUMENTS…") }
index(" " known " ", " " $1 " ") == 0 { wrong("'" $1 "' must be one of: " known) }
$2 == "test_*" {
    count = split(sources, source, " ")
    for (i = 1; i <= count; i++) {
        gsub(/tests\/|\.c/, "", source[i])
        command = $4
        sub(/test_\*/, source[i], command)
        if (source[i] !~ /_other$/ && !(source[i] in named)) add(source[i], $3, command)
    }
    next
}
{ named[$2]; add($2, $3, $4) }
function add(job_name, needs, job_command,  i, count, need, job, file, shown) {
    if (index(" " whens " ", " " $1 " ") == 0) return
    if (job_name in number) wrong("there is a job '" job_name "' already")
    number[job_name] = ++rows
    section[rows] = title ? title : $1 == "cross" ? job_name : $1
    name[rows] = job_name; commands[rows] = job_command; chosen[rows] = !words
    file = substr(job_command, 1, index(job_command, " ") - 1)
    shown = job_name substr(job_command, length(file) + 1)
    for (i = 1; i <= words; i++) {
        if (word[i] == $1 || word[i] == file || index(shown, word[i])) chosen[rows] = 1
    }
    count = split(needs, need, " ")
    for (i = 1; i <= count; i++) {
        job = substr(need[i], 2)
        if (need[i] !~ /^@/) tools[rows] = tools[rows] " " need[i]
        else if (job in number && number[job] < rows) jobs[rows] = jobs[rows] " " number[job]
        else wrong("it waits for '" job "', which must be above it, and run with it")
    }
}
function wrong(what) {
    print "tests/jobs.txt:" NR ": " what >"/dev/stderr"
    failed = 1
    exit
}
END {
    if (failed) exit 2
    for (row = rows; row > 0; row--) { # a job is chosen with those that wait for it, which are below it
        count = chosen[row] ? split(jobs[row], need, " ") : 0
        for (i = 1; i <= count; i++) chosen[need[i]] = 1
    }
    for (row = 1; row <= rows; row++) {
        if (!chosen[row]) continue
        if (list && section[row] != shown) print "== " (shown = section[row])
        if (list) { printf "%-20s %s\n", name[row], commands[row]; continue }
        place[row] = ++queued
        waits = ""
        count = split(jobs[row], need, " ")
        for (i = 1; i <= count; i++) waits = waits " " place[need[i]]
        print section[row] "|" name[row] "|" tools[row] "|" waits "|" commands[row]
    }
}
