/* data.h - reads data for the examples: arrays in memory, CSV files, MNIST's IDX files, parse trees and lines of text.

   In one C99 or C++17 file:  #define DATA_IMPLEMENTATION
                              #include "data.h"

   A set is a table of `count` examples, each with a value for every field. A field is data or a label. Loaders fill a
   set, iterators go through it in batches. All values are in memory, which the set owns unless you keep it.

       data_set digits = { 0 };
       data_error e = { 0 };
       data_iter it;
       data_iter_desc batches = { 32, 1, 7 };                          // 32 examples each, shuffled, seed 7
       if (data_load_idx(&digits, "image", 0, "train-images-idx3-ubyte", &e) ||
           data_load_idx(&digits, "label", 1, "train-labels-idx1-ubyte", &e) ||
           data_iter_new(&it, &digits, &batches, &e)) { puts(e.text); return 1; }
       for (int epoch = 0; epoch < 3; epoch++, data_reset(&it))
           while (data_next(&it))
               for (size_t i = 0; i < it.size; i++)
                   learn(data_floats(&digits, 0, it.index[i]), data_ints(&digits, 1, it.index[i], NULL)[0]);

   Errors are values: functions that can fail take a data_error, which must be zero at first, and return 0 on success.
   After the first error, every call with the same data_error fails at once. A set keeps what it contained before. Files
   are not trusted: sizes are checked before memory is allocated, and nothing recurses. There are no globals. */

#ifndef DATA_H
#define DATA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DATA_MAX_RANK = 4, DATA_MAX_FIELDS = 8 }; /* the rank includes the axis of the batch */

typedef struct data_error { char text[400]; long line; } data_error; /* "FILE:LINE: what is wrong"; line 0: unknown */

/* ---- random numbers: splitmix64 (Steele et al. 2014) ---- */

uint64_t data_random(uint64_t *state);
size_t data_random_below(uint64_t *state, size_t n);  /* 0 to n - 1; n must be at least 1 */
float data_random_unit(uint64_t *state);              /* [0, 1) */

/* ---- sets ---- */

typedef enum data_type { DATA_FLOAT, DATA_INT } data_type;

/* A field of a set. The shape of an example is dim[0..rank), with rank 1 to 3. Rank 1 and dim[0] 0: lengths vary. */
typedef struct data_field {
    const char *name;     /* not copied */
    int label;            /* 1: a label; 0: data */
    data_type type;
    int rank, dim[DATA_MAX_RANK];
    const void *values;   /* float or int32_t [count x shape], example by example */
    const size_t *start;  /* if lengths vary: example i is values[start[i] .. start[i + 1]) */
    int owned;            /* 1: the set frees values and start */
} data_field;

typedef struct data_set { data_field field[DATA_MAX_FIELDS]; int n_fields; size_t count; } data_set;

/* Adds a field with `count` examples. Its arrays are not copied. They stay yours unless `owned` is set: then the set
   frees them with free(), even if this call fails. All fields must have the same count, at least 1. */
int data_add(data_set *s, const data_field *field, size_t count, data_error *e);
void data_set_free(data_set *s);
int data_find(const data_set *s, const char *name);  /* returns the index of the field, or -1 */

/* Return the values of one example, or NULL if there is no such field or example, or the field has the other type. */
const float *data_floats(const data_set *s, int field, size_t example);
const int32_t *data_ints(const data_set *s, int field, size_t example, size_t *length);  /* length may be NULL */

/* ---- iterators ---- */

typedef struct data_iter_desc { size_t batch; int shuffle; uint64_t seed; } data_iter_desc;

typedef struct data_iter {
    const data_set *set;  /* must not change */
    size_t batch;         /* examples per batch */
    const size_t *index;  /* indices of the `batch` examples of this batch */
    size_t size, pad;     /* the first `size` examples are new in this pass. Only the last batch of a pass may have
                             `pad` more, which repeat the pass's first examples. size + pad = batch */
    size_t passes;        /* number of calls of data_reset so far */
    size_t at, *order;    /* private */
    int shuffle;
    uint64_t random;
} data_iter;

int data_iter_new(data_iter *it, const data_set *s, const data_iter_desc *desc, data_error *e);
int data_next(data_iter *it);    /* 1: index, size and pad describe the next batch; 0: the pass is over */
void data_reset(data_iter *it);  /* begins a pass, shuffled again. The n-th pass depends only on the seed */
void data_iter_free(data_iter *it);
/* Returns a field with its shape in a batch: the batch axis, then the shape of one example. Rank 0: no such field. */
data_field data_provide(const data_iter *it, int field);

/* ---- words ---- */

typedef struct data_word { size_t text, length; int count; } data_word; /* vocabulary.text[text .. text + length) */
typedef struct data_vocab {
    data_word *words; size_t n_words, cap_words;  /* all zero: empty */
    char *text; size_t n_text, cap_text;
    size_t *slots, n_slots;                       /* private: a hash table holds index + 1 */
} data_vocab;

