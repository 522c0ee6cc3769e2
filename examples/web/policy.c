/* The functions of policy.html, compiled to WebAssembly by `make web`: they open an ONNX file that lies in memory, say
   what it has, run it step by step and print it as C.

   Only one file is open at a time. make_room frees all of the last one before the next is read. */
#include "../policy.c"

#define PAGE(name) __attribute__((export_name(#name))) name

enum { HIDDEN = 8 }; /* values that the example remembers */

static struct {
    unsigned char *bytes; /* of the file, while it is read */
    fold_model *model;
    fold_onnx *file;
    fold_ctx *live;                           /* has recorded one sample, which it replays */
    fold_onnx_value in[MOST], out[MOST];      /* all inputs; the outputs that are computed */
    int n_in, n_out, state_of[MOST];          /* state_of[output]: the input that it is in the next step, or -1 */
    float *in_at[MOST], *out_at[MOST], *memory; /* the values of all inputs and outputs, one after another */
    int is_recorded;
    char problem[400];
    unsigned char *text; /* of the C file */
    size_t text_size, text_room;
    fold_to_c_result printed;
} page;

static int refuse(const char *why)
{
    snprintf(page.problem, sizeof page.problem, "%s", why);
    return 0;
}
const char *PAGE(problem)(void) { return page.problem; }

void PAGE(forget)(void)
{
    fold_ctx_free(page.live);
    fold_onnx_close(page.file);
    fold_model_free(page.model);
    free(page.bytes);
    free(page.memory);
    free(page.text);
    memset(&page, 0, sizeof page);
}

/* Forgets the last file. Returns where the page writes the next one, or NULL if there is no memory for it. */
unsigned char *PAGE(make_room)(int size)
{
    forget();
    page.bytes = (unsigned char *)malloc((size_t)size + 1);
    if (!page.bytes) refuse("the browser has no memory for a file of this size");
    return page.bytes;
}

/* ---- states -------------------------------------------------------------------------------------- */

/* The input that an output is in the next step; -1: there is none. */
static int find_state(const char *output)
{
    for (int i = 0; i < page.n_in; i++) {
        const char *next = next_state(page.file, fold_onnx_input(page.file, i));
        if (next && !strcmp(next, output)) return i;
    }
    return -1;
}

/* ---- opening ------------------------------------------------------------------------------------- */

static int record(void)
{
    page.live = fold_ctx_new(page.model, NULL);
    for (int i = 0; i < page.n_in; i++)
        page.in[i].node = fold_input_ref(page.live, page.in_at[i], fold_shape1(fold_onnx_input(page.file, i).count));
    if (fold_onnx_record(page.file, page.live, page.in, page.n_in, NULL, page.out, page.n_out))
        return refuse(fold_ctx_message(page.live));
    for (int i = 0; i < page.n_out; i++) fold_keep(page.live, page.out[i].node);
    page.is_recorded = !fold_run(page.live, NULL, 0);
    return page.is_recorded || refuse(fold_ctx_message(page.live));
}

static int lay_out(void)
{
    size_t count = 0;
    for (int i = 0; i < page.n_in; i++) count += (size_t)fold_onnx_input(page.file, i).count;
    for (int i = 0; i < page.n_out; i++) count += (size_t)fold_onnx_find(page.file, page.out[i].name).count;
    page.memory = (float *)calloc(count + 1, sizeof *page.memory);
    if (!page.memory) return refuse("the browser has no memory for the inputs and outputs");
    float *at = page.memory;
    for (int i = 0; i < page.n_in; at += fold_onnx_input(page.file, i++).count) page.in_at[i] = at;
    for (int i = 0; i < page.n_out; at += fold_onnx_find(page.file, page.out[i++].name).count) page.out_at[i] = at;
    return 1;
}

/* Opens the file in make_room's memory. Returns 0 if it is refused; `problem` says why. If it is open and cannot be run,
   `problem` says why, too. */
int PAGE(open_file)(int size)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.inference = 1;
    page.model = fold_model_new(&desc);
    page.file = fold_onnx_open_memory(page.model, page.bytes, (size_t)size, NULL);
    free(page.bytes);
    page.bytes = NULL;
    if (!page.file) return refuse(page.model ? fold_model_message(page.model) : "the browser has no memory for a model");
    if (fold_onnx_input_count(page.file) > MOST) return refuse("this page has no room for more than 64 inputs");
    page.n_in = fold_onnx_input_count(page.file);
    for (int i = 0; i < page.n_in; i++) page.in[i].name = fold_onnx_input(page.file, i).name;
    for (int i = 0; i < fold_onnx_output_count(page.file) && page.n_out < MOST; i++) {
        const fold_onnx_tensor tensor = fold_onnx_output(page.file, i);
        if (tensor.count && !tensor.is_constant) page.out[page.n_out++].name = tensor.name;
    }
    for (int i = 0; i < page.n_out; i++) page.state_of[i] = -1;
    for (int i = 0; i < page.n_out; i++) page.state_of[i] = find_state(page.out[i].name);
    if (page.n_out && lay_out()) record();
    return 1;
}

