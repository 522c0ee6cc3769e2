/* torch.h - reads networks of PyTorch, a call a layer, from a safetensors file of a state_dict, by fold_tensors of fold.h.

   In one C or C++ file:  #define TORCH_IMPLEMENTATION
                          #include "torch.h"                         // behind fold.h
   Everywhere else:       #include "torch.h"

       from safetensors.torch import save_file                       # Python
       save_file(net.state_dict(), "net.safetensors")

       fold_torch *t = fold_torch_open(m, "net.safetensors");        // C
       fold_param words = fold_torch_embedding(t, "words");
       fold_rnn_stack lstm = fold_torch_lstm(t, "lstm");
       fold_dense out = fold_torch_linear(t, "out", FOLD_ACT_LINEAR);
       if (fold_torch_close(t)) puts(fold_model_message(m));

   `name` is a module's place in the network, such as "encoder.layers.0"; "" is the network itself. A call reads the
   module's tensors, name.weight and so on. It adds the layer of that name to the model as _new would have, with the sizes
   and values of the file. You tell what is not in tensors, such as heads and strides. The layer is applied, trained and
   saved like any other, and loaded again into layers made by _new. Weights are transposed, gates put in fold.h's order,
   and two biases added up where it has one. A bias that the module has not is zero and frozen. Types are those that
   loading reads.

   Errors: a tensor that is missing, or has another shape than the others ask for, is an error of the model. The message
   names it, its shape and the shape wanted; the call gives null handles.

   It takes memory by the model's allocator alone. There are no globals. The file is C99 and C++17, and works in every
   build of fold.h, with FOLD_INFERENCE or FOLD_NO_STDIO too. */

#ifndef TORCH_H
#define TORCH_H

#ifdef __cplusplus
extern "C" {
#endif

typedef fold_tensors fold_torch;

#ifndef FOLD_NO_STDIO
/* Opens a safetensors file, as fold_tensors_open does. When it cannot be read, the model has an error, calls give null
   handles and fold_torch_close returns that error. Returns NULL when even the handle has no memory. */
fold_torch *fold_torch_open(fold_model *m, const char *path);
#endif
/* Opens a file that lies in memory, which must stay until fold_torch_close. */
fold_torch *fold_torch_open_memory(fold_model *m, const void *bytes, size_t size);
/* Frees t, before the model is freed. Returns the model's status. A tensor that no call has read, and that was not
   skipped, is an error. */
fold_status fold_torch_close(fold_torch *t);
/* Skips tensors whose names begin so; "": all that no call has read. */
void fold_torch_skip(fold_torch *t, const char *prefix);

/* Adds any tensor of rank 1 to 4, as it is, as a parameter of its name. uses are those of fold_param_desc:
   FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T for a "words.weight" that is tied to the output. */
fold_param fold_torch_param(fold_torch *t, const char *tensor, unsigned uses);
/* Reads nn.Embedding: a table for lookups. */
fold_param fold_torch_embedding(fold_torch *t, const char *name);
/* Reads nn.Linear; you tell the activation that follows. nn.GELU is FOLD_ACT_GELU, unless it approximates. */
fold_dense fold_torch_linear(fold_torch *t, const char *name, fold_activation activation);
/* Reads nn.Conv1d or nn.Conv2d, by the rank of its weight. groups is 1 or, with desc->depthwise, as many as channels.
   Values have their channels last here: [height x width x channels], [length x channels]. nn.Flatten has them first, so
   before it do
       x = fold_transpose(f, fold_transpose(f, x, 0, 2), 1, 2);      // grids
       x = fold_transpose(f, x, 0, 1);                               // lines */
fold_conv fold_torch_conv(fold_torch *t, const char *name, const fold_conv_desc *desc, fold_activation activation);
/* Reads nn.LayerNorm over one axis, nn.RMSNorm, or nn.BatchNorm1d and 2d with its running statistics, which go into gain
   and bias (FOLD_NORM_FIXED). epsilon 0: PyTorch's default, 1e-5, or 1.1920929e-7 in RMSNorm. */
fold_norm fold_torch_norm(fold_torch *t, const char *name, fold_norm_kind kind, float epsilon);
/* Read nn.RNN (of tanh), nn.LSTM or nn.GRU, of 1 to FOLD_MAX_LAYERS layers and one direction or two, without proj_size.
   The two biases of nn.LSTM and nn.RNN are loaded as their sum; a GRU keeps both. Their …Cell is read as a stack of one
   layer, whose cell[0] is a fold_recurrent. The rows of the parameter NAME.0.W tell the inputs: they are those of x and,
   but in a GRU, of h. */
fold_rnn_stack fold_torch_rnn(fold_torch *t, const char *name);
fold_rnn_stack fold_torch_lstm(fold_torch *t, const char *name);
fold_rnn_stack fold_torch_gru(fold_torch *t, const char *name);
/* Reads nn.MultiheadAttention, without add_bias_kv and add_zero_attn. */
fold_attention fold_torch_attention(fold_torch *t, const char *name, int heads);
/* Reads nn.TransformerEncoderLayer; those of an nn.TransformerEncoder are named "layers.0" and so on. A width or inner of
   0 in desc is that of the file. Its "gelu" is FOLD_ACT_GELU. */
fold_transformer fold_torch_transformer(fold_torch *t, const char *name, const fold_transformer_desc *desc);

#ifdef __cplusplus
}
#endif