int data_vocab_add(data_vocab *v, const char *text, size_t length);         /* counts a word; returns its index, or -1 */
int data_vocab_find(const data_vocab *v, const char *text, size_t length);  /* -1: not there */
void data_vocab_free(data_vocab *v);

/* How text is divided into words. */
typedef struct data_words {
    int add;         /* 1: new words are added to the vocabulary; 0: they are read as `unknown` */
    int unknown;     /* index for unknown words; -1: an unknown word is an error */
    int lower;       /* 1: ASCII capitals become lower case */
    int characters;  /* lines only. 1: each UTF-8 character is a word; 0: words are separated by spaces and tabs */
} data_words;

/* ---- files ---- */

/* Writes "dir/name" to `path`, which has `size` bytes. Returns 1 if this file exists and can be read. */
int data_path(char *path, size_t size, const char *dir, const char *name);

/* Reads a field in MNIST's format: bytes, examples along the first axis. Labels stay integers; data becomes 0 to 1. */
int data_load_idx(data_set *s, const char *name, int label, const char *path, data_error *e);

/* The numeric columns of a CSV file. Set the name, label, type and shape of each field. Fields read columns from left
   to right, one per value; a field without a name skips its columns. Cells may be quoted. Empty lines are skipped. */
typedef struct data_csv { char separator; int header; const data_field *fields; int n_fields; } data_csv;
int data_load_csv(data_set *s, const data_csv *desc, const char *path, data_error *e);

/* Reads a field of word indices, with varying lengths. Each line that is not empty is an example. */
int data_load_lines(data_set *s, const char *name, const data_words *words, data_vocab *v, const char *path,
                    data_error *e);

/* The nodes of all trees, children before parents. The nodes of a tree are contiguous, and the root is the last one. To
   visit a tree, recurse, or loop from its first node to its root. */
typedef struct data_node { int child, sibling, word, label; } data_node; /* child, sibling: -1 if none */
typedef struct data_trees {
    data_node *nodes; size_t n_nodes, cap_nodes;  /* all zero: empty */
    size_t longest;                               /* number of nodes of the largest tree in any set */
} data_trees;
/* Appends a node whose children have already been added. Returns its index, or -1 if there is no memory. */
int data_tree_node(data_trees *t, const int *children, int n, int word, int label);
/* Adds two fields to the set: "tree" [2], with the first node and the root of each tree, and "label", with the label of
   the root. `tree` [count x 2] must come from malloc. The set owns it from now on, even if this call fails. */
int data_add_trees(data_set *s, data_trees *t, int32_t *tree, size_t count, data_error *e);
void data_trees_free(data_trees *t);

/* Reads trees in the format of the Penn Treebank, one per line, with numbers as labels, such as (3 (2 a) (4 (4 great)
   (2 film))). Adds the fields that data_add_trees adds. */
typedef struct data_ptb {
    data_words words;
    int classes;   /* labels are 0 to classes - 1 */
    int arity;     /* number of children of every inner node; 0: any number */
    size_t limit;  /* maximum number of trees to read; 0: all */
} data_ptb;
int data_load_trees(data_set *s, data_trees *t, const data_ptb *desc, data_vocab *v, const char *path, data_error *e);

#ifdef __cplusplus
}
#endif

#endif /* DATA_H */

#ifdef DATA_IMPLEMENTATION

#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stores the error if it is the first. Always returns 1. Line 0 means no line, and path NULL no file. */
#if defined(__GNUC__) || defined(__clang__)
__attribute__((format(printf, 4, 5)))
#endif
static int data__fail(data_error *e, const char *path, long line, const char *text, ...)
{
    int at = 0;
    va_list args;
    if (e->text[0]) return 1;
    e->line = line;
    if (path && line) at = snprintf(e->text, sizeof e->text, "%.240s:%ld: ", path, line);
    else if (path) at = snprintf(e->text, sizeof e->text, "%.240s: ", path);
    va_start(args, text);
    vsnprintf(e->text + at, sizeof e->text - (size_t)at, text, args);
    va_end(args);
    return 1;
}

/* Makes room for n items of `size` bytes in an array that doubles. Without memory, returns NULL and keeps the array. */
static void *data__grow(void *items, size_t *cap, size_t n, size_t size)
{
    size_t more = *cap ? *cap : 64;
    if (n <= *cap) return items;
    while (more < n && more <= SIZE_MAX / 2) more *= 2;
    if (more < n || more > SIZE_MAX / 2 / size) return NULL;
    items = realloc(items, more * size);
    if (items) *cap = more;
    return items;
}

/* ---- random numbers ---- */

uint64_t data_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
size_t data_random_below(uint64_t *state, size_t n) { return (size_t)(data_random(state) % n); }
float data_random_unit(uint64_t *state) { return (float)(data_random(state) >> 40) * 0x1p-24f; }

