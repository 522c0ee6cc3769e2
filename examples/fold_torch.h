/* fold_torch.h - loads PyTorch networks into fold.h from a safetensors file of a state_dict, with one call
   per layer. It also saves weights or gradients in such files, and reads and writes raw floats without names.

   In one C or C++ file:  #define FOLD_TORCH_IMPLEMENTATION
                          #include "fold_torch.h"
   Everywhere else:       #include "fold_torch.h"

       from safetensors.torch import save_file                       # Python
       save_file(net.state_dict(), "net.safetensors")

       fold_torch *t = fold_torch_open(m, "net.safetensors");        // C
       fold_param words = fold_torch_embedding(t, "words");
       fold_rnn_stack lstm = fold_torch_lstm(t, "lstm");
       fold_dense out = fold_torch_linear(t, "out", FOLD_ACT_LINEAR);
       if (fold_torch_close(t)) puts(fold_model_message(m));

   `name` is the path of a module in the network, such as "encoder.layers.0"; "" is the network itself, here
   and in the lists of layers below. A call reads the module's tensors (name.weight and so on) and adds a
   layer with that name to the model, as the layer's constructor would, with the sizes and values in the file.
   You pass the settings that the tensors do not contain, such as heads and strides. You can apply, train and
   save the layer like any other, and load the saved file into a layer made with the constructor. Weights are
   transposed, and gates are put into fold.h's order. Where PyTorch has two biases and fold.h one, the two are
   added. If the module has no bias, the layer's bias is zero and frozen. Tensors can be F32, F16, BF16 or
   F64.

   Tied weights: safetensors.torch.save_model writes a shared tensor only once, and notes its other names in
   the metadata, so you can read it here by any of its names. Each call copies the values, so layers that are
   tied in PyTorch are trained separately. To share one parameter between a lookup table and the output layer,
   read it with fold_torch_param.

   Errors: a tensor that is missing, or whose shape does not match the others, sets an error on the model. The
   message names the tensor, its shape and the expected shape, and the call returns null handles. A call also
   fails if the tensors show that the module is of a different kind. But tensors do not show everything: the
   comments below say what you have to know about the network.

   All memory comes from the model's allocator, and there are no globals. The file is C99 and C++17 and works
   in every build of fold.h, including FOLD_INFERENCE and FOLD_NO_STDIO. */

#ifndef FOLD_TORCH_H
#define FOLD_TORCH_H

#ifndef FOLD_H
#ifndef FOLD_FILENAME
#define FOLD_FILENAME "fold.h"
#endif
#include FOLD_FILENAME
#endif
#if FOLD_VERSION_MAJOR * 1000000 + FOLD_VERSION_MINOR * 1000 + FOLD_VERSION_PATCH < 4000
#pragma message("fold.h is version " FOLD_VERSION)
#error "fold_torch.h needs fold.h 0.4.0 or later"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef fold_tensors fold_torch;

#ifndef FOLD_NO_STDIO
/* Opens a safetensors file, as fold_tensors_open does. If the file cannot be read, the next call sets an
   error on the model and returns null handles, and fold_torch_close returns the error. Returns NULL if there
   is no memory for the handle. */
FOLD_API fold_torch *fold_torch_open(fold_model *m, const char *path);
#endif
/* Opens a safetensors file in memory that stays valid until fold_torch_close. */
FOLD_API fold_torch *fold_torch_open_memory(fold_model *m, const void *bytes, size_t size);
/* Frees t and returns the model's status. Call it before you free the model. A tensor that was neither read
   nor skipped is an error. */
FOLD_API fold_status fold_torch_close(fold_torch *t);
/* Skips all tensors whose names begin with `prefix`; "" skips all that have not been read. */
FOLD_API void fold_torch_skip(fold_torch *t, const char *prefix);

/* Adds any tensor of rank 1 to 4, unchanged, as a parameter with the same name. `uses` is as in
   fold_param_desc: FOLD_FOR_LOOKUP | FOLD_FOR_LINEAR_T for a "words.weight" that is tied to the output
   layer. */
FOLD_API fold_param fold_torch_param(fold_torch *t, const char *tensor, unsigned uses);
/* Reads nn.Embedding as a lookup table for fold_lookup. If the name is "", the parameter is named "weight".
   max_norm is not in the file, and is not applied. */
FOLD_API fold_param fold_torch_embedding(fold_torch *t, const char *name);
/* Reads nn.Linear. Pass the activation that follows it; nn.GELU is FOLD_ACT_GELU unless it uses an
   approximation. */
FOLD_API fold_dense fold_torch_linear(fold_torch *t, const char *name, fold_activation activation);
/* Reads nn.Conv1d or nn.Conv2d, depending on the rank of the weight. groups must be 1 or, with
   desc->depthwise, the number of channels; padding_mode must be "zeros". Neither is in the file, so a module
   with a different padding_mode silently computes different values. nn.ConvTranspose1d and 2d have similar
   tensors. Such a module is refused if the length of its bias does not fit an nn.Conv, but is not detected if
   it has no bias, or as many inputs as outputs. In fold.h, channels are last: [height x width x channels] or
   [length x channels]. nn.Flatten in PyTorch has channels first, so transpose before flattening:
       x = fold_transpose(f, fold_transpose(f, x, 0, 2), 1, 2);      // grids
       x = fold_transpose(f, x, 0, 1);                               // lines */
FOLD_API fold_conv fold_torch_conv(fold_torch *t, const char *name, const fold_conv_desc *desc,
                                   fold_activation activation);
/* Reads nn.LayerNorm over one axis, nn.RMSNorm, nn.BatchNorm1d or nn.BatchNorm2d. The running statistics of a
   batch norm are folded into gain and bias (FOLD_NORM_FIXED). An epsilon of 0 means PyTorch's default: 1e-5,
   or 1.1920929e-7 for RMSNorm. Epsilon is not in the file. Nor does the file distinguish nn.GroupNorm from
   nn.LayerNorm, or nn.RMSNorm from an nn.LayerNorm without a bias. */
FOLD_API fold_norm fold_torch_norm(fold_torch *t, const char *name, fold_norm_kind kind, float epsilon);
/* Read nn.RNN (tanh or relu), nn.LSTM or nn.GRU. They may have 1 to FOLD_MAX_LAYERS layers and one or two
   directions, but no proj_size. The `nonlinearity` of nn.RNN is not in the file: choose the right call, since
   the other one silently computes different values. The two biases of nn.LSTM and nn.RNN are loaded as their
   sum; a GRU keeps both. `dropout` between layers is not in the file either, and is not applied. nn.LSTMCell,
   nn.GRUCell and nn.RNNCell are read as a stack with one layer; cell[0] of the stack is a fold_recurrent. In
   a GRU, the number of inputs is the number of rows of the parameter NAME.0.W; in the others, it is that
   number minus the hidden size. */
FOLD_API fold_rnn_stack fold_torch_rnn(fold_torch *t, const char *name);
FOLD_API fold_rnn_stack fold_torch_rnn_relu(fold_torch *t, const char *name);
FOLD_API fold_rnn_stack fold_torch_lstm(fold_torch *t, const char *name);
FOLD_API fold_rnn_stack fold_torch_gru(fold_torch *t, const char *name);
/* Reads nn.MultiheadAttention. add_bias_kv is refused; add_zero_attn is not supported, but cannot be detected
   from the file. */
FOLD_API fold_attention fold_torch_attention(fold_torch *t, const char *name, int heads);
/* Reads nn.TransformerEncoderLayer. The layers of an nn.TransformerEncoder are named "layers.0" and so on. If
   width or inner in desc is 0, the size comes from the file. PyTorch's "gelu" is FOLD_ACT_GELU. activation,
   norm_first and epsilon are not in the file: set them in desc. */
FOLD_API fold_transformer fold_torch_transformer(fold_torch *t, const char *name,
                                                 const fold_transformer_desc *desc);
/* Reads nn.TransformerEncoder, with its final norm if there is one. Its layers are stored in your array
   `layer`, of length `room`. The array must stay valid as long as the encoder is used. desc applies to all
   layers. The final norm gets PyTorch's default epsilon, whatever epsilon the layers have; if yours differs,
   set norm.epsilon of the encoder. */
FOLD_API fold_encoder fold_torch_encoder(fold_torch *t, const char *name, fold_transformer *layer, int room,
                                         const fold_transformer_desc *desc);

/* ---- writing files for PyTorch; raw floats, both ways ----
   Pass an array with the kind and name of each layer, in the order of your nn.Module. The layers must exist
   in the model, either read with the calls above or made with fold_dense_new and the other constructors:

       fold_torch_layer layers[] = { { FOLD_TORCH_LINEAR, "encoder" }, { FOLD_TORCH_LSTM, "lstm" } };
       fold_torch_save(m, "net.safetensors", layers, 2);  // net.load_state_dict(load_file("net.safetensors"))
       fold_torch_load_raw(m, "net.bin", layers, 2);      // all floats of net.parameters(), in order

   For each layer, the file has the tensors of its module in the order of state_dict, with PyTorch's names,
   shapes and order of gates. If fold.h has one bias for PyTorch's two, it is written as the first, with zeros
   as the second; when loading, the two are added. */
enum {
    FOLD_TORCH_PARAM,       /* a parameter, unchanged, with its own name */
    FOLD_TORCH_EMBEDDING,   /* a lookup table */
    FOLD_TORCH_LINEAR,      /* a fold_dense */
    FOLD_TORCH_CONV,        /* a fold_conv */
    FOLD_TORCH_NORM,        /* a fold_norm that is nn.LayerNorm or nn.RMSNorm */
    FOLD_TORCH_BATCH_NORM,  /* a fold_norm of kind FOLD_NORM_FIXED, written with running means of 0 and
                               variances of 1, for a module with the default epsilon. Cannot be loaded from
                               raw floats */
    FOLD_TORCH_RNN,         /* a fold_rnn_stack with cells of this kind; with FOLD_TORCH_CELL, one cell */
    FOLD_TORCH_LSTM,
    FOLD_TORCH_GRU,
    FOLD_TORCH_ATTENTION,   /* a fold_attention */
    FOLD_TORCH_TRANSFORMER, /* a fold_transformer */
    FOLD_TORCH_ENCODER,     /* a fold_encoder */
    FOLD_TORCH_NO_BIAS = 64, /* flag: the module has bias=False, so the layer's biases are left out. For a
                                batch norm it means affine=False: there is no weight either, and gain and bias
                                are stored in its statistics. Each gain must then be above 0 and at most
                                316.2, the inverse square root of epsilon */
    FOLD_TORCH_CELL = 128    /* flag for a stack with one layer: the module is nn.RNNCell, nn.LSTMCell or
                                nn.GRUCell */
};
typedef struct fold_torch_layer { int kind; const char *name; } fold_torch_layer;