#endif /* TORCH_H */

#ifdef TORCH_IMPLEMENTATION
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

/* ---- text ------------------------------------------------------------------------------------ */

/* snprintf for builds that have no stdio: it knows %s and %d. Text that is too long is cut. */
static void torch__format_v(char *text, size_t size, const char *format, va_list args)
{
    size_t at = 0;
    for (; *format; format++) {
        char number[16], *digit = number + sizeof number - 1;
        const char *from = digit;
        *digit = 0;
        if (format[0] == '%' && format[1] == 's') from = va_arg(args, const char *);
        else if (format[0] == '%' && format[1] == 'd') {
            const int value = va_arg(args, int);
            unsigned left = value < 0 ? 0u - (unsigned)value : (unsigned)value;
            do *--digit = (char)('0' + left % 10);
            while (left /= 10);
            if (value < 0) *--digit = '-';
            from = digit;
        } else {
            *--digit = *format;
            from = digit;
        }
        if (*format == '%') format++;
        while (*from && at + 1 < size) text[at++] = *from++;
    }
    text[at] = 0;
}
static void torch__format(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    torch__format_v(text, size, format, args);
    va_end(args);
}

static int torch__fail(fold_torch *t, fold_status status, const char *format, ...)
{
    char text[248];
    va_list args;
    va_start(args, format);
    torch__format_v(text, sizeof text, format, args);
    va_end(args);
    fold_model_fail(fold_tensors_model(t), status, text);
    return 0;
}

/* A name for messages, of at most 59 bytes. It is cut between characters. */
enum { TORCH__SHORT = 64 };
static const char *torch__shorten(char out[TORCH__SHORT], const char *name)
{
    size_t at = 0;
    for (; *name && (at < 56 || (at < 60 && ((unsigned char)*name & 0xc0) == 0x80)); name++) out[at++] = *name;
    memcpy(out + at, *name ? ".." : "", *name ? 3 : 1);
    return out;
}

/* "[? x 3]" of a shape, in which 0 is any length where `wanted`. */
static void torch__shape(char text[TORCH__SHORT], const int *dim, int rank, int wanted)
{
    size_t at = 0;
    *text = 0;
    for (int axis = 0; axis < rank; axis++, at += strlen(text + at)) {
        const int any = wanted && !dim[axis];
        torch__format(text + at, TORCH__SHORT - at, any ? "%s?" : "%s%d", axis ? " x " : "[", dim[axis]);
    }
    torch__format(text + at, TORCH__SHORT - at, "]");
}

/* ---- opening and closing --------------------------------------------------------------------- */

#ifndef FOLD_NO_STDIO
fold_torch *fold_torch_open(fold_model *m, const char *path) { return fold_tensors_open(m, path); }
#endif
fold_torch *fold_torch_open_memory(fold_model *m, const void *bytes, size_t size) { return fold_tensors_open_memory(m, bytes, size); }

void fold_torch_skip(fold_torch *t, const char *prefix)
{
    for (int i = 0; prefix && i < fold_tensors_count(t); i++)
        if (!strncmp(fold_tensors_at(t, i).name, prefix, strlen(prefix))) fold_tensors_take(t, i);
}

fold_status fold_torch_close(fold_torch *t)
{
    const char *left = NULL; /* the first by name */
    char shown[TORCH__SHORT];
    int count = 0;
    for (int i = 0; i < fold_tensors_count(t); i++) {
        const fold_tensor tensor = fold_tensors_at(t, i);
        if (tensor.taken) continue;
        if (!left || strcmp(tensor.name, left) < 0) left = tensor.name;
        count++;
    }
    if (left)
        torch__fail(t, FOLD_BAD_ARGUMENT,
                    "torch: no call has read '%s', the first of %d tensors that are left: read them, or fold_torch_skip them",
                    torch__shorten(shown, left), count);
    return fold_tensors_close(t);
}