/* ---- sets ---- */

/* Returns the number of values of one example: 0 if lengths vary, SIZE_MAX if the shape is invalid. */
static size_t data__size(const data_field *f)
{
    size_t size = 1;
    if (f->rank < 1 || f->rank >= DATA_MAX_RANK) return SIZE_MAX;
    if (f->rank == 1 && f->dim[0] == 0) return 0;
    for (int i = 0; i < f->rank; i++) {
        if (f->dim[i] < 1 || size > (size_t)(1 << 30) / (size_t)f->dim[i]) return SIZE_MAX;
        size *= (size_t)f->dim[i];
    }
    return size;
}

static void data__field_free(data_field *f)
{
    if (!f->owned) return;
    free((void *)(uintptr_t)f->values);
    free((void *)(uintptr_t)f->start);
}

int data_find(const data_set *s, const char *name)
{
    for (int i = 0; i < s->n_fields; i++)
        if (!strcmp(s->field[i].name, name)) return i;
    return -1;
}

int data_add(data_set *s, const data_field *field, size_t count, data_error *e)
{
    data_field f = *field;
    const size_t size = f.name ? data__size(&f) : 0;
    if (e->text[0]) { data__field_free(&f); return 1; }
    if (!f.name) data__fail(e, NULL, 0, "a field needs a name");
    else if (size == SIZE_MAX) data__fail(e, NULL, 0, "field %.60s: not a shape", f.name);
    else if (size ? f.start != NULL : !f.start)
        data__fail(e, NULL, 0, "field %.60s: start is for varying lengths", f.name);
    else if (!f.values || !count) data__fail(e, NULL, 0, "field %.60s: no values", f.name);
    else if (data_find(s, f.name) >= 0) data__fail(e, NULL, 0, "field %.60s: there is one of that name", f.name);
    else if (s->n_fields == DATA_MAX_FIELDS) data__fail(e, NULL, 0, "field %.60s: too many fields", f.name);
    else if (s->n_fields && s->count != count)
        data__fail(e, NULL, 0, "field %.60s: %zu examples, the other fields have %zu", f.name, count, s->count);
    if (e->text[0]) { data__field_free(&f); return 1; }
    s->field[s->n_fields++] = f;
    s->count = count;
    return 0;
}

void data_set_free(data_set *s)
{
    for (int i = 0; i < s->n_fields; i++) data__field_free(&s->field[i]);
    memset(s, 0, sizeof *s);
}

/* Returns the first value of an example, or NULL if there is no such example or it has a different type. */
static const void *data__values(const data_set *s, int field, size_t example, data_type type, size_t *length)
{
    if (field < 0 || field >= s->n_fields || example >= s->count || s->field[field].type != type) return NULL;
    const data_field *f = &s->field[field];
    const size_t size = data__size(f), at = f->start ? f->start[example] : size * example;
    if (length) *length = f->start ? f->start[example + 1] - at : size;
    return type == DATA_FLOAT ? (const void *)((const float *)f->values + at) : (const int32_t *)f->values + at;
}

const float *data_floats(const data_set *s, int field, size_t example)
{
    return (const float *)data__values(s, field, example, DATA_FLOAT, NULL);
}

const int32_t *data_ints(const data_set *s, int field, size_t example, size_t *length)
{
    return (const int32_t *)data__values(s, field, example, DATA_INT, length);
}

/* ---- iterators ---- */

int data_iter_new(data_iter *it, const data_set *s, const data_iter_desc *desc, data_error *e)
{
    memset(it, 0, sizeof *it);
    if (e->text[0]) return 1;
    if (!s->n_fields) return data__fail(e, NULL, 0, "nothing to iterate over: the set is empty");
    if (!desc->batch || desc->batch > INT_MAX) return data__fail(e, NULL, 0, "a batch has 1 to %d examples", INT_MAX);
    if (s->count > SIZE_MAX / 2 / sizeof(size_t) - desc->batch) return data__fail(e, NULL, 0, "out of memory");
    it->order = (size_t *)malloc((s->count + desc->batch) * sizeof *it->order);
    if (!it->order) return data__fail(e, NULL, 0, "out of memory");
    for (size_t i = 0; i < s->count; i++) it->order[i] = i;
    it->set = s;
    it->batch = desc->batch;
    it->shuffle = desc->shuffle;
    it->random = desc->seed;
    data_reset(it);
    it->passes = 0;
    return 0;
}

void data_reset(data_iter *it)
{
    if (!it->order) return;
    const size_t n = it->set->count;
    for (size_t i = n; it->shuffle && i > 1; i--) { /* Fisher and Yates */
        const size_t j = data_random_below(&it->random, i), k = it->order[i - 1];
        it->order[i - 1] = it->order[j];
        it->order[j] = k;
    }
    for (size_t i = 0; i < it->batch; i++) it->order[n + i] = it->order[i % n];
    it->at = it->size = it->pad = 0;
    it->index = NULL;
    it->passes++;
}