/* Adds the tensors of n layers of m to the model `out` as parameters. fold_model_save or fold_model_save_to
   can then write `out` as a safetensors file (not with FOLD_INFERENCE). Returns the status of `out`. Errors,
   set on `out`: m has no such layer, or its weights are quantised. */
FOLD_API fold_status fold_torch_export(fold_model *out, fold_model *m, const fold_torch_layer *layers, int n);
#ifndef FOLD_INFERENCE
/* Adds the current gradients of m to `out`, as fold_torch_export adds values. They correspond to p.grad of
   PyTorch's net.named_parameters(). If PyTorch has two biases and fold.h one, both get its gradient. Frozen
   parameters get zeros. Gradients of a batch norm are those of the module that fold_torch_export writes. */
FOLD_API fold_status fold_torch_export_grads(fold_model *out, fold_model *m, const fold_torch_layer *layers,
                                             int n);
#endif
/* Loads n layers from an array of floats without names, such as a C export. Fails, and changes
   nothing, if there are too few or too many floats, or if m lacks one of the layers. */
FOLD_API fold_status fold_torch_load_raw_memory(fold_model *m, const float *values, size_t count,
                                                const fold_torch_layer *layers, int n);
#ifndef FOLD_NO_STDIO
/* Loads n layers from a file of little-endian floats, such as PufferLib's .bin files. Returns FOLD_IO if the
   file cannot be read. */
FOLD_API fold_status fold_torch_load_raw(fold_model *m, const char *path, const fold_torch_layer *layers,
                                         int n);
/* Writes n layers to a file as consecutive little-endian floats. Returns FOLD_IO if the file cannot be
   written. */
FOLD_API fold_status fold_torch_save_raw(fold_model *m, const char *path, const fold_torch_layer *layers,
                                         int n);
#ifndef FOLD_INFERENCE
/* Writes n layers to a safetensors file, with fold_torch_export and fold_model_save. The temporary model uses
   m's allocator. Returns the status of m. */
FOLD_API fold_status fold_torch_save(fold_model *m, const char *path, const fold_torch_layer *layers, int n);
/* Writes the gradients of n layers to a safetensors file. Call it between fold_backward and the optimiser's
   step, since the step clears the gradients. */
FOLD_API fold_status fold_torch_save_grads(fold_model *m, const char *path, const fold_torch_layer *layers,
                                           int n);
#endif
#endif

#ifdef __cplusplus
}
#endif

#endif /* FOLD_TORCH_H */

#if defined(FOLD_TORCH_IMPLEMENTATION) && !defined(FOLD__TORCH_IMPLEMENTED)
#define FOLD__TORCH_IMPLEMENTED
#include <float.h>
#include <math.h>
#include <stdarg.h>
#ifndef FOLD_NO_STDIO
#include <stdio.h>
#endif
#include <string.h>

/* Compilers must round every product and every sum separately, so that results do not depend on the compiler
   or its flags. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

/* ---- text ------------------------------------------------------------------------------------ */

/* Writes formatted text, cut if it is too long. */
static void fold_torch__format(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fold_format(text, size, format, args);
    va_end(args);
}

static int fold_torch__fail(fold_model *m, fold_status status, const char *format, ...)
{
    char text[248];
    va_list args;
    va_start(args, format);
    fold_format(text, sizeof text, format, args);
    va_end(args);
    fold_model_fail(m, status, text);
    return 0;
}

/* A name for messages, cut between characters if it is long. */
enum { FOLD_TORCH__SHORT = 64 };
static const char *fold_torch__shorten(char out[FOLD_TORCH__SHORT], const char *name)
{
    size_t at = 0;
    for (; *name && (at < 56 || (at < 60 && ((unsigned char)*name & 0xc0) == 0x80)); name++)
        out[at++] = *name;
    memcpy(out + at, *name ? ".." : "", *name ? 3 : 1);
    return out;
}

/* Formats a shape, e.g. "[? x 3]". If `wanted`, a length of 0 stands for any length. */
static void fold_torch__shape(char text[FOLD_TORCH__SHORT], const int *dim, int rank, int wanted)
{
    size_t at = 0;
    *text = 0;
    for (int axis = 0; axis < rank; axis++, at += strlen(text + at)) {
        const int any = wanted && !dim[axis];
        fold_torch__format(text + at, FOLD_TORCH__SHORT - at, any ? "%s?" : "%s%d", axis ? " x " : "[",
                           dim[axis]);
    }
    fold_torch__format(text + at, FOLD_TORCH__SHORT - at, "]");
}

/* ---- opening and closing --------------------------------------------------------------------- */

#ifndef FOLD_NO_STDIO
FOLD_API fold_torch *fold_torch_open(fold_model *m, const char *path) { return fold_tensors_open(m, path); }
#endif
FOLD_API fold_torch *fold_torch_open_memory(fold_model *m, const void *bytes, size_t size)
{
    return fold_tensors_open_memory(m, bytes, size);
}

FOLD_API void fold_torch_skip(fold_torch *t, const char *prefix)
{
    for (int i = 0; prefix && i < fold_tensors_count(t); i++)
        if (!strncmp(fold_tensors_at(t, i).name, prefix, strlen(prefix)))
            fold_tensors_take(t, i);
}

FOLD_API fold_status fold_torch_close(fold_torch *t)
{
    const char *left = NULL; /* the unread tensor whose name comes first */
    char shown[FOLD_TORCH__SHORT];
    int count = 0;
    for (int i = 0; i < fold_tensors_count(t); i++) {
        const fold_tensor tensor = fold_tensors_at(t, i);
        if (tensor.taken)
            continue;
        if (!left || strcmp(tensor.name, left) < 0)
            left = tensor.name;
        count++;
    }
    if (left)
        fold_torch__fail(fold_tensors_model(t), FOLD_BAD_ARGUMENT,
                         "torch: unread tensors: '%s' and %d more; read them, or call fold_torch_skip",
                         fold_torch__shorten(shown, left), count - 1);
    return fold_tensors_close(t);
}

/* ---- taking tensors -------------------------------------------------------------------------- */

static int fold_torch__ready(fold_torch *t, const char *name)
{
    if (t && !name)
        fold_torch__fail(fold_tensors_model(t), FOLD_BAD_ARGUMENT, "torch: name is NULL");
    return t && name && !fold_model_status(fold_tensors_model(t));
}

/* The full name of a module's tensor, or of a layer's parameter. A name that is cut here would be too long
   for any layer. */
typedef struct fold_torch__name {
    char text[256];
} fold_torch__name;
static fold_torch__name fold_torch__join(const char *name, const char *part)
{
    fold_torch__name full;
    fold_torch__format(full.text, sizeof full.text, "%s%s%s", name, *name ? "." : "", part);
    return full;
}

/* Returns the name of a layer's parameter in the model, as the constructor names it. If the layer is "", the
   name begins with the dot. */
static fold_torch__name fold_torch__part(const char *layer, const char *part)
{
    fold_torch__name full;
    fold_torch__format(full.text, sizeof full.text, "%s.%s", layer, part);
    return full;
}

/* Finds a tensor without marking it as read. The result's name is NULL if there is none. */
static fold_tensor fold_torch__look(fold_torch *t, const char *name, const char *part)
{
    const fold_torch__name full = fold_torch__join(name, part);
    return fold_tensors_at(t, fold_tensors_find(t, full.text));
}

/* A tensor marked as read. It has floats and at most 4 axes. If index is -1, there is no tensor. */
typedef struct fold_torch__tensor {
    fold_torch *file;
    int index;
    fold_shape shape;
    size_t count;
} fold_torch__tensor;

/* Checks type and shape. Returns 0 with an error if they do not fit. In `wanted`, 0 matches any length. */
static int fold_torch__fits(fold_torch *t, const fold_tensor *tensor, const fold_shape *wanted)
{
    static const char *const types[] = { "F32", "F16", "BF16", "F64" };
    char shown[FOLD_TORCH__SHORT], there[FOLD_TORCH__SHORT] = "of more than 4 axes", here[FOLD_TORCH__SHORT];
    int fits = tensor->rank == wanted->rank, type = 0;
    for (int axis = 0; axis < wanted->rank && fits; axis++)
        fits = !wanted->dim[axis] || wanted->dim[axis] == tensor->dim[axis];
    fold_torch__shorten(shown, tensor->name);
    while (type < 4 && strcmp(tensor->dtype, types[type]))
        type++;
    if (fits)
        return type < 4 || fold_torch__fail(fold_tensors_model(t), FOLD_BAD_ARGUMENT,
                                            "torch: '%s' is of type %s; F32, F16, BF16 and F64 are read",
                                            shown, tensor->dtype);
    if (tensor->rank <= FOLD_MAX_RANK)
        fold_torch__shape(there, tensor->dim, tensor->rank, 0);
    fold_torch__shape(here, wanted->dim, wanted->rank, 1);
    return fold_torch__fail(fold_tensors_model(t), FOLD_BAD_SHAPE,
                            "torch: '%s' is %s in the file, expected %s", shown, there, here);
}

/* Marks a tensor as read and returns it. Returns no tensor if it does not fit or is missing. A missing tensor
   is an error only if `must` is set. */
