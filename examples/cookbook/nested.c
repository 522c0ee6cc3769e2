/* nested: reads documents, which are lists of sentences, which are lists of words
     cc -O2 -o nested examples/cookbook/nested.c -lm && ./nested */
#define FOLD_IMPLEMENTATION
#include "../../fold.h"
#include <stdio.h>

enum { WORDS = 50, WIDTH = 16, MOST = 10 };
typedef struct { fold_param words; fold_recurrent reader, judge; } net;
typedef struct { const int *word, *sentence, *start; int words, sentences; } document;

/* [index] */
/* All words of a document as one list: word i belongs to sentence[i]. Returns a list of the sentences. */
static fold_node by_index(fold_ctx *f, const net *n, const document *d)
{
    fold_node words = fold_list_lookup(f, n->words, d->word, d->words);
    return fold_list_mean_to(f, words, d->sentence, d->words, d->sentences);
}
/* [end] */

/* A list for each sentence, whose last states are joined. Returns a list of the sentences. */
static fold_node by_sentence(fold_ctx *f, const net *n, const document *d)
{
    fold_node sentence[MOST];
    for (int i = 0; i < d->sentences; i++) {
        const int *word = d->word + d->start[i];
        fold_state last;
        fold_node words = fold_list_lookup(f, n->words, word, d->start[i + 1] - d->start[i]);
        fold_unroll_list(f, &n->reader, words, 0, NULL, &last);
        sentence[i] = last.h;
    }
    return fold_list_join(f, sentence, d->sentences);
}

int main(void)
{
    static const int word[] = { 3, 1, 4, 1, 5, 9, 2, 6 }, sentence[] = { 0, 0, 0, 1, 2, 2, 2, 2 };
    static const int start[] = { 0, 3, 4, 8 };
    static const document documents[2] = { { word, sentence, start, 8, 3 }, { word, sentence, start, 4, 2 } };
    fold_model *m = fold_model_new(NULL);
    net n;
    n.words = fold_table_new(m, "words", WORDS, WIDTH);
    n.reader = fold_gru_new(m, "reader", WIDTH, WIDTH);
    n.judge = fold_gru_new(m, "judge", WIDTH, WIDTH);
    fold_ctx *f = fold_ctx_new(m, NULL);
    fold_node roots[4];
    for (int i = 0; i < 4; i++) {
        const document *d = &documents[i / 2];
        fold_node sentences = i % 2 ? by_sentence(f, &n, d) : by_index(f, &n, d);
        fold_state last;
        fold_unroll_list(f, &n.judge, sentences, 0, NULL, &last);
        roots[i] = last.h;
    }
    if (fold_run(f, roots, 4)) return puts(fold_ctx_message(f)), 1;
    printf("%d nodes in %d batches\n", fold_ctx_stats(f).run_nodes, fold_ctx_stats(f).batches);
    fold_ctx_free(f);
    fold_model_free(m);
    return 0;
}