int data_next(data_iter *it)
{
    const size_t n = it->set ? it->set->count : 0, left = n - it->at;
    it->size = left < it->batch ? left : it->batch;
    it->pad = it->size ? it->batch - it->size : 0;
    it->index = it->size ? it->order + it->at : NULL;
    it->at += it->size;
    return it->size > 0;
}

void data_iter_free(data_iter *it)
{
    free(it->order);
    memset(it, 0, sizeof *it);
}

data_field data_provide(const data_iter *it, int field)
{
    data_field f;
    memset(&f, 0, sizeof f);
    if (!it->set || field < 0 || field >= it->set->n_fields) return f;
    f = it->set->field[field];
    f.owned = 0;
    f.values = NULL; /* the examples of a batch are not copied */
    f.start = NULL;
    for (int i = f.rank; i > 0; i--) f.dim[i] = f.dim[i - 1];
    f.dim[0] = (int)it->batch;
    f.rank++;
    return f;
}

/* ---- words ---- */

static size_t *data__slot(const data_vocab *v, const char *text, size_t length)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    for (size_t at = (size_t)hash & (v->n_slots - 1);; at = (at + 1) & (v->n_slots - 1)) {
        if (!v->slots[at]) return &v->slots[at];
        const data_word *w = &v->words[v->slots[at] - 1];
        if (w->length == length && (!length || !memcmp(v->text + w->text, text, length))) return &v->slots[at];
    }
}

static int data__rehash(data_vocab *v)
{
    const size_t n = v->n_slots ? v->n_slots * 2 : 1024;
    size_t *slots = (size_t *)calloc(n, sizeof *slots);
    if (!slots) return 1;
    free(v->slots);
    v->slots = slots;
    v->n_slots = n;
    for (size_t i = 0; i < v->n_words; i++) *data__slot(v, v->text + v->words[i].text, v->words[i].length) = i + 1;
    return 0;
}

int data_vocab_find(const data_vocab *v, const char *text, size_t length)
{
    return v->n_slots ? (int)*data__slot(v, text, length) - 1 : -1;
}

int data_vocab_add(data_vocab *v, const char *text, size_t length)
{
    const int known = data_vocab_find(v, text, length);
    if (known >= 0) { v->words[known].count++; return known; }
    if (v->n_words >= INT_MAX || length > SIZE_MAX / 4 - v->n_text) return -1;
    if (v->n_words * 2 >= v->n_slots && data__rehash(v)) return -1;
    data_word *words = (data_word *)data__grow(v->words, &v->cap_words, v->n_words + 1, sizeof *words);
    if (!words) return -1;
    v->words = words;
    char *all = (char *)data__grow(v->text, &v->cap_text, v->n_text + length + 1, 1);
    if (!all) return -1;
    v->text = all;
    if (length) memcpy(all + v->n_text, text, length);
    words[v->n_words].text = v->n_text;
    words[v->n_words].length = length;
    words[v->n_words].count = 1;
    *data__slot(v, text, length) = v->n_words + 1;
    v->n_text += length;
    return (int)v->n_words++;
}

void data_vocab_free(data_vocab *v)
{
    free(v->words);
    free(v->text);
    free(v->slots);
    memset(v, 0, sizeof *v);
}

/* ---- files ---- */

/* A file in memory, followed by a 0, and the position up to which it has been read. */
typedef struct data__file { const char *path; char *text, *at, *end; long line; } data__file;

int data_path(char *path, size_t size, const char *dir, const char *name)
{
    const int length = snprintf(path, size, "%s/%s", dir, name);
    FILE *file = length > 0 && (size_t)length < size ? fopen(path, "rb") : NULL;
    if (file) fclose(file);
    return file != NULL;
}

static int data__open(data__file *t, const char *path, data_error *e)
{
    size_t cap = 0, size = 0, got = 1;
    memset(t, 0, sizeof *t);
    t->path = path;
    if (e->text[0]) return 1;
    FILE *file = fopen(path, "rb");
    if (!file) return data__fail(e, path, 0, "cannot open it");
    while (got) {
        char *text = (char *)data__grow(t->text, &cap, size + 65537, 1);
        if (!text) { data__fail(e, path, 0, "out of memory"); break; }
        t->text = text;
        got = fread(text + size, 1, 65536, file);
        size += got;
    }
    if (ferror(file)) data__fail(e, path, 0, "cannot read it");
    fclose(file);
    if (!e->text[0] && !size) data__fail(e, path, 0, "it is empty");
    if (e->text[0]) { free(t->text); t->text = NULL; return 1; }
    t->text[size] = 0;
    t->at = t->text;
    t->end = t->text + size;
    return 0;
}

