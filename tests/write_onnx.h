/* write_onnx.h - writes ONNX files for tests, as protobuf messages whose fields are given by number.

       message graph = { 0 }, file;
       put_tensor(&graph, 5, "W", "2 3", values);
       put_node(&graph, "Gemm", "x W", "y", "transB=1");
       put_value(&graph, 11, "x", "1 3");
       put_value(&graph, 12, "y", "1 2");
       onnx_file(&file, &graph, 13); */

#ifndef WRITE_ONNX_H
#define WRITE_ONNX_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct message { unsigned char bytes[1 << 15]; size_t size; } message;

static inline void put_varint(message *m, uint64_t value)
{
    for (; value > 127; value >>= 7) m->bytes[m->size++] = (unsigned char)(value | 128);
    m->bytes[m->size++] = (unsigned char)value;
}
static inline void put_number(message *m, int field, int64_t value)
{
    put_varint(m, (uint64_t)field << 3);
    put_varint(m, (uint64_t)value);
}
static inline void put_bytes(message *m, int field, const void *bytes, size_t size)
{
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, size);
    if (size) memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}
/* Numbers of `size` bytes each, in little-endian order. */
static inline void put_numbers(message *m, int field, const void *numbers, size_t count, size_t size)
{
    static unsigned char little[1 << 14];
    const uint16_t one = 1;
    const unsigned char *from = (const unsigned char *)numbers;
    const int is_little = *(const unsigned char *)&one;
    for (size_t i = 0; i < count * size; i++) little[i] = from[is_little ? i : i / size * size + size - 1 - i % size];
    put_bytes(m, field, little, count * size);
}
static inline void put_text(message *m, int field, const char *text) { put_bytes(m, field, text, strlen(text)); }
static inline void put_message(message *m, int field, const message *inner) { put_bytes(m, field, inner->bytes, inner->size); }
static inline void put_float(message *m, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    put_varint(m, (uint64_t)field << 3 | 5);
    for (int i = 0; i < 4; i++) m->bytes[m->size++] = (unsigned char)(bits >> 8 * i);
}

/* Puts the words of a text one by one. */
static inline void put_words(message *m, int field, const char *words)
{
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        put_bytes(m, field, words, n);
    }
}

/* A float tensor; dims "" is a scalar. */
static inline void put_tensor(message *m, int field, const char *name, const char *dims, const float *values)
{
    static message t;
    int count = 1;
    t.size = 0;
    for (char *next; *dims; dims = next) {
        const long dim = strtol(dims, &next, 10);
        put_number(&t, 1, dim);
        count *= (int)dim;
    }
    put_number(&t, 2, 1);
    put_text(&t, 8, name);
    put_numbers(&t, 9, values, (size_t)count, sizeof *values);
    put_message(m, field, &t);
}
/* A tensor of whole numbers, [n]. */
static inline void put_whole(message *m, int field, const char *name, const char *numbers)
{
    static message t;
    int64_t values[32];
    int count = 0;
    t.size = 0;
    for (char *next; *numbers; numbers = next) values[count++] = strtoll(numbers, &next, 10);
    put_number(&t, 1, count);
    put_number(&t, 2, 7);
    put_text(&t, 8, name);
    put_numbers(&t, 9, values, (size_t)count, sizeof *values);
    put_message(m, field, &t);
}

/* A node. Attributes are words: axis=1, axes=1,2 (a comma makes a list: axes=1,), alpha=0.5 (a point makes a float), mode=edge,
   axis=:2 (type 2 and no value, as proto3 writes a 0), alpha=@slope (that of the function's call). domain=own is none, but the node's
   domain. */
static inline void put_node(message *graph, const char *type, const char *in, const char *out, const char *attributes)
{
    static message node, attribute;
    node.size = 0;
    put_words(&node, 1, in);
    put_words(&node, 2, out);
    put_text(&node, 4, type);
    for (size_t n; *attributes; attributes += n + (attributes[n] == ' ')) {
        n = strcspn(attributes, " ");
        const size_t name = strcspn(attributes, "=");
        const char *value = attributes + name + 1, *end = attributes + n;
        if (!strncmp(attributes, "domain=", 7)) {
            put_bytes(&node, 7, value, (size_t)(end - value));
            continue;
        }
        attribute.size = 0;
        put_bytes(&attribute, 1, attributes, name);
        const int is_text = (*value | 32) >= 'a' && (*value | 32) <= 'z', is_ellipsis = !strncmp(value, "...", 3);
        if (is_text || is_ellipsis) put_bytes(&attribute, 4, value, (size_t)(end - value));
        else if (*value == ':') put_number(&attribute, 20, strtol(value + 1, NULL, 10));
        else if (*value == '@') put_bytes(&attribute, 21, value + 1, (size_t)(end - value - 1));
        else if (memchr(value, ',', (size_t)(end - value)))
            while (value < end) {
                char *next;
                put_number(&attribute, 8, strtoll(value, &next, 10));
                value = next + 1;
            }
        else if (memchr(value, '.', (size_t)(end - value))) put_float(&attribute, 2, strtof(value, NULL));
        else put_number(&attribute, 3, strtoll(value, NULL, 10));
        put_message(&node, 5, &attribute);
    }
    put_message(graph, 1, &node);
}