/* ---- what the file has --------------------------------------------------------------------------- */

int PAGE(input_count)(void) { return page.n_in; }
int PAGE(output_count)(void) { return fold_onnx_output_count(page.file); }
int PAGE(computed_count)(void) { return page.n_out; }

/* The pointers are valid until the next call. */
const fold_onnx_tensor *PAGE(input)(int index)
{
    static fold_onnx_tensor tensor;
    tensor = fold_onnx_input(page.file, index);
    return &tensor;
}
const fold_onnx_tensor *PAGE(output)(int index)
{
    static fold_onnx_tensor tensor;
    tensor = fold_onnx_output(page.file, index);
    return &tensor;
}
const fold_onnx_tensor *PAGE(computed)(int index)
{
    static fold_onnx_tensor tensor;
    tensor = fold_onnx_find(page.file, page.out[index].name);
    return &tensor;
}

/* Why an output is not computed. */
const char *PAGE(why_not)(int index)
{
    static char why[240];
    fold_onnx_value out = { fold_onnx_output(page.file, index).name, NULL, FOLD_NULL_NODE };
    fold_ctx *f = fold_ctx_new(page.model, NULL);
    fold_onnx_record(page.file, f, NULL, 0, NULL, &out, 1);
    snprintf(why, sizeof why, "%s", fold_ctx_message(f));
    fold_ctx_free(f);
    return why;
}

int PAGE(metadata_count)(void) { return fold_onnx_metadata_count(page.file); }
const char *PAGE(metadata_key)(int index) { return fold_onnx_metadata_key(page.file, index); }
const char *PAGE(metadata)(int index) { return fold_onnx_metadata(page.file, metadata_key(index)); }

int PAGE(parameters)(void)
{
    int count = 0;
    for (int i = 0; i < fold_param_count(page.model); i++) {
        const fold_shape shape = fold_param_shape(page.model, fold_param_at(page.model, i));
        int values = 1;
        for (int k = 0; k < shape.rank; k++) values *= shape.dim[k];
        count += values;
    }
    return count;
}

/* ---- running ------------------------------------------------------------------------------------- */

int PAGE(is_recorded)(void) { return page.is_recorded; }
float *PAGE(input_values)(int index) { return page.in_at[index]; }
const float *PAGE(computed_values)(int index) { return page.out_at[index]; }
int PAGE(state_of)(int index) { return page.state_of[index]; }

/* Whether an output is taken for a state, if it can be one. */
void PAGE(feed_back)(int index, int is_state)
{
    page.state_of[index] = -1;
    if (is_state) page.state_of[index] = find_state(page.out[index].name);
}

/* Computes the outputs from what the inputs are now, so many times over. Returns 0 if it fails. */
int PAGE(compute)(int times)
{
    for (int i = 0; i < times; i++)
        if (fold_replay(page.live)) return refuse(fold_ctx_message(page.live));
    for (int i = 0; i < page.n_out; i++)
        if (fold_read(page.live, &page.out[i].node, 1, page.out_at[i])) return refuse(fold_ctx_message(page.live));
    return 1;
}

/* Makes the states that were computed those of the next step. */
void PAGE(advance)(void)
{
    for (int i = 0; i < page.n_out; i++)
        if (page.state_of[i] >= 0)
            memcpy(page.in_at[page.state_of[i]], page.out_at[i],
                   (size_t)fold_onnx_find(page.file, page.out[i].name).count * sizeof(float));
}

/* ---- as C ---------------------------------------------------------------------------------------- */

static int append(const void *bytes, size_t size, void *user)
{
    (void)user;
    if (size > page.text_room - page.text_size) {
        const size_t room = 2 * (page.text_room + size) + 4096;
        unsigned char *grown = (unsigned char *)realloc(page.text, room);
        if (!grown) return 1;
        page.text = grown;
        page.text_room = room;
    }
    memcpy(page.text + page.text_size, bytes, size);
    page.text_size += size;
    return 0;
}