/* Finds the next line, *from to *to, and ends it with a 0 in place. Returns 0 after the last, or at a zero byte. */
static int data__line(data__file *t, char **from, char **to, data_error *e)
{
    if (!t->line && t->end - t->at >= 3 && !memcmp(t->at, "\xef\xbb\xbf", 3)) t->at += 3; /* byte order mark */
    if (t->at == t->end) return 0;
    char *newline = (char *)memchr(t->at, '\n', (size_t)(t->end - t->at)), *end = newline ? newline : t->end;
    *from = t->at;
    t->at = newline ? newline + 1 : t->end;
    t->line++;
    if (end > *from && end[-1] == '\r') end--;
    if (memchr(*from, 0, (size_t)(end - *from))) return !data__fail(e, t->path, t->line, "a zero byte: not text");
    *end = 0;
    *to = end;
    return 1;
}

static size_t data__big_endian(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
}

/* Reads the shape and the count from the header. Exactly as many bytes as it specifies must follow. */
static int data__idx_header(const data__file *t, data_field *f, size_t *count, data_error *e)
{
    const size_t bytes = (size_t)(t->end - t->text);
    const unsigned char *b = (const unsigned char *)t->text;
    const int axes = bytes < 4 ? 0 : b[3];
    size_t size = 1;
    if (bytes > 1 && b[0] == 0x1f && b[1] == 0x8b) return data__fail(e, t->path, 0, "compressed: gunzip it first");
    if (bytes < 4 || b[0] || b[1]) return data__fail(e, t->path, 0, "not an IDX file");
    if (b[2] != 8) return data__fail(e, t->path, 0, "IDX type 0x%02x: only bytes, 0x08, are read", b[2]);
    if (axes < 1 || axes > DATA_MAX_RANK)
        return data__fail(e, t->path, 0, "%d axes: 1 to %d are read", axes, DATA_MAX_RANK);
    if (bytes < 4 + 4 * (size_t)axes) return data__fail(e, t->path, 0, "it ends within its header");
    for (int i = 0; i < axes; i++) {
        const size_t n = data__big_endian(t->text + 4 + 4 * i);
        if (!n || n > bytes / size)
            return data__fail(e, t->path, 0, "%zu along axis %d, in a file of %zu bytes", n, i, bytes);
        size *= n;
        if (i) f->dim[i - 1] = (int)n;
        else *count = n;
    }
    f->rank = axes > 1 ? axes - 1 : 1;
    if (axes == 1) f->dim[0] = 1;
    size += 4 + 4 * (size_t)axes;
    return size == bytes ? 0 : data__fail(e, t->path, 0, "%zu bytes, but its header says %zu", bytes, size);
}

int data_load_idx(data_set *s, const char *name, int label, const char *path, data_error *e)
{
    data__file t;
    data_field f;
    size_t count = 0;
    memset(&f, 0, sizeof f);
    if (data__open(&t, path, e)) return 1;
    f.name = name;
    f.label = label;
    f.type = label ? DATA_INT : DATA_FLOAT;
    f.owned = 1;
    if (!data__idx_header(&t, &f, &count, e)) {
        const size_t n = count * data__size(&f);
        const unsigned char *from = (const unsigned char *)t.end - n;
        void *values = malloc(n * 4);
        if (!values) data__fail(e, path, 0, "out of memory");
        for (size_t i = 0; values && i < n; i++) {
            if (label) ((int32_t *)values)[i] = from[i];
            else ((float *)values)[i] = (float)from[i] / 255.0f;
        }
        f.values = values;
        if (values) data_add(s, &f, count, e);
    }
    free(t.text);
    return e->text[0] != 0;
}

/* ---- CSV ---- */

/* Returns the next cell, ended with a 0 in place, or NULL if it is badly quoted. Moves *at to the cell after it, or
   sets it to NULL after the last cell of the line. */
static char *data__cell(char **at, char separator)
{
    char *cell = *at, *from = cell, *to = cell;
    if (*cell == '"') {
        for (from++; *from && (*from != '"' || from[1] == '"'); *to++ = *from++)
            if (*from == '"') from++;
        if (*from++ != '"' || (*from && *from != separator)) return NULL;
    } else {
        while (*from && *from != separator) from++;
        to = from;
    }
    *at = *from ? from + 1 : NULL;
    *to = 0;
    return cell;
}

/* strtof with a decimal point in every locale; in a German one, strtof itself expects a comma. */
static float data__real(const char *cell, char **end)
{
    const char *point = localeconv()->decimal_point, *at = strchr(cell, '.');
    const size_t width = strlen(point), before = at ? (size_t)(at - cell) : 0;
    char text[512], *stop;
    size_t length = strcspn(cell, point);
    if (strcmp(point, ".") == 0) return strtof(cell, end);
    if (length + width >= sizeof text) length = 0;
    memcpy(text, cell, length);
    text[length] = 0;
    if (at && before < length) {
        memmove(text + before + width, text + before + 1, length - before);
        memcpy(text + before, point, width);
    }
    const float x = strtof(text, &stop);
    size_t used = (size_t)(stop - text);
    if (at && before < length && used > before) used -= width - 1;
    memcpy(end, &cell, sizeof cell);
    *end += used;
    return x;
}