/* An input (11) or an output (12); a dimension of 0 has no length. */
static inline void put_value(message *graph, int field, const char *name, const char *dims)
{
    static message shape, tensor, type, value, dim;
    shape.size = tensor.size = type.size = value.size = 0;
    for (char *next; *dims; dims = next) {
        const long length = strtol(dims, &next, 10);
        dim.size = 0;
        if (length) put_number(&dim, 1, length);
        else put_text(&dim, 2, "batch");
        put_message(&shape, 1, &dim);
    }
    put_number(&tensor, 1, 1);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&value, 1, name);
    put_message(&value, 2, &type);
    put_message(graph, field, &value);
}

static inline void onnx_file(message *file, const message *graph, int opset)
{
    static message version, metadata;
    file->size = version.size = metadata.size = 0;
    put_number(file, 1, 8);
    put_number(&version, 2, opset);
    put_message(file, 8, &version);
    put_message(file, 7, graph);
    put_text(&metadata, 1, "joint_names");
    put_text(&metadata, 2, "hip,knee");
    put_message(file, 14, &metadata);
}

/* A network with all kinds of layers, for 4 observations, an image of 2 x 6 x 6 and a state of 3. */
static inline void write_network(message *file)
{
    static message graph;
    float values[512];
    for (int i = 0; i < 512; i++) values[i] = (float)((i * 37 + 11) % 101 - 50) / 60;
    graph.size = 0;
    put_value(&graph, 11, "obs", "0 4");
    put_value(&graph, 11, "picture", "0 2 6 6");
    put_value(&graph, 11, "h_in", "1 0 3");
    put_tensor(&graph, 5, "mean", "4", values + 7);
    put_tensor(&graph, 5, "filter", "3 2 3 3", values + 20);
    put_tensor(&graph, 5, "filter.bias", "3", values + 90);
    put_tensor(&graph, 5, "W", "5 16", values + 100);
    put_tensor(&graph, 5, "b", "5", values + 190);
    put_tensor(&graph, 5, "gru.W", "1 9 5", values + 200);
    put_tensor(&graph, 5, "gru.R", "1 9 3", values + 250);
    put_tensor(&graph, 5, "gru.B", "1 18", values + 290);
    put_tensor(&graph, 5, "gain", "3", values + 320);
    put_tensor(&graph, 5, "out", "3 4", values + 330);
    put_tensor(&graph, 5, "deviation", "1 4", values + 350);
    put_whole(&graph, 5, "row", "1 1 5");
    put_node(&graph, "Sub", "obs mean", "centred", "");
    put_node(&graph, "Conv", "picture filter filter.bias", "seen", "kernel_shape=3,3 strides=2,2 pads=1,1,0,0");
    put_node(&graph, "LeakyRelu", "seen", "seen.active", "alpha=0.01");
    put_node(&graph, "ReduceMean", "seen.active", "seen.mean", "axes=2, keepdims=0");
    put_node(&graph, "Flatten", "seen.mean", "seen.flat", "axis=1");
    put_node(&graph, "Slice", "seen.flat", "seen.part", "starts=0, ends=9223372036854775807, axes=1,");
    put_node(&graph, "Concat", "centred seen.part centred", "all.long", "axis=1");
    put_node(&graph, "Pad", "all.long", "all", "pads=0,0,0,-1");
    put_node(&graph, "Gemm", "all W b", "body", "transB=1");
    put_node(&graph, "Sigmoid", "body", "body.gate", "");
    put_node(&graph, "Mul", "body body.gate", "body.active", "");
    put_node(&graph, "Reshape", "body.active row", "body.row", "");
    put_node(&graph, "GRU", "body.row gru.W gru.R gru.B  h_in", "gru.all h_out", "hidden_size=3 linear_before_reset=1");
    put_node(&graph, "Squeeze", "gru.all", "gru.row", "axes=1,");
    put_node(&graph, "LayerNormalization", "gru.row gain", "normed", "");
    put_node(&graph, "MatMul", "normed out", "logits.row", "");
    put_node(&graph, "Squeeze", "logits.row", "logits", "axes=0,");
    put_node(&graph, "Softmax", "logits", "shares", "axis=1");
    put_node(&graph, "Log", "shares", "log_shares", "");
    put_node(&graph, "Multinomial", "log_shares", "choice", "dtype=7");
    put_node(&graph, "ArgMax", "shares", "best", "axis=1");
    put_node(&graph, "RandomNormalLike", "logits", "noise", "");
    put_node(&graph, "Mul", "noise deviation", "noise.scaled", "");
    put_node(&graph, "Add", "logits noise.scaled", "actions", "");
    put_value(&graph, 12, "actions", "0 4");
    put_value(&graph, 12, "choice", "0 1");
    put_value(&graph, 12, "best", "0 1");
    put_value(&graph, 12, "h_out", "1 0 3");
    put_value(&graph, 12, "deviation", "1 4");
    put_value(&graph, 12, "lost", "1 1");
    onnx_file(file, &graph, 12);
}
#endif /* WRITE_ONNX_H */
