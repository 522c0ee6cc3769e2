/* lists: each line is a sentence, a list of words as long as it likes. All of them run together, without padding.

     cc -O2 -o lists examples/web/lists.c -lm && ./lists

   The playground runs these functions, and shows this program with the lines that you typed. */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

static const char *const sentence[] = {
    "the hawk sees a bird",
    "birds scatter",
};

enum { WORDS = 1000, LONGEST = 100, WORD_WIDTH = 32, CLASSES = 2 };
typedef struct { fold_param words; fold_recurrent read; fold_dense classify; } sentence_net;

static sentence_net sentence_net_new(fold_model *m)
{
    sentence_net n;
    n.words = fold_table_new(m, "words", WORDS, WORD_WIDTH);
    n.read = fold_gru_new(m, "read", WORD_WIDTH, WORD_WIDTH);
    n.classify = fold_dense_new(m, "classify", WORD_WIDTH, CLASSES, FOLD_ACT_LINEAR);
    return n;
}

/* Writes a row of the table for each word; a word has the row that its letters add up to. Returns how many. */
static int words_of(const char *line, int *word)
{
    int count = 0;
    while (*line && count <= LONGEST) {
        unsigned row = 0;
        while (*line == ' ') line++;
        if (!*line) break;
        for (; *line && *line != ' '; line++) row = row * 31 + (unsigned char)*line;
        word[count++] = (int)(row % WORDS);
    }
    return count;
}

/* Records one line: a GRU reads it word by word, and its last state is classified. If it cannot be read, *wrong says why. */
static fold_node sentence_record(fold_ctx *f, const sentence_net *n, const char *line, const char **wrong)
{
    int word[LONGEST + 1], count = words_of(line, word);
    if (count > LONGEST) *wrong = "a line has at most 100 words", count = LONGEST;
    fold_state state = fold_recurrent_zeros(f, &n->read);
    for (int i = 0; i < count; i++) state = fold_recurrent_apply(f, &n->read, fold_lookup(f, n->words, word[i]), state);
    return fold_dense_apply(f, &n->classify, state.h);
}

int main(void)
{
    enum { LINES = sizeof sentence / sizeof *sentence };
    fold_model *m = fold_model_new(NULL);
    const sentence_net n = sentence_net_new(m);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_node root[LINES];
    const char *wrong = NULL;
    for (int i = 0; i < LINES && !wrong; i++) root[i] = sentence_record(f, &n, sentence[i], &wrong);
    if (wrong) return puts(wrong), 1;
    if (fold_run(f, root, LINES)) return puts(fold_ctx_message(f)), 1;
    printf("%d calls in %d batches\n", fold_ctx_stats(f).run_nodes, fold_ctx_stats(f).batches);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