/* Writes the number in a cell to values[i]. Returns what is wrong with the cell, or NULL. */
static const char *data__number(const char *cell, data_type type, void *values, size_t i)
{
    char *end;
    if (type == DATA_INT) {
        const long long x = strtoll(cell, &end, 10);
        ((int32_t *)values)[i] = (int32_t)x;
        if (x < INT32_MIN || x > INT32_MAX) return "is out of range";
    } else {
        const float x = data__real(cell, &end);
        ((float *)values)[i] = x;
        if (end != cell && !isfinite(x)) return "is not finite";
    }
    if (end == cell) return "is not a number";
    end += strspn(end, " \t");
    return *end ? type == DATA_INT ? "is not a whole number" : "is not a number" : NULL;
}

typedef struct data__csv {
    const data_csv *desc;
    void *values[DATA_MAX_FIELDS];
    size_t cap[DATA_MAX_FIELDS], count;
} data__csv;

/* Reads one line. The fields' arrays grow line by line, since no size is trusted before the data is there. */
static int data__csv_line(data__csv *c, const data__file *t, char *at, data_error *e)
{
    size_t column = 0;
    for (int k = 0; k < c->desc->n_fields; k++) {
        const data_field *f = &c->desc->fields[k];
        const size_t size = data__size(f), first = c->count * size;
        void *values = f->name ? data__grow(c->values[k], &c->cap[k], first + size, 4) : c->values[k];
        if (f->name && !values) return data__fail(e, t->path, t->line, "out of memory");
        c->values[k] = values;
        for (size_t i = 0; i < size; i++) {
            column++;
            if (!at) return data__fail(e, t->path, t->line, "only %zu columns", column - 1);
            const char *cell = data__cell(&at, c->desc->separator);
            if (!cell) return data__fail(e, t->path, t->line, "column %zu: badly quoted", column);
            const char *wrong = f->name ? data__number(cell, f->type, values, first + i) : NULL;
            if (wrong) return data__fail(e, t->path, t->line, "column %zu: \"%.40s\" %s", column, cell, wrong);
        }
    }
    if (at) return data__fail(e, t->path, t->line, "more than %zu columns", column);
    c->count++;
    return 0;
}

int data_load_csv(data_set *s, const data_csv *desc, const char *path, data_error *e)
{
    data__file t;
    data__csv c;
    char *from, *to;
    int left_out = desc->header ? 1 : 0;
    memset(&c, 0, sizeof c);
    c.desc = desc;
    if (desc->n_fields < 1 || desc->n_fields > DATA_MAX_FIELDS)
        return data__fail(e, path, 0, "1 to %d fields, not %d", DATA_MAX_FIELDS, desc->n_fields);
    for (int k = 0; k < desc->n_fields; k++)
        if (data__size(&desc->fields[k]) - 1 >= SIZE_MAX - 1) return data__fail(e, path, 0, "field %d: not a shape", k);
    if (data__open(&t, path, e)) return 1;
    while (!e->text[0] && data__line(&t, &from, &to, e)) {
        if (to == from) continue;
        if (left_out) left_out = 0;
        else data__csv_line(&c, &t, from, e);
    }
    if (!e->text[0] && !c.count) data__fail(e, path, 0, "no examples in it");
    const int before = s->n_fields;
    for (int k = 0; k < desc->n_fields; k++) {
        data_field f = desc->fields[k];
        f.values = c.values[k];
        f.start = NULL;
        f.owned = 1;
        if (f.name) data_add(s, &f, c.count, e); /* after an error, it frees the arrays */
    }
    while (e->text[0] && s->n_fields > before) data__field_free(&s->field[--s->n_fields]);
    free(t.text);
    return e->text[0] != 0;
}

/* ---- lines and trees ---- */

/* Returns the index of a word, or -1 with an error. */
static int data__word(const data__file *t, data_vocab *v, const data_words *w, char *text, size_t length, data_error *e)
{
    int index;
    for (size_t i = 0; w->lower && i < length; i++)
        if (text[i] >= 'A' && text[i] <= 'Z') text[i] = (char)(text[i] - 'A' + 'a');
    index = w->add ? data_vocab_add(v, text, length) : data_vocab_find(v, text, length);
    if (index < 0 && w->add) data__fail(e, t->path, t->line, "out of memory");
    else if (index < 0 && w->unknown < 0)
        data__fail(e, t->path, t->line, "\"%.*s\" is not in the vocabulary", length < 40 ? (int)length : 40, text);
    return index < 0 ? w->unknown : index;
}