static fold_torch__tensor fold_torch__take(fold_torch *t, const char *name, const char *part,
                                           fold_shape wanted, int must)
{
    fold_torch__tensor taken = { t, -1, { 0, { 0, 0, 0, 0 } }, 0 };
    if (!fold_torch__ready(t, name))
        return taken;
    const fold_torch__name full = fold_torch__join(name, part);
    const int index = fold_tensors_find(t, full.text);
    const fold_tensor tensor = fold_tensors_at(t, index);
    if (index < 0 && must)
        fold_tensors_missing(t, "torch", full.text);
    if (index < 0 || !fold_torch__fits(t, &tensor, &wanted))
        return taken;
    fold_tensors_take(t, index);
    taken.index = index;
    taken.count = (size_t)tensor.count;
    taken.shape.rank = tensor.rank;
    memcpy(taken.shape.dim, tensor.dim, sizeof taken.shape.dim);
    return taken;
}

static int fold_torch__has(const fold_torch__tensor *tensor) { return tensor->index >= 0; }

static int fold_torch__is_in_file(fold_torch *t, const char *name, const char *part)
{
    return fold_torch__ready(t, name) && fold_torch__look(t, name, part).name != NULL;
}

/* Sets an error if a tensor exists that shows that the module is of a different kind. */
static void fold_torch__refuse_with(fold_torch *t, const char *name, const char *part, const char *why)
{
    char shown[FOLD_TORCH__SHORT];
    if (fold_torch__is_in_file(t, name, part))
        fold_torch__fail(fold_tensors_model(t), FOLD_BAD_SHAPE, "torch: the file has '%s', %s",
                         fold_torch__shorten(shown, fold_torch__join(name, part).text), why);
}

/* Sets an error saying that fold.h has no such module, before its shapes are reported as wrong. */
static void fold_torch__refuse(fold_torch *t, const char *name, const char *has, int count, const char *unit)
{
    char shown[FOLD_TORCH__SHORT];
    fold_torch__fail(fold_tensors_model(t), FOLD_BAD_SHAPE,
                     "torch: '%s' has %s %d%s, which fold.h does not support",
                     fold_torch__shorten(shown, name), has, count, unit);
}

/* Checks sizes before other sizes are computed from them. */
static int fold_torch__sizes_fit(fold_torch *t, const char *name, int inputs, int outputs)
{
    enum { FOLD_TORCH__MAX = 1 << 24 };
    char shown[FOLD_TORCH__SHORT];
    return (inputs > 0 && outputs > 0 && inputs <= FOLD_TORCH__MAX && outputs <= FOLD_TORCH__MAX) ||
           fold_torch__fail(fold_tensors_model(t), FOLD_BAD_ARGUMENT,
                            "torch '%s': %d inputs, %d outputs; both must be 1 to %d",
                            fold_torch__shorten(shown, name), inputs, outputs, (int)FOLD_TORCH__MAX);
}