/* Names all inputs and outputs as arguments, and pairs of both as states. */
typedef struct ports { fold_to_c_port in[MOST], out[MOST], state[MOST]; char names[3][MOST][48]; } ports;
static fold_to_c_desc describe(fold_ctx *f, ports *p, fold_onnx_value *in, fold_onnx_value *out)
{
    fold_to_c_desc desc = fold_to_c_desc_default();
    int output_of[MOST];
    for (int i = 0; i < page.n_in; i++) output_of[i] = -1;
    for (int i = 0; i < page.n_out; i++) {
        if (page.state_of[i] >= 0) output_of[page.state_of[i]] = i;
        out[i].name = page.out[i].name;
    }
    for (int i = 0; i < page.n_in; i++) {
        const int is_state = output_of[i] >= 0, at = is_state ? desc.n_state++ : desc.n_in++;
        fold_to_c_port *port = is_state ? &p->state[at] : &p->in[at];
        name_port(p->names[is_state], at, is_state ? "state" : "in", page.in[i].name);
        in[i].name = page.in[i].name;
        in[i].values = NULL;
        in[i].node = port->node = fold_zeros(f, fold_shape1(fold_onnx_input(page.file, i).count));
        port->name = p->names[is_state][at];
    }
    fold_onnx_record(page.file, f, in, page.n_in, NULL, out, page.n_out);
    for (int i = 0, state = 0; i < page.n_in; i++)
        if (output_of[i] >= 0) p->state[state++].next = out[output_of[i]].node;
    for (int i = 0; i < page.n_out; i++) {
        if (page.state_of[i] >= 0) continue;
        name_port(p->names[2], desc.n_out, "out", page.out[i].name);
        p->out[desc.n_out].name = p->names[2][desc.n_out];
        p->out[desc.n_out++].node = out[i].node;
    }
    desc.in = p->in;
    desc.out = p->out;
    desc.state = p->state;
    return desc;
}

/* Prints the network for one agent, with weights as int8 if `bits` is 8. Returns the size of the text, or 0: `problem`
   says why. */
int PAGE(print)(int bits)
{
    static ports named;
    static char source[80];
    fold_onnx_value in[MOST], out[MOST];
    fold_ctx_desc eager = fold_ctx_desc_default();
    eager.eager = 1;
    page.text_size = 0;
    memset(&named, 0, sizeof named);
    fold_ctx *f = fold_ctx_new(page.model, &eager);
    fold_to_c_desc desc = describe(f, &named, in, out);
    snprintf(source, sizeof source, "an ONNX file of %d parameters", parameters());
    desc.name = "policy";
    desc.source = source;
    desc.bytes = bits == 8 ? LEAST_BYTES : 0;
    desc.print_op = fold_onnx_print;
    if (fold_ctx_status(f)) refuse(fold_ctx_message(f));
    else {
        page.printed = fold_to_c(f, &desc, append, NULL);
        if (page.printed.status) page.text_size = 0, refuse(page.printed.message);
    }
    fold_ctx_free(f);
    return (int)page.text_size;
}
const unsigned char *PAGE(text)(void) { return page.text; }
int PAGE(weight_bytes)(void) { return (int)page.printed.weight_bytes; }
int PAGE(state_bytes)(void) { return (int)page.printed.state_bytes; }
int PAGE(work_bytes)(void) { return (int)page.printed.work_bytes; }

/* ---- an example ---------------------------------------------------------------------------------- */

/* Writes the file of a policy of two joints that remembers, h_out = tanh(obs W + h_in R + b), to make_room's memory.
   Returns its size. */
int PAGE(write_example)(void)
{
    static message graph, file;
    fold_random r = fold_random_new(3, 0);
    graph.size = 0;
    put_value(&graph, 11, "obs", 4);
    put_value(&graph, 11, "h_in", HIDDEN);
    put_weight(&graph, &r, "observe.weight", 4, HIDDEN);
    put_weight(&graph, &r, "observe.bias", 1, HIDDEN);
    put_weight(&graph, &r, "remember.weight", HIDDEN, HIDDEN);
    put_weight(&graph, &r, "act.weight", HIDDEN, 2);
    put_weight(&graph, &r, "act.bias", 1, 2);
    put_node(&graph, "Gemm", "obs", "observe.weight", "observe.bias", "observed");
    put_node(&graph, "MatMul", "h_in", "remember.weight", NULL, "remembered");
    put_node(&graph, "Add", "observed", "remembered", NULL, "both");
    put_node(&graph, "Tanh", "both", NULL, NULL, "h_out");
    put_node(&graph, "Gemm", "h_out", "act.weight", "act.bias", "actions");
    put_value(&graph, 12, "actions", 2);
    put_value(&graph, 12, "h_out", HIDDEN);
    put_file(&file, &graph);
    unsigned char *to = make_room((int)file.size);
    if (to) memcpy(to, file.bytes, file.size);
    return to ? (int)file.size : 0;
}
const unsigned char *PAGE(example)(void) { return page.bytes; }
