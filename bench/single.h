/* single.h - eight small networks that run on one sample at a time, for tests/test_to_c.c and bench/single.cpp. Include it
   behind fold.h and examples/fold_to_c.h. */

#ifndef SINGLE_H
#define SINGLE_H

enum { SINGLE_LAYERS = 7, SINGLE_CHANNELS = 8, SINGLE_TAPS = 3, SINGLE_STATES = 7, SINGLE_MOST = 1024, SINGLE_NETS = 8 };
typedef enum single_kind { SINGLE_DENSE, SINGLE_LSTM, SINGLE_GRU, SINGLE_TCN } single_kind;
typedef struct single_net {
    const char *name;
    single_kind kind;
    int inputs, hidden, outputs, n_state, state_size[SINGLE_STATES]; /* filled by single_new */
    fold_mlp mlp;
    fold_recurrent layer;
    fold_conv conv[SINGLE_LAYERS];
    fold_dense head;
} single_net;

static const struct { const char *name; single_kind kind; int inputs, hidden, outputs; } single_table[SINGLE_NETS] = {
    { "dense_8_8", SINGLE_DENSE, 1, 8, 1 }, { "dense_64_64", SINGLE_DENSE, 8, 64, 2 }, { "lstm_16", SINGLE_LSTM, 1, 16, 1 },
    { "lstm_20", SINGLE_LSTM, 1, 20, 1 }, { "lstm_40", SINGLE_LSTM, 1, 40, 1 }, { "gru_8", SINGLE_GRU, 1, 8, 1 },
    { "gru_24", SINGLE_GRU, 1, 24, 1 }, { "tcn_7_8", SINGLE_TCN, 1, SINGLE_CHANNELS, 1 }
};

/* Adds a network's layers to a model. */
static single_net single_new(fold_model *m, int index)
{
    single_net net;
    memset(&net, 0, sizeof net);
    net.name = single_table[index].name;
    net.kind = single_table[index].kind;
    net.inputs = single_table[index].inputs;
    net.hidden = single_table[index].hidden;
    net.outputs = single_table[index].outputs;
    const int sizes[4] = { net.inputs, net.hidden, net.hidden, net.outputs };
    if (net.kind == SINGLE_DENSE) net.mlp = fold_mlp_new(m, net.name, sizes, 3, FOLD_ACT_TANH);
    else net.head = fold_dense_new(m, "head", net.hidden, net.outputs, FOLD_ACT_LINEAR);
    if (net.kind == SINGLE_LSTM) net.layer = fold_lstm_new(m, net.name, net.inputs, net.hidden);
    if (net.kind == SINGLE_GRU) net.layer = fold_gru_new(m, net.name, net.inputs, net.hidden);
    net.n_state = net.kind == SINGLE_LSTM ? 2 : net.kind == SINGLE_GRU ? 1 : net.kind == SINGLE_TCN ? SINGLE_LAYERS : 0;
    for (int i = 0; i < net.n_state; i++) net.state_size[i] = net.hidden;
    for (int i = 0; i < SINGLE_LAYERS && net.kind == SINGLE_TCN; i++) {
        const int channels = i ? SINGLE_CHANNELS : 1, dilation = 1 << i;
        char name[20];
        fold_conv_desc desc;
        memset(&desc, 0, sizeof desc);
        desc.dilation = dilation;
        snprintf(name, sizeof name, "layer%d", i);
        net.conv[i] = fold_conv_new(m, name, fold_shape3(SINGLE_TAPS, channels, SINGLE_CHANNELS), &desc, FOLD_ACT_TANH);
        net.state_size[i] = (SINGLE_TAPS - 1) * dilation * channels;
    }
    return net;
}

/* Records a step: what comes out, and the next states. A layer of the TCN keeps the rows that its taps reach back to. */
static fold_node single_record(const single_net *net, fold_ctx *f, fold_node x, const fold_node *state, fold_node *next)
{
    if (net->kind == SINGLE_DENSE) return fold_mlp_apply(f, &net->mlp, x);
    if (net->kind != SINGLE_TCN) {
        fold_state before, after;
        memset(&before, 0, sizeof before);
        before.h = state[0];
        if (net->n_state > 1) before.c = state[1];
        after = fold_recurrent_apply(f, &net->layer, x, before);
        next[0] = after.h;
        if (net->n_state > 1) next[1] = after.c;
        return fold_dense_apply(f, &net->head, after.h);
    }
    for (int i = 0; i < SINGLE_LAYERS; i++) {
        const int channels = i ? SINGLE_CHANNELS : 1, rows = net->state_size[i] / channels;
        fold_node parts[2];
        parts[0] = fold_reshape(f, state[i], fold_shape2(rows, channels));
        parts[1] = fold_reshape(f, x, fold_shape2(1, channels));
        const fold_node all = fold_concat(f, parts, 2, 0);
        next[i] = fold_reshape(f, fold_slice(f, all, 0, 1, rows), fold_shape1(net->state_size[i]));
        x = fold_conv_apply(f, &net->conv[i], all);
    }
    return fold_dense_apply(f, &net->head, fold_reshape(f, x, fold_shape1(SINGLE_CHANNELS)));
}

/* A step that runs by fold_replay, with its memory. */
typedef struct single_run {
    fold_ctx *f;
    fold_node y;
    float in[8], state[SINGLE_STATES][SINGLE_MOST];
} single_run;
static int single_start(single_run *run, const single_net *net, fold_model *m, int eager, fold_node *in, fold_node *state, fold_node *next)
{
    fold_ctx_desc desc = fold_ctx_desc_default();
    desc.eager = eager;
    memset(run, 0, sizeof *run);
    run->f = fold_ctx_new(m, &desc);
    *in = fold_input_ref(run->f, run->in, fold_shape1(net->inputs));
    for (int i = 0; i < net->n_state; i++) state[i] = fold_input_ref(run->f, run->state[i], fold_shape1(net->state_size[i]));
    run->y = single_record(net, run->f, *in, state, next);
    fold_keep(run->f, run->y);
    for (int i = 0; i < net->n_state && !eager; i++) fold_output_ref(run->f, next[i], run->state[i]);
    return fold_ctx_status(run->f) != FOLD_OK;
}

/* Prints a network by examples/fold_to_c.h, for some agents; weights of `bytes` values and more in bytes. */
static fold_to_c_result single_print(const single_net *net, fold_model *m, const char *name, int agents, int bytes, fold_writer *write, void *user)
{
    static const char *const names[SINGLE_STATES] = { "s0", "s1", "s2", "s3", "s4", "s5", "s6" };
    static single_run run;
    fold_node x, state[SINGLE_STATES], next[SINGLE_STATES];
    fold_to_c_port in, out, states[SINGLE_STATES];
    fold_to_c_desc desc = fold_to_c_desc_default();
    single_start(&run, net, m, 1, &x, state, next);
    memset(&in, 0, sizeof in);
    in.name = "x";
    in.node = x;
    out = in;
    out.name = "y";
    out.node = run.y;
    for (int i = 0; i < net->n_state; i++) {
        states[i].name = names[i];
        states[i].node = state[i];
        states[i].next = next[i];
    }
    desc.name = name;
    desc.source = net->name;
    desc.agents = agents;
    desc.bytes = bytes;
    desc.in = &in;
    desc.out = &out;
    desc.state = states;
    desc.n_in = desc.n_out = 1;
    desc.n_state = net->n_state;
    const fold_to_c_result result = fold_to_c(run.f, &desc, write, user);
    fold_ctx_free(run.f);
    return result;
}

#endif