/* ---- taking tensors -------------------------------------------------------------------------- */

/* Tells whether a file can be read from, under a name. */
static int torch__ready(fold_torch *t, const char *name)
{
    if (t && !name) torch__fail(t, FOLD_BAD_ARGUMENT, "torch: no name");
    return t && name && !fold_model_status(fold_tensors_model(t));
}

/* The full name of a module's part, or of a layer's parameter. One that is cut here is too long for any layer. */
typedef struct torch__name { char text[256]; } torch__name;
static torch__name torch__join(const char *name, const char *part)
{
    torch__name full;
    torch__format(full.text, sizeof full.text, "%s%s%s", name, *name ? "." : "", part);
    return full;
}

/* Looks at the tensor of a module's part, without taking it. It has no name when it is not there. */
static fold_tensor torch__look(fold_torch *t, const char *name, const char *part)
{
    const torch__name full = torch__join(name, part);
    return fold_tensors_at(t, fold_tensors_find(t, full.text));
}

/* A tensor that was taken: it has floats, and a rank of at most 4. index -1: there is none. */
typedef struct torch__tensor {
    fold_torch *file;
    int index;
    fold_shape shape;
    size_t count;
} torch__tensor;

/* Tells whether a tensor has the type and shape that are wanted; if not, an error. */
static int torch__fits(fold_torch *t, const fold_tensor *tensor, const fold_shape *wanted)
{
    static const char *const types[] = { "F32", "F16", "BF16", "F64" };
    char shown[TORCH__SHORT], there[TORCH__SHORT] = "of more than 4 axes", here[TORCH__SHORT];
    int fits = tensor->rank == wanted->rank, type = 0;
    for (int axis = 0; axis < wanted->rank && fits; axis++) fits = !wanted->dim[axis] || wanted->dim[axis] == tensor->dim[axis];
    torch__shorten(shown, tensor->name);
    while (type < 4 && strcmp(tensor->dtype, types[type])) type++;
    if (fits)
        return type < 4 || torch__fail(t, FOLD_BAD_ARGUMENT, "torch: '%s' is of type %s; F32, F16, BF16 and F64 are read", shown,
                                       tensor->dtype);
    if (tensor->rank <= FOLD_MAX_RANK) torch__shape(there, tensor->dim, tensor->rank, 0);
    torch__shape(here, wanted->dim, wanted->rank, 1);
    return torch__fail(t, FOLD_BAD_SHAPE, "torch: '%s' is %s in the file, wanted is %s", shown, there, here);
}

/* Takes a part of a module, of a wanted shape in which 0 is any length. There is none when it is missing, which only is an
   error of what `must` be, or when it does not fit. */
static torch__tensor torch__take(fold_torch *t, const char *name, const char *part, fold_shape wanted, int must)
{
    torch__tensor taken = { t, -1, { 0, { 0, 0, 0, 0 } }, 0 };
    if (!torch__ready(t, name)) return taken;
    const torch__name full = torch__join(name, part);
    const int index = fold_tensors_find(t, full.text);
    const fold_tensor tensor = fold_tensors_at(t, index);
    if (index < 0 && must) fold_tensors_missing(t, "torch", full.text);
    if (index < 0 || !torch__fits(t, &tensor, &wanted)) return taken;
    fold_tensors_take(t, index);
    taken.index = index;
    taken.count = (size_t)tensor.count;
    taken.shape.rank = tensor.rank;
    memcpy(taken.shape.dim, tensor.dim, sizeof taken.shape.dim);
    return taken;
}
static int torch__has(const torch__tensor *tensor) { return tensor->index >= 0; }

/* Tells of a module that there is nothing like it here, before its shapes are called wrong. */
static void torch__refuse(fold_torch *t, const char *name, const char *has, int count, const char *unit)
{
    char shown[TORCH__SHORT];
    torch__fail(t, FOLD_BAD_SHAPE, "torch: '%s' has %s %d%s, which fold.h does not support", torch__shorten(shown, name), has, count, unit);
}

/* Tells whether a layer can have these sizes, before others are computed from them; if not, an error. */
static int torch__sizes_fit(fold_torch *t, const char *name, int inputs, int outputs)
{
    enum { MOST = 1 << 24 };
    char shown[TORCH__SHORT];
    return (inputs > 0 && outputs > 0 && inputs <= MOST && outputs <= MOST) ||
           torch__fail(t, FOLD_BAD_ARGUMENT, "torch '%s': from %d to %d values, each is 1 to %d", torch__shorten(shown, name), inputs,
                       outputs, (int)MOST);
}

