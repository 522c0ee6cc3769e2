/* save: a game learns while it is played. It is saved and loaded, and continues bit-identically to a game
   that was never interrupted.

     cc -O2 -o save examples/save.c -lm && ./save

   The game is rock, paper, scissors against a player with habits. Before each round the network reads the
   last eight rounds and guesses the player's move; afterwards it learns from past rounds. A single file holds
   everything: the weights, the optimiser's state and, as its `config`, the game's own state. */
#define FOLD_IMPLEMENTATION
#include "../fold.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HIDDEN = 16, MEMORY = 8, BATCH = 16, ROUNDS = 600, SAVED_AT = 100, TEXT = ROUNDS + 100 };
typedef struct game {
    fold_model *m;
    fold_param pairs; /* a row for each pair of moves */
    fold_recurrent memory;
    fold_dense guess;
    fold_random chance;
    int round, won;
    char played[ROUNDS + 1]; /* a digit a round: 3 times the player's move, plus the game's */
} game;

static int failed(const char *message) { return fprintf(stderr, "save: %s\n", message), 1; }

static void begin(game *g) /* always the same parameters, under the same names */
{
    g->m = fold_model_new(NULL);
    g->pairs = fold_table_new(g->m, "pairs", 9, HIDDEN);
    g->memory = fold_gru_new(g->m, "memory", HIDDEN, HIDDEN);
    g->guess = fold_dense_new(g->m, "guess", HIDDEN, 3, FOLD_ACT_LINEAR);
    g->chance = fold_random_new(1, 0);
}

static fold_node record(fold_ctx *f, const game *g, int round) /* the logits of what the player does in a round */
{
    fold_node x[MEMORY];
    int length = round < MEMORY ? round : MEMORY;
    for (int t = 0; t < length; t++) x[t] = fold_lookup(f, g->pairs, g->played[round - length + t] - '0');
    return fold_dense_apply(f, &g->guess, fold_unroll(f, &g->memory, x, length, 0, NULL, NULL).h);
}

static fold_status learn(fold_ctx *f, game *g) /* a step on some rounds of the past */
{
    fold_node loss[BATCH];
    fold_adam adam = fold_adam_default();
    adam.rate = 0.005f;
    fold_ctx_reset(f);
    for (int i = 0; i < BATCH; i++) {
        int round = fold_random_below(&g->chance, g->round);
        loss[i] = fold_softmax_xent(f, record(f, g, round), (g->played[round] - '0') / 3);
    }
    fold_status status = fold_backward(f, fold_mean_n(f, loss, BATCH));
    return status ? status : fold_adam_step(g->m, &adam);
}

static int player(game *g) /* mostly plays what would have won the last round: 1 wins over 0, 2 over 1, 0 over 2 */
{
    int any = fold_random_below(&g->chance, 3), habit = g->round ? (g->played[g->round - 1] - '0' + 1) % 3 : any;
    return fold_random_below(&g->chance, 5) ? habit : any;
}

static int play(game *g, int rounds) /* goes on until so many have been played */
{
    fold_ctx_desc training = fold_ctx_desc_default();
    training.training = 1;
    fold_ctx *f = fold_ctx_new(g->m, &training);
    fold_status status = fold_ctx_status(f);
    while (!status && g->round < rounds) {
        fold_ctx_reset(f);
        fold_node logits = record(f, g, g->round);
        if ((status = fold_run(f, &logits, 1))) break;
        int mine = (fold_argmax(fold_value(f, logits), 3) + 1) % 3, yours = player(g);
        g->won += mine == (yours + 1) % 3;
        g->played[g->round++] = (char)('0' + 3 * yours + mine);
        status = learn(f, g);
    }
    int wrong = status && failed(fold_ctx_message(f));
    fold_ctx_free(f);
    return wrong;
}

static int save(game *g, const char *path)
{
    char text[TEXT];
    snprintf(text, TEXT, "%d %" PRIu64 " %" PRIu64 " %s", g->won, g->chance.key, g->chance.draw, g->played);
    fold_save_desc desc = fold_save_desc_default();
    desc.state = 1; /* the optimiser's, too */
    desc.config = text;
    return fold_model_save(g->m, path, &desc) && failed(fold_model_message(g->m));
}

static int load(game *g, const char *path)
{
    char text[TEXT];
    fold_load_desc desc = fold_load_desc_default();
    desc.state = 1;
    desc.config = text;
    desc.config_size = TEXT;
    if (fold_model_load(g->m, path, &desc)) return failed(fold_model_message(g->m));
    int read = sscanf(text, "%d %" SCNu64 " %" SCNu64 " %600s", &g->won, &g->chance.key, &g->chance.draw, g->played);
    g->round = (int)strlen(g->played);
    return read != 4 && failed("the file is no game's");
}

int main(int argc, char **argv)
{
    if (argc > 1) return puts("usage: save (it has no options)"), strcmp(argv[1], "-h") != 0;
    enum { WHOLE, STOPPED, LOADED, GAMES };
    static game g[GAMES];
    for (int i = 0; i < GAMES; i++) begin(&g[i]);
    if (play(&g[WHOLE], ROUNDS) || play(&g[STOPPED], SAVED_AT) || save(&g[STOPPED], "game.safetensors")) return 1;
    if (load(&g[LOADED], "game.safetensors") || play(&g[LOADED], ROUNDS)) return 1;
    int count, won = g[STOPPED].won, later = g[LOADED].won - won;
    const float *a = fold_model_values(g[WHOLE].m, &count), *b = fold_model_values(g[LOADED].m, NULL);
    int same = !memcmp(a, b, (size_t)count * sizeof *a) && !strcmp(g[WHOLE].played, g[LOADED].played);
    printf("RESULT save won_before=%d of=%d won_after=%d of=%d same=%d\n", won, SAVED_AT, later, ROUNDS - SAVED_AT, same);
    for (int i = 0; i < GAMES; i++) fold_model_free(g[i].m);
    return !same;
}