/* Returns the length of the UTF-8 character at `text`. A byte that does not begin one counts as a character. */
static size_t data__character(const char *text)
{
    const unsigned char first = (unsigned char)*text;
    const size_t length = first >= 0xf0 && first < 0xf8 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    for (size_t i = 1; i < length; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80 || first >= 0xf8) return 1;
    return length;
}

typedef struct data__ragged { int32_t *values; size_t *start, n, cap_values, count, cap_start; } data__ragged;

/* Adds the words of a line, and the index at which the words of the next line begin. */
static int data__add_line(data__ragged *r, const data__file *t, const data_words *w, data_vocab *v, char *at,
                          data_error *e)
{
    size_t *start = (size_t *)data__grow(r->start, &r->cap_start, r->count + 2, sizeof *start);
    if (!start) return data__fail(e, t->path, t->line, "out of memory");
    r->start = start;
    start[r->count] = r->n;
    for (at += w->characters ? 0 : strspn(at, " \t"); *at;) {
        const size_t length = w->characters ? data__character(at) : strcspn(at, " \t");
        int32_t *values = (int32_t *)data__grow(r->values, &r->cap_values, r->n + 1, sizeof *values);
        if (!values) return data__fail(e, t->path, t->line, "out of memory");
        r->values = values;
        values[r->n++] = data__word(t, v, w, at, length, e);
        if (e->text[0]) return 1;
        at += length;
        if (!w->characters) at += strspn(at, " \t");
    }
    if (r->n > start[r->count]) start[++r->count] = r->n;
    return 0;
}

int data_load_lines(data_set *s, const char *name, const data_words *words, data_vocab *v, const char *path,
                    data_error *e)
{
    data__file t;
    data__ragged r;
    data_field f;
    char *from, *to;
    memset(&r, 0, sizeof r);
    memset(&f, 0, sizeof f);
    if (data__open(&t, path, e)) return 1;
    while (!e->text[0] && data__line(&t, &from, &to, e)) data__add_line(&r, &t, words, v, from, e);
    if (!e->text[0] && !r.count) data__fail(e, path, 0, "no examples in it");
    f.name = name;
    f.type = DATA_INT;
    f.rank = 1;
    f.values = r.values;
    f.start = r.start;
    f.owned = 1;
    data_add(s, &f, r.count, e);
    free(t.text);
    return e->text[0] != 0;
}

int data_tree_node(data_trees *t, const int *children, int n, int word, int label)
{
    if (t->n_nodes >= INT_MAX) return -1;
    data_node *nodes = (data_node *)data__grow(t->nodes, &t->cap_nodes, t->n_nodes + 1, sizeof *nodes);
    if (!nodes) return -1;
    t->nodes = nodes;
    data_node *node = &nodes[t->n_nodes];
    node->word = word;
    node->label = label;
    node->sibling = -1;
    node->child = n > 0 ? children[0] : -1;
    for (int i = 1; i < n; i++) nodes[children[i - 1]].sibling = children[i];
    return (int)t->n_nodes++;
}

int data_add_trees(data_set *s, data_trees *t, int32_t *tree, size_t count, data_error *e)
{
    data_field f;
    int32_t *labels = (int32_t *)malloc((count + 1) * sizeof *labels);
    size_t longest = t->longest;
    if (!labels) data__fail(e, NULL, 0, "out of memory");
    for (size_t i = 0; tree && !e->text[0] && i < count; i++) {
        const int32_t first = tree[2 * i], root = tree[2 * i + 1];
        if (first < 0 || root < first || (size_t)root >= t->n_nodes)
            data__fail(e, NULL, 0, "tree %zu: no such nodes", i);
        else labels[i] = t->nodes[root].label;
        if (!e->text[0] && (size_t)(root - first) >= longest) longest = (size_t)(root - first) + 1;
    }
    memset(&f, 0, sizeof f);
    f.type = DATA_INT;
    f.rank = 1;
    f.owned = 1;
    f.name = "tree";
    f.dim[0] = 2;
    f.values = tree;
    const int added = !data_add(s, &f, count, e);
    f.name = "label";
    f.label = 1;
    f.dim[0] = 1;
    f.values = labels;
    if (data_add(s, &f, count, e) && added) data__field_free(&s->field[--s->n_fields]);
    if (!e->text[0]) t->longest = longest;
    return e->text[0] != 0;
}

void data_trees_free(data_trees *t)
{
    free(t->nodes);
    memset(t, 0, sizeof *t);
}

/* A node whose ')' has not been read yet. Its children so far are the last ones in the list of children. */
typedef struct data__begun { int label, word; size_t children; } data__begun;
typedef struct data__parser {
    const data__file *file;
    const data_ptb *desc;
    data_vocab *words;
    data_trees *into;
    data__begun *begun; size_t depth, cap_begun;
    int *children; size_t n_children, cap_children;
} data__parser;