/* A weight and its bias, which may be missing. A module has them under a name of its own. */
typedef struct torch__pair { torch__tensor weight, bias; } torch__pair;
static torch__pair torch__take_pair(fold_torch *t, const char *name, const char *part, fold_shape wanted)
{
    torch__pair pair;
    char full[64];
    torch__format(full, sizeof full, "%sweight", part);
    pair.weight = torch__take(t, name, full, wanted, 1);
    torch__format(full, sizeof full, "%sbias", part);
    pair.bias = pair.weight;
    if (torch__has(&pair.weight)) pair.bias = torch__take(t, name, full, fold_shape1(pair.weight.shape.dim[0]), 0);
    return pair;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Reads values [from, from + count) of a tensor, `step` apart in `out`. */
static void torch__read(const torch__tensor *tensor, size_t from, size_t count, float *out, size_t step)
{
    fold_tensors_read(tensor->file, tensor->index, from, count, out, step);
}
static float torch__value(const torch__tensor *tensor, int index)
{
    float value = 0;
    torch__read(tensor, (size_t)index, 1, &value, 1);
    return value;
}

/* Writes rows [from, from + count) of a weight as columns of `out`, whose rows have `width` values. There the weights of an
   output lie side by side, [outputs x inputs x taps] of a filter. Here the outputs do, [taps x inputs x outputs]. */
static void torch__columns(const torch__tensor *weight, int from, int count, float *out, int width)
{
    const size_t inputs = weight->shape.rank > 2 ? (size_t)weight->shape.dim[1] : 1;
    const size_t size = weight->count / (size_t)weight->shape.dim[0], taps = size / inputs;
    for (int row = 0; row < count; row++)
        for (size_t input = 0; input < inputs; input++)
            torch__read(weight, (size_t)(from + row) * size + input * taps, taps, out + input * (size_t)width + row,
                        inputs * (size_t)width);
}

/* Loads a vector from a place on; zeros that no training changes where the module has none. */
static void torch__vector(fold_model *m, const torch__tensor *tensor, int from, fold_param param)
{
    const int count = fold_param_shape(m, param).dim[0], there = tensor && torch__has(tensor);
    float *values = fold_values_write_begin(m, param);
    if (there) torch__read(tensor, (size_t)from, (size_t)count, values, 1);
    else memset(values, 0, (size_t)count * sizeof *values);
    fold_values_write_end(m, param);
    if (!there) fold_param_freeze(m, param, 1);
}

/* Outputs [from, …) of a weight and a bias are those of a layer. */
static void torch__weights(fold_model *m, const torch__pair *pair, int from, fold_param weight, fold_param bias)
{
    if (fold_model_status(m)) return; /* the layer was not made */
    const int outputs = fold_param_shape(m, bias).dim[0];
    torch__columns(&pair->weight, from, outputs, fold_values_write_begin(m, weight), outputs);
    fold_values_write_end(m, weight);
    torch__vector(m, &pair->bias, from, bias);
}

/* ---- layers ---------------------------------------------------------------------------------- */

static fold_param torch__table(const torch__tensor *tensor, const char *name, unsigned uses)
{
    fold_param param = { 0, 0 };
    fold_param_desc desc = fold_param_desc_default();
    fold_model *m = fold_tensors_model(tensor->file);
    if (!torch__has(tensor)) return param;
    desc.name = name;
    desc.shape = tensor->shape;
    desc.uses = uses;
    param = fold_param_new(m, &desc);
    if (fold_model_status(m)) return param;
    torch__read(tensor, 0, tensor->count, fold_values_write_begin(m, param), 1);
    fold_values_write_end(m, param);
    return param;
}

fold_param fold_torch_param(fold_torch *t, const char *tensor, unsigned uses)
{
    const int rank = torch__ready(t, tensor) ? torch__look(t, "", tensor).rank : 0;
    const fold_shape any = { rank > 0 && rank <= FOLD_MAX_RANK ? rank : 1, { 0, 0, 0, 0 } };
    const torch__tensor taken = torch__take(t, "", tensor, any, 1);
    return torch__table(&taken, tensor, uses);
}

fold_param fold_torch_embedding(fold_torch *t, const char *name)
{
    const torch__tensor taken = torch__take(t, name, "weight", fold_shape2(0, 0), 1);
    return torch__table(&taken, name, FOLD_FOR_LOOKUP);
}

fold_dense fold_torch_linear(fold_torch *t, const char *name, fold_activation activation)
{
    fold_dense layer;
    memset(&layer, 0, sizeof layer);
    const torch__pair pair = torch__take_pair(t, name, "", fold_shape2(0, 0));
    if (!torch__ready(t, name)) return layer;
    fold_model *m = fold_tensors_model(t);
    layer = fold_dense_new(m, name, pair.weight.shape.dim[1], pair.weight.shape.dim[0], activation);
    torch__weights(m, &pair, 0, layer.W, layer.b);
    return layer;
}

fold_conv fold_torch_conv(fold_torch *t, const char *name, const fold_conv_desc *desc, fold_activation activation)
{
    fold_conv layer;
    fold_tensor there;
    memset(&layer, 0, sizeof layer);
    memset(&there, 0, sizeof there);
    if (torch__ready(t, name)) there = torch__look(t, name, "weight");
    const int on_lines = there.rank == 3, inputs = desc && desc->depthwise ? 1 : 0;
    const fold_shape wanted = { on_lines ? 3 : 4, { 0, inputs, 0, 0 } };
    if (inputs && there.rank == wanted.rank && there.dim[1] > 1) torch__refuse(t, name, "groups of", there.dim[1], " channels");
    const torch__pair pair = torch__take_pair(t, name, "", wanted);
    if (!torch__ready(t, name)) return layer;
    const int *dim = pair.weight.shape.dim;
    const fold_shape filter = on_lines ? fold_shape3(dim[2], dim[1], dim[0]) : fold_shape4(dim[2], dim[3], dim[1], dim[0]);
    layer = fold_conv_new(fold_tensors_model(t), name, filter, desc, activation);
    torch__weights(fold_tensors_model(t), &pair, 0, layer.W, layer.b);
    return layer;
}

/* Makes a gain and a bias that do what the running statistics of batch norm do, and its own gain and bias. */
static void torch__fix(fold_model *m, const fold_norm *norm, const torch__pair *pair, const torch__tensor *mean,
                       const torch__tensor *variance)
{
    const double epsilon = norm->epsilon == 0 ? 1e-5 : (double)norm->epsilon;
    float *gain = fold_values_write_begin(m, norm->gain), *bias = fold_values_write_begin(m, norm->bias);
    for (int i = 0; i < mean->shape.dim[0]; i++) {
        const double weight = torch__has(&pair->weight) ? (double)torch__value(&pair->weight, i) : 1;
        const double factor = weight / sqrt((double)torch__value(variance, i) + epsilon);
        const double term = torch__has(&pair->bias) ? (double)torch__value(&pair->bias, i) : 0;
        gain[i] = (float)factor;
        bias[i] = (float)(term - (double)torch__value(mean, i) * factor);
    }
    fold_values_write_end(m, norm->gain);
    fold_values_write_end(m, norm->bias);
}

static fold_norm torch__batch_norm(fold_torch *t, const char *name, float epsilon)
{
    fold_norm norm;
    torch__pair pair;
    memset(&norm, 0, sizeof norm);
    const torch__tensor mean = torch__take(t, name, "running_mean", fold_shape1(0), 1);
    const fold_shape width = fold_shape1(mean.shape.dim[0]);
    const torch__tensor variance = torch__take(t, name, "running_var", width, 1);
    pair.weight = torch__take(t, name, "weight", width, 0);
    pair.bias = torch__take(t, name, "bias", width, 0);
    if (!torch__ready(t, name)) return norm;
    const torch__name batches = torch__join(name, "num_batches_tracked");
    fold_tensors_take(t, fold_tensors_find(t, batches.text));
    fold_model *m = fold_tensors_model(t);
    norm = fold_norm_new(m, name, width.dim[0], FOLD_NORM_FIXED, epsilon);
    if (fold_model_status(m)) return norm;
    torch__fix(m, &norm, &pair, &mean, &variance);
    if (!torch__has(&pair.weight)) fold_param_freeze(m, norm.gain, 1);
    if (!torch__has(&pair.bias)) fold_param_freeze(m, norm.bias, 1);
    return norm;
}

static void torch__norm_values(fold_model *m, const fold_norm *norm, const torch__pair *pair)
{
    if (fold_model_status(m)) return;
    torch__vector(m, &pair->weight, 0, norm->gain);
    if (norm->kind == FOLD_NORM_LAYER) torch__vector(m, &pair->bias, 0, norm->bias);
}

fold_norm fold_torch_norm(fold_torch *t, const char *name, fold_norm_kind kind, float epsilon)
{
    fold_norm norm;
    memset(&norm, 0, sizeof norm);
    if (kind == FOLD_NORM_FIXED) return torch__batch_norm(t, name, epsilon);
    const int rank = torch__ready(t, name) ? torch__look(t, name, "weight").rank : 0;
    if (rank > 1) torch__refuse(t, name, "a normalized_shape of", rank, " axes");
    const torch__pair pair = torch__take_pair(t, name, "", fold_shape1(0));
    if (!torch__ready(t, name)) return norm;
    if (kind == FOLD_NORM_RMS && epsilon == 0) epsilon = FLT_EPSILON;
    norm = fold_norm_new(fold_tensors_model(t), name, pair.weight.shape.dim[0], kind, epsilon);
    torch__norm_values(fold_tensors_model(t), &norm, &pair);
    return norm;
}

/* ---- recurrent layers ------------------------------------------------------------------------ */

/* place: which gate of PyTorch's is each of fold.h's. apart: a product of the state has a bias of its own. */
typedef struct torch__gates {
    fold_recurrent_maker *make;
    int count, apart, place[4];
} torch__gates;

/* One direction of a layer: what reads inputs, and what reads the state. */
typedef struct torch__cell { torch__pair from[2]; } torch__cell;

static torch__cell torch__take_cell(fold_torch *t, const char *name, const char *suffix, int rows, int inputs, int hidden)
{
    static const char *const side[2] = { "ih", "hh" };
    torch__cell cell;
    for (int i = 0; i < 2; i++) {
        char part[48];
        torch__format(part, sizeof part, "weight_%s%s", side[i], suffix);
        cell.from[i].weight = torch__take(t, name, part, fold_shape2(rows, i ? hidden : inputs), 1);
        torch__format(part, sizeof part, "bias_%s%s", side[i], suffix);
        cell.from[i].bias = torch__take(t, name, part, fold_shape1(rows), 0);
    }
    return cell;
}

/* Loads the gates of a bias, and of another that is added where there is one, in fold.h's order. */
static void torch__gate_bias(fold_model *m, const torch__gates *gates, fold_param param, const torch__tensor *one,
                             const torch__tensor *other)
{
    if (!torch__has(one)) {
        torch__vector(m, NULL, 0, param);
        return;
    }
    const int hidden = one->shape.dim[0] / gates->count, both = other && torch__has(other);
    float *values = fold_values_write_begin(m, param);
    for (int gate = 0; gate < gates->count; gate++)
        for (int i = 0; i < hidden; i++) {
            const int at = gates->place[gate] * hidden + i;
            values[gate * hidden + i] = torch__value(one, at) + (both ? torch__value(other, at) : 0.0f);
        }
    fold_values_write_end(m, param);
}

/* The parameters of a cell were named after `name`, the stack's, and its place in it. */
static fold_param torch__named(fold_model *m, const char *name, const char *place, const char *part)
{
    torch__name full;
    torch__format(full.text, sizeof full.text, "%s.%s.%s", name, place, part);
    return fold_param_find(m, full.text);
}

static void torch__cell_values(fold_model *m, const torch__gates *gates, const torch__cell *cell, const char *name, const char *place)
{
    const int inputs = cell->from[0].weight.shape.dim[1], hidden = cell->from[1].weight.shape.dim[1];
    const int width = gates->count * hidden;
    const fold_param weight = torch__named(m, name, place, "W");
    const fold_param recurrent = gates->apart ? torch__named(m, name, place, "U") : weight;
    float *first = fold_values_write_begin(m, weight), *second = fold_values_write_begin(m, recurrent);
    if (!gates->apart) second += (size_t)inputs * (size_t)width;
    for (int gate = 0; gate < gates->count; gate++) {
        const int from = gates->place[gate] * hidden;
        torch__columns(&cell->from[0].weight, from, hidden, first + gate * hidden, width);
        torch__columns(&cell->from[1].weight, from, hidden, second + gate * hidden, width);
    }
    fold_values_write_end(m, weight);
    if (gates->apart) fold_values_write_end(m, recurrent);
    const fold_param bias = torch__named(m, name, place, "b");
    torch__gate_bias(m, gates, bias, &cell->from[0].bias, gates->apart ? NULL : &cell->from[1].bias);
    if (gates->apart) torch__gate_bias(m, gates, torch__named(m, name, place, "c"), &cell->from[1].bias, NULL);
}

/* Tells what a module's tensors say of it. */
typedef struct torch__sizes { int layers, directions, inputs, hidden, is_cell; } torch__sizes; /* layers 0: there is no such module */
static torch__sizes torch__look_at_stack(fold_torch *t, const char *name)
{
    torch__sizes sizes = { 0, 1, 0, 0, 0 };
    if (!torch__ready(t, name)) return sizes;
    char part[32] = "weight_ih_l0";
    int layers = 0;
    while (layers <= FOLD_MAX_LAYERS && torch__look(t, name, part).name) torch__format(part, sizeof part, "weight_ih_l%d", ++layers);
    const fold_tensor projection = torch__look(t, name, "weight_hr_l0");
    if (projection.name) torch__refuse(t, name, "a proj_size of", projection.dim[0], "");
    sizes.is_cell = !layers && torch__look(t, name, "weight_ih").name;
    sizes.directions = torch__look(t, name, "weight_ih_l0_reverse").name ? 2 : 1;
    const fold_shape any = fold_shape2(0, 0);
    const torch__tensor input = torch__take(t, name, sizes.is_cell ? "weight_ih" : "weight_ih_l0", any, 1);
    const torch__tensor state = torch__take(t, name, sizes.is_cell ? "weight_hh" : "weight_hh_l0", any, 1);
    if (!torch__has(&input) || !torch__has(&state)) return sizes;
    sizes.inputs = input.shape.dim[1];
    sizes.hidden = state.shape.dim[1];
    if (torch__sizes_fit(t, name, sizes.inputs, sizes.hidden)) sizes.layers = layers ? layers : 1;
    return sizes;
}

static torch__cell torch__take_place(fold_torch *t, const char *name, int place, const torch__sizes *sizes, int gates)
{
    const int layer = place / sizes->directions, reverse = place % sizes->directions;
    char suffix[32] = "";
    if (!sizes->is_cell) torch__format(suffix, sizeof suffix, "_l%d%s", layer, reverse ? "_reverse" : "");
    return torch__take_cell(t, name, suffix, gates * sizes->hidden, layer ? sizes->directions * sizes->hidden : sizes->inputs,
                            sizes->hidden);
}

/* All cells are looked at before any is made. */
static fold_rnn_stack torch__stack(fold_torch *t, const char *name, const torch__gates *gates)
{
    fold_rnn_stack stack;
    memset(&stack, 0, sizeof stack);
    const torch__sizes sizes = torch__look_at_stack(t, name);
    const int cells = sizes.layers * sizes.directions;
    for (int i = 0; i < cells; i++) torch__take_place(t, name, i, &sizes, gates->count);
    if (!torch__ready(t, name)) return stack;
    fold_model *m = fold_tensors_model(t);
    stack = fold_rnn_stack_new(m, name, gates->make, sizes.inputs, sizes.hidden, sizes.layers, sizes.directions == 2);
    for (int i = 0; i < cells && !fold_model_status(m); i++) {
        const torch__cell cell = torch__take_place(t, name, i, &sizes, gates->count);
        char place[32];
        torch__format(place, sizeof place, "%d%s", i / sizes.directions, i % sizes.directions ? ".reverse" : "");
        torch__cell_values(m, gates, &cell, name, place);
    }
    return stack;
}

fold_rnn_stack fold_torch_rnn(fold_torch *t, const char *name)
{
    static const torch__gates gates = { fold_rnn_new, 1, 0, { 0, 0, 0, 0 } };
    return torch__stack(t, name, &gates);
}
/* PyTorch's gates are i f g o, of which g is u. */
fold_rnn_stack fold_torch_lstm(fold_torch *t, const char *name)
{
    static const torch__gates gates = { fold_lstm_new, 4, 0, { 0, 1, 3, 2 } };
    return torch__stack(t, name, &gates);
}
fold_rnn_stack fold_torch_gru(fold_torch *t, const char *name)
{
    static const torch__gates gates = { fold_gru_new, 3, 1, { 0, 1, 2, 0 } };
    return torch__stack(t, name, &gates);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Projections of queries, keys and values: rows [from, from + width) of what may be one tensor. */
typedef struct torch__heads {
    torch__pair in[3], joined;
    int from[3], width;
} torch__heads;

/* width 0: any. `part` is what the names of the tensors begin with. */
static torch__heads torch__take_heads(fold_torch *t, const char *name, const char *part, int width)
{
    static const char *const apart[3] = { "q_proj_weight", "k_proj_weight", "v_proj_weight" };
    torch__heads heads;
    char full[64];
    memset(&heads, 0, sizeof heads);
    torch__format(full, sizeof full, "%sout_proj.", part);
    heads.joined = torch__take_pair(t, name, full, fold_shape2(width, width));
    if (!torch__has(&heads.joined.weight)) return heads;
    width = heads.width = heads.joined.weight.shape.dim[0];
    if (!torch__sizes_fit(t, name, width, width)) return heads;
    torch__format(full, sizeof full, "%sq_proj_weight", part);
    const int one = !torch__look(t, name, full).name;
    torch__format(full, sizeof full, "%sin_proj_bias", part);
    const torch__tensor bias = torch__take(t, name, full, fold_shape1(3 * width), 0);
    for (int i = 0; i < 3; i++) {
        torch__format(full, sizeof full, "%s%s", part, one ? "in_proj_weight" : apart[i]);
        const fold_shape wanted = fold_shape2(one ? 3 * width : width, one || !i ? width : 0);
        heads.in[i].weight = torch__take(t, name, full, wanted, 1);
        heads.in[i].bias = bias;
        heads.from[i] = i * width;
    }
    return heads;
}

static void torch__heads_values(fold_model *m, const torch__heads *heads, const fold_attention *layer)
{
    const fold_dense *dense[3] = { &layer->query, &layer->key, &layer->value };
    for (int i = 0; i < 3 && !fold_model_status(m); i++) {
        const torch__tensor *weight = &heads->in[i].weight;
        const int from = weight->shape.dim[0] > heads->width ? heads->from[i] : 0;
        torch__columns(weight, from, heads->width, fold_values_write_begin(m, dense[i]->W), heads->width);
        fold_values_write_end(m, dense[i]->W);
        torch__vector(m, &heads->in[i].bias, heads->from[i], dense[i]->b);
    }
    torch__weights(m, &heads->joined, 0, layer->joined.W, layer->joined.b);
}

static fold_dense torch__projection(fold_model *m, const char *name, const char *part, int inputs, int outputs)
{
    const torch__name full = torch__join(name, part);
    return fold_dense_new(m, full.text, inputs, outputs, FOLD_ACT_LINEAR);
}

/* Its parts are made one by one, as keys and values may have widths of their own. */
fold_attention fold_torch_attention(fold_torch *t, const char *name, int heads)
{
    fold_attention layer;
    char shown[TORCH__SHORT];
    memset(&layer, 0, sizeof layer);
    const torch__heads there = torch__take_heads(t, name, "", 0);
    if (!torch__ready(t, name)) return layer;
    fold_model *m = fold_tensors_model(t);
    if (heads < 1 || there.width % heads) {
        torch__fail(t, FOLD_BAD_ARGUMENT, "attention '%s': %d heads do not divide a width of %d", torch__shorten(shown, name), heads,
                    there.width);
        return layer;
    }
    layer.query = torch__projection(m, name, "query", there.width, there.width);
    layer.key = torch__projection(m, name, "key", there.in[1].weight.shape.dim[1], there.width);
    layer.value = torch__projection(m, name, "value", there.in[2].weight.shape.dim[1], there.width);
    layer.joined = torch__projection(m, name, "joined", there.width, there.width);
    layer.heads = heads;
    torch__heads_values(m, &there, &layer);
    return layer;
}

fold_transformer fold_torch_transformer(fold_torch *t, const char *name, const fold_transformer_desc *desc)
{
    fold_transformer layer;
    fold_transformer_desc full = desc ? *desc : fold_transformer_desc_default();
    memset(&layer, 0, sizeof layer);
    const torch__heads heads = torch__take_heads(t, name, "self_attn.", full.width);
    const fold_shape width = fold_shape1(heads.width);
    const torch__pair inner = torch__take_pair(t, name, "linear1.", fold_shape2(full.inner, heads.width));
    const int between = inner.weight.shape.dim[0];
    const torch__pair outer = torch__take_pair(t, name, "linear2.", fold_shape2(heads.width, between));
    const torch__pair first = torch__take_pair(t, name, "norm1.", width), second = torch__take_pair(t, name, "norm2.", width);
    if (!torch__ready(t, name) || !torch__sizes_fit(t, name, heads.width, between)) return layer;
    fold_model *m = fold_tensors_model(t);
    full.width = heads.width;
    full.inner = between;
    layer = fold_transformer_new(m, name, &full);
    if (fold_model_status(m)) return layer;
    torch__heads_values(m, &heads, &layer.attention);
    torch__weights(m, &inner, 0, layer.inner.W, layer.inner.b);
    torch__weights(m, &outer, 0, layer.outer.W, layer.outer.b);
    torch__norm_values(m, &layer.attention_norm, &first);
    torch__norm_values(m, &layer.dense_norm, &second);
    return layer;
}
#endif /* TORCH_IMPLEMENTATION */