/* A weight and its bias; the bias may be missing. Their names begin with `part`. */
typedef struct fold_torch__pair {
    fold_torch__tensor weight, bias;
} fold_torch__pair;
static fold_torch__pair fold_torch__take_pair(fold_torch *t, const char *name, const char *part,
                                              fold_shape wanted)
{
    fold_torch__pair pair;
    char full[64];
    fold_torch__format(full, sizeof full, "%sweight", part);
    pair.weight = fold_torch__take(t, name, full, wanted, 1);
    fold_torch__format(full, sizeof full, "%sbias", part);
    pair.bias = pair.weight;
    if (fold_torch__has(&pair.weight))
        pair.bias = fold_torch__take(t, name, full, fold_shape1(pair.weight.shape.dim[0]), 0);
    return pair;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Copies values to every `step`-th element of `out`. */
static void fold_torch__read(const fold_torch__tensor *tensor, size_t from, size_t count, float *out,
                             size_t step)
{
    fold_tensors_read(tensor->file, tensor->index, from, count, out, step);
}
static float fold_torch__value(const fold_torch__tensor *tensor, int index)
{
    float value = 0;
    fold_torch__read(tensor, (size_t)index, 1, &value, 1);
    return value;
}

/* Writes rows [from, from + count) of a weight as columns of `out`, whose rows have `width` values. PyTorch's
   weights are [outputs x inputs x taps], those of fold.h [taps x inputs x outputs]. */
static void fold_torch__columns(const fold_torch__tensor *weight, int from, int count, float *out, int width)
{
    const size_t inputs = weight->shape.rank > 2 ? (size_t)weight->shape.dim[1] : 1;
    const size_t size = weight->count / (size_t)weight->shape.dim[0], taps = size / inputs;
    for (int row = 0; row < count; row++)
        for (size_t input = 0; input < inputs; input++)
            fold_torch__read(weight, (size_t)(from + row) * size + input * taps, taps,
                             out + input * (size_t)width + row, inputs * (size_t)width);
}

/* Loads a vector, from index `from` on. If there is none, the parameter becomes zero and is frozen. */
static void fold_torch__vector(fold_model *m, const fold_torch__tensor *tensor, int from, fold_param param)
{
    const int count = fold_param_shape(m, param).dim[0], there = tensor && fold_torch__has(tensor);
    float *values = fold_values_write_begin(m, param);
    if (there)
        fold_torch__read(tensor, (size_t)from, (size_t)count, values, 1);
    else
        memset(values, 0, (size_t)count * sizeof *values);
    fold_values_write_end(m, param);
    if (!there)
        fold_param_freeze(m, param, 1);
}

/* Loads the weight and bias of a layer from the outputs of a pair, beginning with output `from`. */
static void fold_torch__weights(fold_model *m, const fold_torch__pair *pair, int from, fold_param weight,
                                fold_param bias)
{
    if (fold_model_status(m))
        return; /* the layer was not created */
    const int outputs = fold_param_shape(m, bias).dim[0];
    fold_torch__columns(&pair->weight, from, outputs, fold_values_write_begin(m, weight), outputs);
    fold_values_write_end(m, weight);
    fold_torch__vector(m, &pair->bias, from, bias);
}

/* ---- layers ---------------------------------------------------------------------------------- */

static fold_param fold_torch__table(const fold_torch__tensor *tensor, const char *name, unsigned uses)
{
    fold_param param = { 0, 0 };
    fold_param_desc desc = fold_param_desc_default();
    fold_model *m = fold_tensors_model(tensor->file);
    if (!fold_torch__has(tensor))
        return param;
    desc.name = name;
    desc.shape = tensor->shape;
    desc.uses = uses;
    param = fold_param_new(m, &desc);
    if (fold_model_status(m))
        return param;
    fold_torch__read(tensor, 0, tensor->count, fold_values_write_begin(m, param), 1);
    fold_values_write_end(m, param);
    return param;
}

FOLD_API fold_param fold_torch_param(fold_torch *t, const char *tensor, unsigned uses)
{
    const int rank = fold_torch__ready(t, tensor) ? fold_torch__look(t, "", tensor).rank : 0;
    const fold_shape any = { rank > 0 && rank <= FOLD_MAX_RANK ? rank : 1, { 0, 0, 0, 0 } };
    const fold_torch__tensor taken = fold_torch__take(t, "", tensor, any, 1);
    return fold_torch__table(&taken, tensor, uses);
}

FOLD_API fold_param fold_torch_embedding(fold_torch *t, const char *name)
{
    const fold_torch__tensor taken = fold_torch__take(t, name, "weight", fold_shape2(0, 0), 1);
    return fold_torch__table(&taken, name && *name ? name : "weight", FOLD_FOR_LOOKUP);
}

FOLD_API fold_dense fold_torch_linear(fold_torch *t, const char *name, fold_activation activation)
{
    fold_dense layer;
    memset(&layer, 0, sizeof layer);
    const fold_torch__pair pair = fold_torch__take_pair(t, name, "", fold_shape2(0, 0));
    if (!fold_torch__ready(t, name))
        return layer;
    fold_model *m = fold_tensors_model(t);
    layer = fold_dense_new(m, name, pair.weight.shape.dim[1], pair.weight.shape.dim[0], activation);
    fold_torch__weights(m, &pair, 0, layer.W, layer.b);
    return layer;
}

/* Detects a transposed convolution by the length of its bias: its weight is [inputs x outputs x …]. */
static void fold_torch__refuse_transposed(fold_torch *t, const char *name, const fold_tensor *weight)
{
    char shown[FOLD_TORCH__SHORT], there[FOLD_TORCH__SHORT];
    const fold_tensor bias = fold_torch__look(t, name, "bias");
    if (weight->rank < 3 || weight->rank > 4 || weight->dim[1] < 1 || bias.rank != 1 ||
        bias.dim[0] == weight->dim[0])
        return;
    if (bias.dim[0] % weight->dim[1])
        return; /* with groups, the length is a multiple */
    fold_torch__shape(there, weight->dim, weight->rank, 0);
    fold_torch__fail(fold_tensors_model(t), FOLD_BAD_SHAPE,
                     "torch: '%s' has a weight of %s and a bias of [%d], as nn.ConvTranspose%dd has, which "
                     "fold.h does not support",
                     fold_torch__shorten(shown, name), there, bias.dim[0], weight->rank - 2);
}

FOLD_API fold_conv fold_torch_conv(fold_torch *t, const char *name, const fold_conv_desc *desc,
                                   fold_activation activation)
{
    fold_conv layer;
    fold_tensor there;
    memset(&layer, 0, sizeof layer);
    memset(&there, 0, sizeof there);
    if (fold_torch__ready(t, name))
        there = fold_torch__look(t, name, "weight");
    if (there.name)
        fold_torch__refuse_transposed(t, name, &there);
    const int on_lines = there.rank == 3, inputs = desc && desc->depthwise ? 1 : 0;
    const fold_shape wanted = { on_lines ? 3 : 4, { 0, inputs, 0, 0 } };
    if (inputs && there.rank == wanted.rank && there.dim[1] > 1)
        fold_torch__refuse(t, name, "groups of", there.dim[1], " channels");
    const fold_torch__pair pair = fold_torch__take_pair(t, name, "", wanted);
    if (!fold_torch__ready(t, name))
        return layer;
    const int *dim = pair.weight.shape.dim;
    const fold_shape filter =
        on_lines ? fold_shape3(dim[2], dim[1], dim[0]) : fold_shape4(dim[2], dim[3], dim[1], dim[0]);
    layer = fold_conv_new(fold_tensors_model(t), name, filter, desc, activation);
    fold_torch__weights(fold_tensors_model(t), &pair, 0, layer.W, layer.b);
    return layer;
}

/* Folds the running statistics of a batch norm, and its own weight and bias, into a gain and a bias. */
static void fold_torch__fix(fold_model *m, const fold_norm *norm, const fold_torch__pair *pair,
                            const fold_torch__tensor *mean, const fold_torch__tensor *variance)
{
    const double epsilon = norm->epsilon == 0 ? 1e-5 : (double)norm->epsilon;
    float *gain = fold_values_write_begin(m, norm->gain), *bias = fold_values_write_begin(m, norm->bias);
    for (int i = 0; i < mean->shape.dim[0]; i++) {
        const double weight =
            fold_torch__has(&pair->weight) ? (double)fold_torch__value(&pair->weight, i) : 1;
        const double factor = weight / sqrt((double)fold_torch__value(variance, i) + epsilon);
        const double term = fold_torch__has(&pair->bias) ? (double)fold_torch__value(&pair->bias, i) : 0;
        gain[i] = (float)factor;
        bias[i] = (float)(term - (double)fold_torch__value(mean, i) * factor);
    }
    fold_values_write_end(m, norm->gain);
    fold_values_write_end(m, norm->bias);
}

static fold_norm fold_torch__batch_norm(fold_torch *t, const char *name, float epsilon)
{
    fold_norm norm;
    fold_torch__pair pair;
    memset(&norm, 0, sizeof norm);
    const fold_torch__tensor mean = fold_torch__take(t, name, "running_mean", fold_shape1(0), 1);
    const fold_shape width = fold_shape1(mean.shape.dim[0]);
    const fold_torch__tensor variance = fold_torch__take(t, name, "running_var", width, 1);
    pair.weight = fold_torch__take(t, name, "weight", width, 0);
    pair.bias = fold_torch__take(t, name, "bias", width, 0);
    if (!fold_torch__ready(t, name))
        return norm;
    const fold_torch__name batches = fold_torch__join(name, "num_batches_tracked");
    fold_tensors_take(t, fold_tensors_find(t, batches.text));
    fold_model *m = fold_tensors_model(t);
    norm = fold_norm_new(m, name, width.dim[0], FOLD_NORM_FIXED, epsilon);
    if (fold_model_status(m))
        return norm;
    fold_torch__fix(m, &norm, &pair, &mean, &variance);
    if (!fold_torch__has(&pair.weight))
        fold_param_freeze(m, norm.gain, 1);
    if (!fold_torch__has(&pair.bias))
        fold_param_freeze(m, norm.bias, 1);
    return norm;
}

static void fold_torch__check_norm(fold_torch *t, const char *name, fold_norm_kind kind)
{
    fold_torch__refuse_with(t, name, "running_mean", "as nn.BatchNorm has: read it with FOLD_NORM_FIXED");
    if (kind == FOLD_NORM_RMS)
        fold_torch__refuse_with(t, name, "bias", "which nn.RMSNorm lacks: read it with FOLD_NORM_LAYER");
}

static void fold_torch__norm_values(fold_model *m, const fold_norm *norm, const fold_torch__pair *pair)
{
    if (fold_model_status(m))
        return;
    fold_torch__vector(m, &pair->weight, 0, norm->gain);
    if (norm->kind == FOLD_NORM_LAYER)
        fold_torch__vector(m, &pair->bias, 0, norm->bias);
}

/* Reads a norm. `layer` is its name in the model. */
static fold_norm fold_torch__norm(fold_torch *t, const char *name, const char *layer, fold_norm_kind kind,
                                  float epsilon)
{
    fold_norm norm;
    memset(&norm, 0, sizeof norm);
    fold_torch__check_norm(t, name, kind);
    const int rank = fold_torch__ready(t, name) ? fold_torch__look(t, name, "weight").rank : 0;
    if (rank > 1)
        fold_torch__refuse(t, name, "a normalized_shape of", rank, " axes");
    const fold_torch__pair pair = fold_torch__take_pair(t, name, "", fold_shape1(0));
    if (!fold_torch__ready(t, name))
        return norm;
    if (kind == FOLD_NORM_RMS && epsilon == 0)
        epsilon = FLT_EPSILON;
    norm = fold_norm_new(fold_tensors_model(t), layer, pair.weight.shape.dim[0], kind, epsilon);
    fold_torch__norm_values(fold_tensors_model(t), &norm, &pair);
    return norm;
}

FOLD_API fold_norm fold_torch_norm(fold_torch *t, const char *name, fold_norm_kind kind, float epsilon)
{
    return kind == FOLD_NORM_FIXED ? fold_torch__batch_norm(t, name, epsilon)
                                   : fold_torch__norm(t, name, name, kind, epsilon);
}

/* ---- recurrent layers ------------------------------------------------------------------------ */

/* place[i]: the index in PyTorch of gate i of fold.h, and vice versa. apart: 1 if the product with the state
   has a weight and a bias of its own. */
typedef struct fold_torch__gates {
    fold_recurrent_maker *make;
    int count, apart, place[4];
} fold_torch__gates;

/* One direction of a layer: the weights for inputs, and the weights for the state. */
typedef struct fold_torch__cell {
    fold_torch__pair from[2];
} fold_torch__cell;

static fold_torch__cell fold_torch__take_cell(fold_torch *t, const char *name, const char *suffix, int rows,
                                              int inputs, int hidden)
{
    static const char *const side[2] = { "ih", "hh" };
    fold_torch__cell cell;
    for (int i = 0; i < 2; i++) {
        char part[48];
        fold_torch__format(part, sizeof part, "weight_%s%s", side[i], suffix);
        cell.from[i].weight = fold_torch__take(t, name, part, fold_shape2(rows, i ? hidden : inputs), 1);
        fold_torch__format(part, sizeof part, "bias_%s%s", side[i], suffix);
        cell.from[i].bias = fold_torch__take(t, name, part, fold_shape1(rows), 0);
    }
    return cell;
}

/* Loads the gates of a bias in fold.h's order, and adds the gates of a second bias if there is one. */
static void fold_torch__gate_bias(fold_model *m, const fold_torch__gates *gates, fold_param param,
                                  const fold_torch__tensor *one, const fold_torch__tensor *other)
{
    if (!fold_torch__has(one)) {
        fold_torch__vector(m, NULL, 0, param);
        return;
    }
    const int hidden = one->shape.dim[0] / gates->count, both = other && fold_torch__has(other);
    float *values = fold_values_write_begin(m, param);
    for (int gate = 0; gate < gates->count; gate++)
        for (int i = 0; i < hidden; i++) {
            const int at = gates->place[gate] * hidden + i;
            values[gate * hidden + i] =
                fold_torch__value(one, at) + (both ? fold_torch__value(other, at) : 0.0f);
        }
    fold_values_write_end(m, param);
}

/* The parameters of a cell are named after the stack and the cell's place in it. */
static fold_param fold_torch__named(fold_model *m, const char *name, const char *place, const char *part)
{
    fold_torch__name full;
    fold_torch__format(full.text, sizeof full.text, "%s.%s.%s", name, place, part);
    return fold_param_find(m, full.text);
}

static void fold_torch__cell_values(fold_model *m, const fold_torch__gates *gates,
                                    const fold_torch__cell *cell, const char *name, const char *place)
{
    const int inputs = cell->from[0].weight.shape.dim[1], hidden = cell->from[1].weight.shape.dim[1];
    const int width = gates->count * hidden;
    const fold_param weight = fold_torch__named(m, name, place, "W");
    const fold_param recurrent = gates->apart ? fold_torch__named(m, name, place, "U") : weight;
    float *first = fold_values_write_begin(m, weight), *second = fold_values_write_begin(m, recurrent);
    if (!gates->apart)
        second += (size_t)inputs * (size_t)width;
    for (int gate = 0; gate < gates->count; gate++) {
        const int from = gates->place[gate] * hidden;
        fold_torch__columns(&cell->from[0].weight, from, hidden, first + gate * hidden, width);
        fold_torch__columns(&cell->from[1].weight, from, hidden, second + gate * hidden, width);
    }
    fold_values_write_end(m, weight);
    if (gates->apart)
        fold_values_write_end(m, recurrent);
    const fold_param bias = fold_torch__named(m, name, place, "b");
    fold_torch__gate_bias(m, gates, bias, &cell->from[0].bias, gates->apart ? NULL : &cell->from[1].bias);
    if (gates->apart)
        fold_torch__gate_bias(m, gates, fold_torch__named(m, name, place, "c"), &cell->from[1].bias, NULL);
}

/* Sizes of a stack, found in the file. layers is 0 if there is no such module. */
typedef struct fold_torch__sizes {
    int layers, directions, inputs, hidden, is_cell;
} fold_torch__sizes;
static fold_torch__sizes fold_torch__look_at_stack(fold_torch *t, const char *name)
{
    fold_torch__sizes sizes = { 0, 1, 0, 0, 0 };
    if (!fold_torch__ready(t, name))
        return sizes;
    char part[32] = "weight_ih_l0";
    int layers = 0;
    while (layers <= FOLD_MAX_LAYERS && fold_torch__look(t, name, part).name)
        fold_torch__format(part, sizeof part, "weight_ih_l%d", ++layers);
    const fold_tensor projection = fold_torch__look(t, name, "weight_hr_l0");
    if (projection.name)
        fold_torch__refuse(t, name, "a proj_size of", projection.dim[0], "");
    sizes.is_cell = !layers && fold_torch__look(t, name, "weight_ih").name;
    sizes.directions = fold_torch__look(t, name, "weight_ih_l0_reverse").name ? 2 : 1;
    const fold_shape any = fold_shape2(0, 0);
    const fold_torch__tensor input =
        fold_torch__take(t, name, sizes.is_cell ? "weight_ih" : "weight_ih_l0", any, 1);
    const fold_torch__tensor state =
        fold_torch__take(t, name, sizes.is_cell ? "weight_hh" : "weight_hh_l0", any, 1);
    if (!fold_torch__has(&input) || !fold_torch__has(&state))
        return sizes;
    sizes.inputs = input.shape.dim[1];
    sizes.hidden = state.shape.dim[1];
    if (fold_torch__sizes_fit(t, name, sizes.inputs, sizes.hidden))
        sizes.layers = layers ? layers : 1;
    return sizes;
}

static fold_torch__cell fold_torch__take_place(fold_torch *t, const char *name, int place,
                                               const fold_torch__sizes *sizes, int gates)
{
    const int layer = place / sizes->directions, reverse = place % sizes->directions;
    char suffix[32] = "";
    if (!sizes->is_cell)
        fold_torch__format(suffix, sizeof suffix, "_l%d%s", layer, reverse ? "_reverse" : "");
    return fold_torch__take_cell(t, name, suffix, gates * sizes->hidden,
                                 layer ? sizes->directions * sizes->hidden : sizes->inputs, sizes->hidden);
}

/* Reads a stack. All cells are checked before any is made. */
static fold_rnn_stack fold_torch__stack(fold_torch *t, const char *name, const fold_torch__gates *gates)
{
    fold_rnn_stack stack;
    memset(&stack, 0, sizeof stack);
    const fold_torch__sizes sizes = fold_torch__look_at_stack(t, name);
    const int cells = sizes.layers * sizes.directions;
    for (int i = 0; i < cells; i++)
        fold_torch__take_place(t, name, i, &sizes, gates->count);
    if (!fold_torch__ready(t, name))
        return stack;
    fold_model *m = fold_tensors_model(t);
    stack = fold_rnn_stack_new(m, name, gates->make, sizes.inputs, sizes.hidden, sizes.layers,
                               sizes.directions == 2);
    for (int i = 0; i < cells && !fold_model_status(m); i++) {
        const fold_torch__cell cell = fold_torch__take_place(t, name, i, &sizes, gates->count);
        char place[32];
        fold_torch__format(place, sizeof place, "%d%s", i / sizes.directions,
                           i % sizes.directions ? ".reverse" : "");
        fold_torch__cell_values(m, gates, &cell, name, place);
    }
    return stack;
}

/* PyTorch's order of an LSTM's gates is i f g o; its g is fold.h's u. */
static const fold_torch__gates fold_torch__rnn = { fold_rnn_new, 1, 0, { 0, 0, 0, 0 } };
static const fold_torch__gates fold_torch__rnn_relu = { fold_rnn_relu_new, 1, 0, { 0, 0, 0, 0 } };
static const fold_torch__gates fold_torch__lstm = { fold_lstm_new, 4, 0, { 0, 1, 3, 2 } };
static const fold_torch__gates fold_torch__gru = { fold_gru_new, 3, 1, { 0, 1, 2, 0 } };
FOLD_API fold_rnn_stack fold_torch_rnn(fold_torch *t, const char *name)
{
    return fold_torch__stack(t, name, &fold_torch__rnn);
}

FOLD_API fold_rnn_stack fold_torch_rnn_relu(fold_torch *t, const char *name)
{
    return fold_torch__stack(t, name, &fold_torch__rnn_relu);
}
FOLD_API fold_rnn_stack fold_torch_lstm(fold_torch *t, const char *name)
{
    return fold_torch__stack(t, name, &fold_torch__lstm);
}
FOLD_API fold_rnn_stack fold_torch_gru(fold_torch *t, const char *name)
{
    return fold_torch__stack(t, name, &fold_torch__gru);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Projections of queries, keys and values. Each is rows [from, from + width) of its weight, since all three
   may be in one tensor. */
typedef struct fold_torch__heads {
    fold_torch__pair in[3], joined;
    int from[3], width;
} fold_torch__heads;

/* Finds the projections of an attention. A width of 0 matches any. The tensors' names begin with `part`. */
static fold_torch__heads fold_torch__take_heads(fold_torch *t, const char *name, const char *part, int width)
{
    static const char *const apart[3] = { "q_proj_weight", "k_proj_weight", "v_proj_weight" };
    fold_torch__heads heads;
    char full[64];
    memset(&heads, 0, sizeof heads);
    fold_torch__format(full, sizeof full, "%sbias_k", part);
    fold_torch__refuse_with(t, name, full, "of add_bias_kv, which fold.h does not support");
    fold_torch__format(full, sizeof full, "%sout_proj.", part);
    heads.joined = fold_torch__take_pair(t, name, full, fold_shape2(width, width));
    if (!fold_torch__has(&heads.joined.weight))
        return heads;
    width = heads.width = heads.joined.weight.shape.dim[0];
    if (!fold_torch__sizes_fit(t, name, width, width))
        return heads;
    fold_torch__format(full, sizeof full, "%sq_proj_weight", part);
    const int one = !fold_torch__look(t, name, full).name;
    fold_torch__format(full, sizeof full, "%sin_proj_bias", part);
    const fold_torch__tensor bias = fold_torch__take(t, name, full, fold_shape1(3 * width), 0);
    for (int i = 0; i < 3; i++) {
        fold_torch__format(full, sizeof full, "%s%s", part, one ? "in_proj_weight" : apart[i]);
        const fold_shape wanted = fold_shape2(one ? 3 * width : width, one || !i ? width : 0);
        heads.in[i].weight = fold_torch__take(t, name, full, wanted, 1);
        heads.in[i].bias = bias;
        heads.from[i] = i * width;
    }
    return heads;
}

static void fold_torch__heads_values(fold_model *m, const fold_torch__heads *heads,
                                     const fold_attention *layer)
{
    const fold_dense *dense[3] = { &layer->query, &layer->key, &layer->value };
    for (int i = 0; i < 3 && !fold_model_status(m); i++) {
        const fold_torch__tensor *weight = &heads->in[i].weight;
        const int from = weight->shape.dim[0] > heads->width ? heads->from[i] : 0;
        fold_torch__columns(weight, from, heads->width, fold_values_write_begin(m, dense[i]->W),
                            heads->width);
        fold_values_write_end(m, dense[i]->W);
        fold_torch__vector(m, &heads->in[i].bias, heads->from[i], dense[i]->b);
    }
    fold_torch__weights(m, &heads->joined, 0, layer->joined.W, layer->joined.b);
}

static fold_dense fold_torch__projection(fold_model *m, const char *name, const char *part, int inputs,
                                         int outputs)
{
    const fold_torch__name full = fold_torch__part(name, part);
    return fold_dense_new(m, full.text, inputs, outputs, FOLD_ACT_LINEAR);
}

/* Makes the parts one by one, since keys and values may differ in width from queries. */
FOLD_API fold_attention fold_torch_attention(fold_torch *t, const char *name, int heads)
{
    fold_attention layer;
    char shown[FOLD_TORCH__SHORT];
    memset(&layer, 0, sizeof layer);
    const fold_torch__heads there = fold_torch__take_heads(t, name, "", 0);
    if (!fold_torch__ready(t, name))
        return layer;
    fold_model *m = fold_tensors_model(t);
    if (heads < 1 || there.width % heads) {
        fold_torch__fail(fold_tensors_model(t), FOLD_BAD_ARGUMENT,
                         "attention '%s': %d heads do not divide the width %d",
                         fold_torch__shorten(shown, name), heads, there.width);
        return layer;
    }
    layer.query = fold_torch__projection(m, name, "query", there.width, there.width);
    layer.key = fold_torch__projection(m, name, "key", there.in[1].weight.shape.dim[1], there.width);
    layer.value = fold_torch__projection(m, name, "value", there.in[2].weight.shape.dim[1], there.width);
    layer.joined = fold_torch__projection(m, name, "joined", there.width, there.width);
    layer.heads = heads;
    fold_torch__heads_values(m, &there, &layer);
    return layer;
}

static void fold_torch__check_transformer(fold_torch *t, const char *name, fold_norm_kind kind)
{
    fold_torch__refuse_with(t, name, "multihead_attn.out_proj.weight",
                            "of an nn.TransformerDecoderLayer, which fold.h does not support");
    if (!fold_torch__ready(t, name))
        return;
    const fold_torch__name first = fold_torch__join(name, "norm1");
    fold_torch__check_norm(t, first.text, kind);
}

/* Reads a transformer layer. `made` is its name in the model. */
static fold_transformer fold_torch__transformer(fold_torch *t, const char *name, const char *made,
                                                const fold_transformer_desc *desc)
{
    fold_transformer layer;
    fold_transformer_desc full = desc ? *desc : fold_transformer_desc_default();
    memset(&layer, 0, sizeof layer);
    fold_torch__check_transformer(t, name, full.norm);
    const fold_torch__heads heads = fold_torch__take_heads(t, name, "self_attn.", full.width);
    const fold_shape width = fold_shape1(heads.width);
    const fold_torch__pair inner =
        fold_torch__take_pair(t, name, "linear1.", fold_shape2(full.inner, heads.width));
    const int between = inner.weight.shape.dim[0];
    const fold_torch__pair outer =
        fold_torch__take_pair(t, name, "linear2.", fold_shape2(heads.width, between));
    const fold_torch__pair first = fold_torch__take_pair(t, name, "norm1.", width),
                           second = fold_torch__take_pair(t, name, "norm2.", width);
    if (!fold_torch__ready(t, name) || !fold_torch__sizes_fit(t, name, heads.width, between))
        return layer;
    fold_model *m = fold_tensors_model(t);
    full.width = heads.width;
    full.inner = between;
    layer = fold_transformer_new(m, made, &full);
    if (fold_model_status(m))
        return layer;
    fold_torch__heads_values(m, &heads, &layer.attention);
    fold_torch__weights(m, &inner, 0, layer.inner.W, layer.inner.b);
    fold_torch__weights(m, &outer, 0, layer.outer.W, layer.outer.b);
    fold_torch__norm_values(m, &layer.attention_norm, &first);
    fold_torch__norm_values(m, &layer.dense_norm, &second);
    return layer;
}

FOLD_API fold_transformer fold_torch_transformer(fold_torch *t, const char *name,
                                                 const fold_transformer_desc *desc)
{
    return fold_torch__transformer(t, name, name, desc);
}

FOLD_API fold_encoder fold_torch_encoder(fold_torch *t, const char *name, fold_transformer *layer, int room,
                                         const fold_transformer_desc *desc)
{
    const fold_transformer_desc settings = desc ? *desc : fold_transformer_desc_default();
    fold_encoder encoder;
    char part[192];
    int layers = 0;
    memset(&encoder, 0, sizeof encoder);
    if (!fold_torch__ready(t, name))
        return encoder;
    do
        fold_torch__format(part, sizeof part, "layers.%d.linear1.weight", layers);
    while (fold_torch__look(t, name, part).name && layers++ <= room);
    if (!layers)
        layers = 1; /* reading this layer reports what is missing */
    if (!layer || layers > room) {
        char shown[FOLD_TORCH__SHORT];
        fold_torch__fail(fold_tensors_model(t), FOLD_BAD_ARGUMENT,
                         "torch: '%s' has %d or more layers, but room is %d",
                         fold_torch__shorten(shown, name), layers, layer ? room : 0);
    }
    for (int i = 0; i < layers && !fold_model_status(fold_tensors_model(t)); i++) {
        fold_torch__format(part, sizeof part, "layers.%d", i);
        const fold_torch__name from = fold_torch__join(name, part), made = fold_torch__part(name, part);
        layer[i] = fold_torch__transformer(t, from.text, made.text, desc);
    }
    encoder.has_norm = fold_torch__look(t, name, "norm.weight").name != NULL;
    if (encoder.has_norm) {
        const fold_torch__name from = fold_torch__join(name, "norm"), made = fold_torch__part(name, "norm");
        encoder.norm = fold_torch__norm(t, from.text, made.text, settings.norm, 0);
    }
    encoder.layer = layer;
    encoder.layers = fold_model_status(fold_tensors_model(t)) ? 0 : layers;
    return encoder;
}

/* ---- writing layers, and raw floats ------------------------------------------------------------ */

/* Rows of a PyTorch tensor [rows x inputs x taps], and where their values are: in a parameter [taps x all
   inputs x rows], from input `first` on. Without a parameter, all values are `constant`. `second` marks the
   second of two biases. It is written as zeros; when loaded, it is added to the first. */
typedef struct fold_torch__piece {
    const char *part; /* end of the tensor's name; NULL: further rows of the previous tensor */
    fold_shape shape; /* shape of the whole tensor */
    fold_param param;
    const fold_torch__gates *gates;
    int rows, inputs, taps, first, all_inputs, second;
    float constant;
    int statistic;         /* FOLD_TORCH__MEAN or _VARIANCE of a batch norm without a weight, computed from
                              gain and bias */
    fold_param gain, bias;
} fold_torch__piece;
enum { FOLD_TORCH__NO_STATISTIC, FOLD_TORCH__MEAN, FOLD_TORCH__VARIANCE };
#define FOLD_TORCH__EPSILON 1e-5 /* default epsilon of PyTorch's batch norms */

/* A walk over the pieces of layers, in the order of state_dict. Errors are set on `told`. */
typedef struct fold_torch__walk {
    fold_model *m, *told;
    const char *layer, *own; /* names of the current layer, in PyTorch and in the model */
    void (*visit)(struct fold_torch__walk *walk, const fold_torch__piece *piece);
    fold_param target;      /* when exporting: the tensor being written, and the number of its floats written
                               so far */
    size_t written;
    int grads;              /* 1: export gradients instead of values */
    size_t count, given;    /* number of floats that the layers have needed so far, and number of floats
                               available */
    fold_torch__name now, lacks; /* names of the current tensor, and of the first tensor for which floats are
                                    missing */
    int lacking;
    const float *values; /* the next floats to load, from memory or from the file */
#ifndef FOLD_NO_STDIO
    FILE *file;
    int broken;
#endif
} fold_torch__walk;

static size_t fold_torch__size(const fold_torch__piece *piece)
{
    return (size_t)piece->rows * (size_t)piece->inputs * (size_t)piece->taps;
}

/* Returns the index of a piece's value in the parameter. */
static size_t fold_torch__place(const fold_torch__piece *piece, size_t at)
{
    const size_t taps = (size_t)piece->taps, size = (size_t)piece->inputs * taps, row = at / size;
    const size_t hidden = (size_t)(piece->rows / piece->gates->count);
    const size_t column = (size_t)piece->gates->place[row / hidden] * hidden + row % hidden;
    return (at % taps * (size_t)piece->all_inputs + (size_t)piece->first + at % size / taps) *
               (size_t)piece->rows +
           column;
}

/* Returns the name of a layer's tensor in PyTorch. If `part` is "", the layer itself is a parameter. */
static fold_torch__name fold_torch__full_name(const fold_torch__walk *walk, const char *part)
{
    return *part ? fold_torch__join(walk->layer, part) : fold_torch__join("", walk->layer);
}

/* Returns the name of a layer's parameter in the model. */
static fold_torch__name fold_torch__own_name(const fold_torch__walk *walk, const char *part)
{
    return *part ? fold_torch__part(walk->own, part) : fold_torch__join("", walk->own);
}

/* Finds a parameter of a layer. If the layer is "", its parts may be layers that a program made and named
   itself, without the dot. */
static fold_param fold_torch__param(const fold_torch__walk *walk, const char *part)
{
    const fold_torch__name full = fold_torch__own_name(walk, part);
    const fold_param param = fold_param_find(walk->m, full.text);
    return fold_param_is_null(param) && *full.text == '.' ? fold_param_find(walk->m, full.text + 1) : param;
}

static int fold_torch__is_there(const fold_torch__walk *walk, const char *part)
{
    return !fold_param_is_null(fold_torch__param(walk, part));
}

static fold_param fold_torch__find(fold_torch__walk *walk, const char *part)
{
    const fold_torch__name full = fold_torch__own_name(walk, part);
    const fold_param param = fold_torch__param(walk, part);
    char shown[FOLD_TORCH__SHORT];
    if (fold_param_is_null(param))
        fold_torch__fail(walk->told, FOLD_BAD_ARGUMENT, "torch: the model has no parameter '%s'",
                         fold_torch__shorten(shown, full.text));
    return param;
}

/* Returns the piece that covers a whole parameter. */
static fold_torch__piece fold_torch__piece_of(fold_torch__walk *walk, const char *part, const char *source,
                                              const fold_torch__gates *gates)
{
    fold_torch__piece piece;
    memset(&piece, 0, sizeof piece);
    piece.part = part;
    piece.param = fold_torch__find(walk, source);
    piece.gates = gates;
    const fold_shape shape = fold_param_shape(walk->m, piece.param);
    const int matrix = shape.rank > 1;
    piece.rows = shape.rank ? shape.dim[shape.rank - 1] : 1;
    piece.all_inputs = matrix ? shape.dim[shape.rank - 2] : 1;
    piece.inputs = piece.all_inputs;
    piece.taps = 1;
    piece.shape = matrix ? fold_shape2(piece.rows, piece.inputs) : fold_shape1(piece.rows);
    for (int axis = 0; axis + 2 < shape.rank; axis++)
        piece.taps *= piece.shape.dim[piece.shape.rank++] = shape.dim[axis];
    return piece;
}

static void fold_torch__visit(fold_torch__walk *walk, const fold_torch__piece *piece)
{
    if (fold_model_status(walk->told))
        return;
    if (piece->part)
        walk->now = fold_torch__full_name(walk, piece->part);
    walk->visit(walk, piece);
    walk->count += fold_torch__size(piece);
}

static void fold_torch__walk_one(fold_torch__walk *walk, const char *part, const char *source)
{
    const fold_torch__piece piece = fold_torch__piece_of(walk, part, source, &fold_torch__rnn);
    fold_torch__visit(walk, &piece);
}

/* Visits an unchanged parameter. It has the name of the layer or, if that is "", of the part. */
static void fold_torch__walk_param(fold_torch__walk *walk, const char *part)
{
    fold_torch__piece piece = fold_torch__piece_of(walk, part, *walk->own ? "" : part, &fold_torch__rnn);
    piece.shape = fold_param_shape(walk->m, piece.param);
    piece.rows *= piece.all_inputs * piece.taps;
    piece.inputs = piece.taps = piece.all_inputs = 1;
    fold_torch__visit(walk, &piece);
}

/* Visits a weight and a bias. Their names begin with `to` in PyTorch and with `from` in the model. */
static void fold_torch__walk_pair(fold_torch__walk *walk, const char *to, const char *from,
                                  const char *weight, const char *bias)
{
    static const char *const parts[2] = { "weight", "bias" };
    for (int i = 0; i < 2 && (!i || bias); i++) {
        char part[64], source[64];
        fold_torch__format(part, sizeof part, "%s%s", to, parts[i]);
        fold_torch__format(source, sizeof source, "%s%s", from, i ? bias : weight);
        fold_torch__walk_one(walk, part, source);
    }
}

/* Checks that a gain can be written as a variance: gain = 1 / sqrt(variance + epsilon). */
static void fold_torch__check_gain(fold_torch__walk *walk, fold_param gain)
{
    const float *values = fold_param_value(walk->m, gain);
    const int count = fold_param_shape(walk->m, gain).dim[0];
    char shown[FOLD_TORCH__SHORT];
    for (int i = 0; values && i < count; i++)
        if (!(values[i] > 0 && (double)values[i] * (double)values[i] * FOLD_TORCH__EPSILON <= 1.000001))
            fold_torch__fail(walk->told, FOLD_BAD_ARGUMENT,
                             "torch: gain %d of '%s' is %g; without a weight in the batch norm it must be in "
                             "(0, 316.2]",
                             i, fold_torch__shorten(shown, walk->layer), (double)values[i]);
}

/* Visits a batch norm. If the module has no weight and bias, its running statistics include them. */
static void fold_torch__walk_statistics(fold_torch__walk *walk, int is_affine)
{
    fold_torch__piece piece = fold_torch__piece_of(walk, "running_mean", "gain", &fold_torch__rnn);
    if (!is_affine) {
        piece.gain = piece.param;
        piece.bias = fold_torch__find(walk, "bias");
        piece.statistic = FOLD_TORCH__MEAN;
        fold_torch__check_gain(walk, piece.gain);
    }
    memset(&piece.param, 0, sizeof piece.param);
    fold_torch__visit(walk, &piece);
    piece.part = "running_var";
    piece.constant = (float)(1 - FOLD_TORCH__EPSILON); /* adding epsilon gives 1 */
    if (!is_affine)
        piece.statistic = FOLD_TORCH__VARIANCE;
    fold_torch__visit(walk, &piece);
}

/* Visits one direction of a layer. Its names begin with `from` in the model and end with `suffix` in
   PyTorch. */
static void fold_torch__walk_cell(fold_torch__walk *walk, const fold_torch__gates *gates, const char *from,
                                  const char *suffix, int with_bias)
{
    static const char *const parts[4] = { "weight_ih", "weight_hh", "bias_ih", "bias_hh" };
    const char *const sources[4] = { "W", gates->apart ? "U" : "W", "b", gates->apart ? "c" : "b" };
    for (int i = 0; i < (with_bias ? 4 : 2); i++) {
        char part[48], source[64];
        fold_torch__format(part, sizeof part, "%s%s", parts[i], suffix);
        fold_torch__format(source, sizeof source, "%s%s", from, sources[i]);
        fold_torch__piece piece = fold_torch__piece_of(walk, part, source, gates);
        if (i < 2 && !gates->apart) { /* both are rows of one parameter */
            const int hidden = piece.rows / gates->count, inputs = piece.all_inputs - hidden;
            piece.inputs = piece.shape.dim[1] = i ? hidden : inputs;
            piece.first = i ? inputs : 0;
        }
        piece.second = i == 3 && !gates->apart;
        fold_torch__visit(walk, &piece);
    }
}

static void fold_torch__walk_stack(fold_torch__walk *walk, const fold_torch__gates *gates, int with_bias,
                                   int is_cell)
{
    char from[32], suffix[32], weight[32];
    if (fold_torch__is_there(walk, "W")) {
        fold_torch__walk_cell(walk, gates, "", "", with_bias);
        return;
    }
    for (int place = 0; place < (is_cell ? 1 : 2 * FOLD_MAX_LAYERS); place++) {
        fold_torch__format(from, sizeof from, "%d%s.", place / 2, place % 2 ? ".reverse" : "");
        fold_torch__format(suffix, sizeof suffix, is_cell ? "" : "_l%d%s", place / 2,
                           place % 2 ? "_reverse" : "");
        fold_torch__format(weight, sizeof weight, "%sW", from);
        if (!place || fold_torch__is_there(walk, weight))
            fold_torch__walk_cell(walk, gates, from, suffix, with_bias);
    }
}

/* Visits an attention. The projections are rows of one tensor or, if keys or values have different widths,
   separate tensors. */
static void fold_torch__walk_heads(fold_torch__walk *walk, const char *to, const char *from, int with_bias)
{
    static const char *const sources[3] = { "query.", "key.", "value." };
    static const char *const apart[3] = { "q_proj_weight", "k_proj_weight", "v_proj_weight" };
    char part[64], source[64];
    for (int bias = 0; bias <= with_bias; bias++) {
        fold_torch__piece piece[3];
        for (int i = 0; i < 3; i++) {
            fold_torch__format(source, sizeof source, "%s%s%s", from, sources[i], bias ? "b" : "W");
            piece[i] = fold_torch__piece_of(walk, NULL, source, &fold_torch__rnn);
        }
        const int one = bias || (piece[1].inputs == piece[0].inputs && piece[2].inputs == piece[0].inputs);
        for (int i = 0; i < 3; i++) {
            fold_torch__format(part, sizeof part, "%s%s", to,
                               bias  ? "in_proj_bias"
                               : one ? "in_proj_weight"
                                     : apart[i]);
            if (one)
                piece[i].shape.dim[0] *= 3;
            if (!i || !one)
                piece[i].part = part;
            fold_torch__visit(walk, &piece[i]);
        }
    }
    fold_torch__format(part, sizeof part, "%sout_proj.", to);
    fold_torch__format(source, sizeof source, "%sjoined.", from);
    fold_torch__walk_pair(walk, part, source, "W", with_bias ? "b" : NULL);
}

static void fold_torch__walk_transformer(fold_torch__walk *walk, const char *bias, const char *norm_bias)
{
    fold_torch__walk_heads(walk, "self_attn.", "attention.", bias != NULL);
    fold_torch__walk_pair(walk, "linear1.", "inner.", "W", bias);
    fold_torch__walk_pair(walk, "linear2.", "outer.", "W", bias);
    fold_torch__walk_pair(walk, "norm1.", "attention_norm.", "gain", norm_bias);
    fold_torch__walk_pair(walk, "norm2.", "dense_norm.", "gain", norm_bias);
}

/* nn.RMSNorm has no bias. */
static void fold_torch__walk_norm(fold_torch__walk *walk, const char *bias)
{
    fold_torch__walk_pair(walk, "", "", "gain", fold_torch__is_there(walk, "bias") ? bias : NULL);
}

static void fold_torch__walk_encoder(fold_torch__walk *walk, const char *bias, const char *norm_bias)
{
    const char *name = walk->layer;
    fold_torch__name part = fold_torch__join(name, "layers.0"), own = fold_torch__part(name, "layers.0");
    walk->layer = part.text;
    walk->own = own.text;
    for (int i = 1; i == 1 || fold_torch__is_there(walk, "inner.W"); i++) {
        char next[32];
        fold_torch__walk_transformer(walk, bias, norm_bias);
        fold_torch__format(next, sizeof next, "layers.%d", i);
        part = fold_torch__join(name, next);
        own = fold_torch__part(name, next);
    }
    part = fold_torch__join(name, "norm");
    own = fold_torch__part(name, "norm");
    if (fold_torch__is_there(walk, "gain"))
        fold_torch__walk_norm(walk, norm_bias);
    walk->layer = walk->own = name;
}

static void fold_torch__walk_layer(fold_torch__walk *walk, const fold_torch_layer *layer)
{
    const int with_bias = !(layer->kind & FOLD_TORCH_NO_BIAS), is_cell = layer->kind & FOLD_TORCH_CELL;
    const char *bias = with_bias ? "b" : NULL, *norm_bias = with_bias ? "bias" : NULL;
    walk->layer = walk->own = layer->name ? layer->name : "";
    switch (layer->kind & ~(FOLD_TORCH_NO_BIAS | FOLD_TORCH_CELL)) {
    case FOLD_TORCH_PARAM: fold_torch__walk_param(walk, ""); break;
    case FOLD_TORCH_EMBEDDING: fold_torch__walk_param(walk, "weight"); break;
    case FOLD_TORCH_LINEAR:
    case FOLD_TORCH_CONV: fold_torch__walk_pair(walk, "", "", "W", bias); break;
    case FOLD_TORCH_NORM: fold_torch__walk_norm(walk, norm_bias); break;
    case FOLD_TORCH_BATCH_NORM:
        if (with_bias)
            fold_torch__walk_pair(walk, "", "", "gain", "bias");
        if (!walk->grads)
            fold_torch__walk_statistics(walk, with_bias);
        break;
    case FOLD_TORCH_RNN: fold_torch__walk_stack(walk, &fold_torch__rnn, with_bias, is_cell); break;
    case FOLD_TORCH_LSTM: fold_torch__walk_stack(walk, &fold_torch__lstm, with_bias, is_cell); break;
    case FOLD_TORCH_GRU: fold_torch__walk_stack(walk, &fold_torch__gru, with_bias, is_cell); break;
    case FOLD_TORCH_ATTENTION: fold_torch__walk_heads(walk, "", "", with_bias); break;
    case FOLD_TORCH_TRANSFORMER: fold_torch__walk_transformer(walk, bias, norm_bias); break;
    case FOLD_TORCH_ENCODER: fold_torch__walk_encoder(walk, bias, norm_bias); break;
    default: fold_torch__fail(walk->told, FOLD_BAD_ARGUMENT, "torch: %d is no kind of layer", layer->kind);
    }
}

static fold_status fold_torch__walk_all(fold_torch__walk *walk, const fold_torch_layer *layers, int n)
{
    if (!layers || n < 1)
        fold_torch__fail(walk->told, FOLD_BAD_ARGUMENT, "torch: layers is NULL");
    walk->count = 0;
    for (int i = 0; i < n && !fold_model_status(walk->told); i++)
        fold_torch__walk_layer(walk, &layers[i]);
    return fold_model_status(walk->told);
}

static fold_torch__walk fold_torch__walk_of(fold_model *m, fold_model *told,
                                            void (*visit)(fold_torch__walk *walk,
                                                          const fold_torch__piece *piece))
{
    fold_torch__walk walk;
    memset(&walk, 0, sizeof walk);
    walk.m = m;
    walk.told = told;
    walk.visit = visit;
    return walk;
}

static void fold_torch__check_piece(fold_torch__walk *walk, const fold_torch__piece *piece)
{
    const fold_param params[3] = { piece->param, piece->gain, piece->bias };
    char shown[FOLD_TORCH__SHORT];
    for (int i = 0; i < 3; i++)
        if (!fold_param_is_null(params[i]) && !fold_param_value(walk->m, params[i]))
            fold_torch__fail(walk->told, FOLD_BAD_STATE, "torch: '%s' is quantised and has no floats",
                             fold_torch__shorten(shown, fold_param_name(walk->m, params[i])));
}

static float fold_torch__statistic(const fold_torch__walk *walk, const fold_torch__piece *piece, size_t at)
{
    const double gain = (double)fold_param_value(walk->m, piece->gain)[at],
                 bias = (double)fold_param_value(walk->m, piece->bias)[at];
    const double variance = 1 / (gain * gain) - FOLD_TORCH__EPSILON;
    if (piece->statistic == FOLD_TORCH__MEAN)
        return (float)(-bias / gain);
    return (float)(variance > 0 ? variance : 0);
}

static float fold_torch__value_at(const fold_torch__walk *walk, const fold_torch__piece *piece,
                                  const float *values, size_t at)
{
    if (piece->statistic)
        return fold_torch__statistic(walk, piece, at);
    return values && (!piece->second || walk->grads) ? values[fold_torch__place(piece, at)] : piece->constant;
}

static const float *fold_torch__source(const fold_torch__walk *walk, const fold_torch__piece *piece)
{
#ifndef FOLD_INFERENCE
    if (walk->grads)
        return fold_param_grad(walk->m, piece->param);
#endif
    return fold_param_value(walk->m, piece->param);
}

static void fold_torch__export_piece(fold_torch__walk *walk, const fold_torch__piece *piece)
{
    fold_param_desc desc = fold_param_desc_default();
    desc.name = walk->now.text;
    desc.shape = piece->shape;
    fold_torch__check_piece(walk, piece);
    if (piece->part) {
        walk->target = fold_param_new(walk->told, &desc);
        walk->written = 0;
    }
    if (fold_model_status(walk->told))
        return;
    const float *values = fold_torch__source(walk, piece);
    float *to = fold_values_write_begin(walk->told, walk->target) + walk->written;
    for (size_t at = 0; at < fold_torch__size(piece); at++)
        to[at] = fold_torch__value_at(walk, piece, values, at);
    fold_values_write_end(walk->told, walk->target);
    walk->written += fold_torch__size(piece);
}

static fold_status fold_torch__export(fold_model *out, fold_model *m, const fold_torch_layer *layers, int n,
                                      int grads)
{
    fold_torch__walk walk = fold_torch__walk_of(m, out, fold_torch__export_piece);
    walk.grads = grads;
    if (!m)
        fold_torch__fail(out, FOLD_BAD_ARGUMENT, "torch: m is NULL");
    return out ? fold_torch__walk_all(&walk, layers, n) : FOLD_BAD_ARGUMENT;
}

FOLD_API fold_status fold_torch_export(fold_model *out, fold_model *m, const fold_torch_layer *layers, int n)
{
    return fold_torch__export(out, m, layers, n, 0);
}
#ifndef FOLD_INFERENCE
FOLD_API fold_status fold_torch_export_grads(fold_model *out, fold_model *m, const fold_torch_layer *layers,
                                             int n)
{
    return fold_torch__export(out, m, layers, n, 1);
}
#endif

static void fold_torch__count_piece(fold_torch__walk *walk, const fold_torch__piece *piece)
{
    char shown[FOLD_TORCH__SHORT];
    if (fold_param_is_null(piece->param))
        fold_torch__fail(walk->told, FOLD_BAD_ARGUMENT,
                         "torch: '%s' is folded into a gain and a bias, and cannot be loaded from raw floats",
                         fold_torch__shorten(shown, walk->now.text));
    if (!walk->lacking && walk->count + fold_torch__size(piece) > walk->given)
        walk->lacks = walk->now;
    walk->lacking |= walk->count + fold_torch__size(piece) > walk->given;
}

#ifndef FOLD_NO_STDIO
static float fold_torch__read_float(fold_torch__walk *walk)
{
    uint32_t bits = 0;
    float value;
    unsigned char bytes[4] = { 0, 0, 0, 0 };
    walk->broken |= fread(bytes, 1, 4, walk->file) != 4;
    for (int i = 0; i < 4; i++)
        bits |= (uint32_t)bytes[i] << 8 * i;
    memcpy(&value, &bits, sizeof value);
    return value;
}
#endif

static void fold_torch__load_piece(fold_torch__walk *walk, const fold_torch__piece *piece)
{
    float *to = fold_values_write_begin(walk->m, piece->param);
    for (size_t at = 0; to && at < fold_torch__size(piece); at++) {
        float value = 0, *place = to + fold_torch__place(piece, at);
#ifndef FOLD_NO_STDIO
        if (walk->file)
            value = fold_torch__read_float(walk);
        else
#endif
            value = *walk->values++;
        *place = piece->second ? *place + value : value;
    }
    if (to)
        fold_values_write_end(walk->m, piece->param);
}

/* Checks that the number of floats is right before any float is loaded. */
static fold_status fold_torch__load(fold_torch__walk *walk, const char *from, size_t given,
                                    const fold_torch_layer *layers, int n)
{
    char shown[FOLD_TORCH__SHORT];
    walk->given = given;
    if (fold_torch__walk_all(walk, layers, n))
        return fold_model_status(walk->m);
    if (walk->lacking)
        fold_torch__fail(walk->m, FOLD_BAD_SHAPE,
                         "torch: %s has %d floats, too few for '%s'; the layers take %d", from, (int)given,
                         fold_torch__shorten(shown, walk->lacks.text), (int)walk->count);
    else if (walk->count < given)
        fold_torch__fail(walk->m, FOLD_BAD_SHAPE, "torch: %s has %d floats, the layers take %d", from,
                         (int)given, (int)walk->count);
    if (fold_model_status(walk->m))
        return fold_model_status(walk->m);
    walk->visit = fold_torch__load_piece;
    return fold_torch__walk_all(walk, layers, n);
}

FOLD_API fold_status fold_torch_load_raw_memory(fold_model *m, const float *values, size_t count,
                                                const fold_torch_layer *layers, int n)
{
    fold_torch__walk walk = fold_torch__walk_of(m, m, fold_torch__count_piece);
    walk.values = values;
    if (!values)
        fold_torch__fail(m, FOLD_BAD_ARGUMENT, "torch: values is NULL");
    return m ? fold_torch__load(&walk, "the array", count, layers, n) : FOLD_BAD_ARGUMENT;
}

#ifndef FOLD_NO_STDIO
static FILE *fold_torch__open(fold_model *m, const char *path, const char *mode,
                              char shown[FOLD_TORCH__SHORT])
{
    FILE *file = path && !fold_model_status(m) ? fopen(path, mode) : NULL;
    if (!path)
        fold_torch__fail(m, FOLD_BAD_ARGUMENT, "torch: path is NULL");
    else if (!file)
        fold_torch__fail(m, FOLD_IO, "torch: '%s' cannot be opened", fold_torch__shorten(shown, path));
    return file;
}

FOLD_API fold_status fold_torch_load_raw(fold_model *m, const char *path, const fold_torch_layer *layers,
                                         int n)
{
    char shown[FOLD_TORCH__SHORT], from[FOLD_TORCH__SHORT + 2];
    fold_torch__walk walk = fold_torch__walk_of(m, m, fold_torch__count_piece);
    walk.file = fold_torch__open(m, path, "rb", shown);
    if (!walk.file)
        return m ? fold_model_status(m) : FOLD_BAD_ARGUMENT;
    const long size = fseek(walk.file, 0, SEEK_END) ? -1 : ftell(walk.file);
    walk.broken = size < 0 || fseek(walk.file, 0, SEEK_SET);
    fold_torch__format(from, sizeof from, "'%s'", fold_torch__shorten(shown, path));
    if (!walk.broken && size % 4)
        fold_torch__fail(m, FOLD_IO, "torch: %s ends within a float", from);
    if (!walk.broken)
        fold_torch__load(&walk, from, (size_t)size / 4, layers, n);
    if (walk.broken)
        fold_torch__fail(m, FOLD_IO, "torch: %s cannot be read", from);
    fclose(walk.file);
    return fold_model_status(m);
}

static void fold_torch__save_piece(fold_torch__walk *walk, const fold_torch__piece *piece)
{
    const float *values = fold_param_value(walk->m, piece->param);
    for (size_t at = 0; at < fold_torch__size(piece); at++) {
        const float value = fold_torch__value_at(walk, piece, values, at);
        unsigned char bytes[4];
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        for (int i = 0; i < 4; i++)
            bytes[i] = (unsigned char)(bits >> 8 * i);
        walk->broken |= fwrite(bytes, 1, 4, walk->file) != 4;
    }
}

FOLD_API fold_status fold_torch_save_raw(fold_model *m, const char *path, const fold_torch_layer *layers,
                                         int n)
{
    char shown[FOLD_TORCH__SHORT];
    fold_torch__walk walk = fold_torch__walk_of(m, m, fold_torch__check_piece);
    if (!m || fold_torch__walk_all(&walk, layers, n))
        return m ? fold_model_status(m) : FOLD_BAD_ARGUMENT;
    walk.visit = fold_torch__save_piece;
    walk.file = fold_torch__open(m, path, "wb", shown);
    if (!walk.file)
        return fold_model_status(m);
    fold_torch__walk_all(&walk, layers, n);
    walk.broken |= fclose(walk.file) != 0;
    if (walk.broken)
        fold_torch__fail(m, FOLD_IO, "torch: '%s' cannot be written", shown);
    return fold_model_status(m);
}

#ifndef FOLD_INFERENCE
static fold_status fold_torch__save(fold_model *m, const char *path, const fold_torch_layer *layers, int n,
                                    int grads)
{
    fold_model_desc desc = fold_model_desc_default();
    desc.inference = 1;
    desc.memory = fold_model_memory(m);
    if (!m || fold_model_status(m))
        return m ? fold_model_status(m) : FOLD_BAD_ARGUMENT;
    fold_model *out = fold_model_new(&desc);
    if (!out)
        return fold_model_fail(m, FOLD_NO_MEMORY, "torch: out of memory");
    fold_status status = fold_torch__export(out, m, layers, n, grads);
    if (!status)
        status = fold_model_save(out, path, NULL);
    if (status)
        fold_model_fail(m, status, fold_model_message(out));
    fold_model_free(out);
    return fold_model_status(m);
}

FOLD_API fold_status fold_torch_save(fold_model *m, const char *path, const fold_torch_layer *layers, int n)
{
    return fold_torch__save(m, path, layers, n, 0);
}
FOLD_API fold_status fold_torch_save_grads(fold_model *m, const char *path, const fold_torch_layer *layers,
                                           int n)
{
    return fold_torch__save(m, path, layers, n, 1);
}
#endif
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#endif /* FOLD_TORCH_IMPLEMENTATION */