/* Begins the node that starts at "(label". */
static int data__begin(data__parser *p, char **at, data_error *e)
{
    const long line = p->file->line;
    int label = 0;
    char *c = *at + 1;
    if (p->depth && p->begun[p->depth - 1].word >= 0)
        return data__fail(e, p->file->path, line, "a word beside a subtree");
    data__begun *begun = (data__begun *)data__grow(p->begun, &p->cap_begun, p->depth + 1, sizeof *begun);
    if (!begun) return data__fail(e, p->file->path, line, "out of memory");
    p->begun = begun;
    for (; *c >= '0' && *c <= '9' && label < p->desc->classes; c++) label = label * 10 + (*c - '0');
    if (c == *at + 1 || (*c >= '0' && *c <= '9') || label >= p->desc->classes)
        return data__fail(e, p->file->path, line, "a label must be 0 to %d", p->desc->classes - 1);
    if (*c != ' ' && *c != '(') return data__fail(e, p->file->path, line, "a space must follow the label");
    begun[p->depth].label = label;
    begun[p->depth].word = -1;
    begun[p->depth++].children = p->n_children;
    *at = c;
    return 0;
}

/* Completes a node at its ")". It becomes a child of the node that was begun before it. */
static int data__end(data__parser *p, data_error *e)
{
    const data__begun *b = &p->begun[p->depth - 1];
    const int n = (int)(p->n_children - b->children), arity = p->desc->arity;
    const long line = p->file->line;
    if (!n && b->word < 0) return data__fail(e, p->file->path, line, "a word or a subtree is missing");
    if (n && arity && n != arity) return data__fail(e, p->file->path, line, "a node has %d children, not %d", n, arity);
    int *children = (int *)data__grow(p->children, &p->cap_children, p->n_children + 1, sizeof *children);
    const int node = children ? data_tree_node(p->into, children + b->children, n, b->word, b->label) : -1;
    if (children) p->children = children;
    if (node < 0) return data__fail(e, p->file->path, line, "out of memory");
    p->n_children = b->children;
    children[p->n_children++] = node;
    p->depth--;
    return 0;
}

/* Only a space or a bracket ends a word, so it may contain no-break spaces and any other UTF-8. */
static int data__leaf(data__parser *p, char **at, data_error *e)
{
    const size_t length = strcspn(*at, " ()");
    data__begun *b = &p->begun[p->depth - 1];
    if (b->word >= 0) return data__fail(e, p->file->path, p->file->line, "two words in a node");
    if (p->n_children > b->children) return data__fail(e, p->file->path, p->file->line, "a word beside a subtree");
    b->word = data__word(p->file, p->words, &p->desc->words, *at, length, e);
    *at += length;
    return e->text[0] != 0;
}

/* Reads the tree in a line. Its root is then the only child in the list. */
static int data__tree(data__parser *p, char *at, data_error *e)
{
    const long line = p->file->line;
    p->depth = p->n_children = 0;
    if (*at != '(') return data__fail(e, p->file->path, line, "a tree must begin with '('");
    do {
        if (*at == '(') data__begin(p, &at, e);
        else if (*at == ')') { data__end(p, e); at++; }
        else if (*at == ' ') at++;
        else if (!*at) data__fail(e, p->file->path, line, "')' is missing");
        else data__leaf(p, &at, e);
    } while (p->depth && !e->text[0]);
    if (!e->text[0] && at[strspn(at, " ")]) data__fail(e, p->file->path, line, "there is more after the tree");
    return e->text[0] != 0;
}

int data_load_trees(data_set *s, data_trees *t, const data_ptb *desc, data_vocab *v, const char *path, data_error *e)
{
    data__file file;
    data__parser p;
    int32_t *tree = NULL;
    size_t cap = 0, count = 0;
    const size_t nodes = t->n_nodes;
    char *from, *to;
    if (desc->classes < 1 || desc->classes > 1000000) return data__fail(e, path, 0, "1 to 1000000 classes");
    if (data__open(&file, path, e)) return 1;
    memset(&p, 0, sizeof p);
    p.file = &file;
    p.desc = desc;
    p.words = v;
    p.into = t;
    while (!e->text[0] && (!desc->limit || count < desc->limit) && data__line(&file, &from, &to, e)) {
        const size_t first = t->n_nodes;
        int32_t *more = (int32_t *)data__grow(tree, &cap, 2 * count + 2, sizeof *tree);
        if (!more) { data__fail(e, path, 0, "out of memory"); break; }
        tree = more;
        if (data__tree(&p, from, e)) break;
        tree[2 * count] = (int32_t)first;
        tree[2 * count++ + 1] = (int32_t)t->n_nodes - 1;
    }
    if (!e->text[0] && !count) data__fail(e, path, 0, "no trees in it");
    if (data_add_trees(s, t, tree, count, e)) t->n_nodes = nodes;
    free(p.begun);
    free(p.children);
    free(file.text);
    return e->text[0] != 0;
}

#endif /* DATA_IMPLEMENTATION */
