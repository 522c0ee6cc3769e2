/* test_data.c - examples/data.h: what it reads, and what it says of files that are wrong.
       cc -O2 -o test_data tests/test_data.c -lm */
#define DATA_IMPLEMENTATION
#include "../examples/data.h"
#include "check.h"
#include <locale.h>

static const char *path = "build/test_data.tmp"; /* where there is a build folder, else beside us */

static void write_file(const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    if (!file) file = fopen(path = "test_data.tmp", "wb");
    if (!CHECK(file != NULL)) return;
    CHECK_INT(fwrite(bytes, 1, n, file), n);
    fclose(file);
}
static void write_text(const char *text) { write_file(text, strlen(text)); }

static data_error no_error(void)
{
    data_error e;
    memset(&e, 0, sizeof e);
    return e;
}
static data_set no_fields(void)
{
    data_set s;
    memset(&s, 0, sizeof s);
    return s;
}
static data_field a_field(const char *name, data_type type, int rank, int d0, int d1, const void *values)
{
    data_field f;
    memset(&f, 0, sizeof f);
    f.name = name;
    f.type = type;
    f.rank = rank;
    f.dim[0] = d0;
    f.dim[1] = d1;
    f.values = values;
    return f;
}

/* ---- arrays in memory, and iterators ---- */

static const float five[5][2] = { { 0, 1 }, { 10, 11 }, { 20, 21 }, { 30, 31 }, { 40, 41 } };
static const int32_t classes[5] = { 0, 1, 2, 3, 4 }, other[5] = { 5, 6, 7, 8, 9 };

/* Five examples with data [1 x 2] and two labels. */
static data_set five_examples(void)
{
    data_set s = no_fields();
    data_error e = no_error();
    data_field f = a_field("x", DATA_FLOAT, 2, 1, 2, five);
    CHECK(!data_add(&s, &f, 5, &e));
    f = a_field("class", DATA_INT, 1, 1, 0, classes);
    f.label = 1;
    CHECK(!data_add(&s, &f, 5, &e));
    f = a_field("other", DATA_INT, 1, 1, 0, other);
    f.label = 1;
    CHECK(!data_add(&s, &f, 5, &e));
    return s;
}

static void memory(void)
{
    data_set s = five_examples();
    size_t length = 0;
    CHECK_INT(s.count, 5);
    CHECK_INT(data_find(&s, "class"), 1);
    CHECK_INT(data_find(&s, "klass"), -1);
    CHECK_BITS(data_floats(&s, 0, 3), five[3], 2);
    CHECK_INT(data_ints(&s, 2, 4, &length)[0], 9);
    CHECK_INT(length, 1);
    CHECK(!data_floats(&s, 1, 0) && !data_ints(&s, 0, 0, NULL)); /* of the other type */
    CHECK(!data_floats(&s, 0, 5) && !data_floats(&s, 3, 0) && !data_floats(&s, -1, 0));
    data_set_free(&s);
    CHECK_INT(s.n_fields, 0);
}

static void refused(data_field f, size_t count, const char *why)
{
    data_set s = five_examples();
    data_error e = no_error();
    CHECK(data_add(&s, &f, count, &e));
    CHECK_TEXT(e.text, why);
    CHECK_INT(s.n_fields, 3);
    CHECK_INT(s.count, 5);
    data_set_free(&s);
}

static void memory_wrong(void)
{
    refused(a_field("y", DATA_INT, 1, 1, 0, classes), 4, "field y: 4 examples, the other fields have 5");
    refused(a_field("x", DATA_INT, 1, 1, 0, classes), 5, "field x: there is one of that name");
    refused(a_field(NULL, DATA_INT, 1, 1, 0, classes), 5, "needs a name");
    refused(a_field("y", DATA_INT, 0, 1, 0, classes), 5, "not a shape");
    refused(a_field("y", DATA_INT, 4, 1, 1, classes), 5, "not a shape");
    refused(a_field("y", DATA_INT, 2, 1, 0, classes), 5, "not a shape");
    refused(a_field("y", DATA_INT, 2, 1 << 20, 1 << 20, classes), 5, "not a shape");
    refused(a_field("y", DATA_INT, 1, 0, 0, classes), 5, "start is for varying lengths");
    refused(a_field("y", DATA_INT, 1, 1, 0, NULL), 5, "no values");
}

static void too_many_fields(void)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "f" };
    data_set s = five_examples();
    data_error e = no_error();
    for (int i = 0; i < 6; i++) {
        const data_field f = a_field(names[i], DATA_INT, 1, 1, 0, classes);
        CHECK_INT(data_add(&s, &f, 5, &e), i == 5);
    }
    CHECK_TEXT(e.text, "field f: too many fields");
    data_set_free(&s);
}

static void errors_stick(void)
{
    data_set s = no_fields();
    data_error e = no_error();
    const data_field f = a_field("x", DATA_INT, 1, 1, 0, classes);
    data_iter it;
    const data_iter_desc batches = { 2, 0, 0 };
    CHECK(data_iter_new(&it, &s, &batches, &e));
    CHECK_TEXT(e.text, "the set is empty");
    CHECK(data_add(&s, &f, 5, &e));
    CHECK(data_load_idx(&s, "y", 0, "no such file", &e));
    CHECK_TEXT(e.text, "the set is empty"); /* still */
    CHECK_INT(s.n_fields, 0);
    CHECK(!data_next(&it));
    data_reset(&it);
    data_iter_free(&it);
}

static void passes(void)
{
    data_set s = five_examples();
    data_error e = no_error();
    data_iter it;
    const data_iter_desc two = { 2, 0, 0 }, none = { 0, 0, 0 };
    CHECK(!data_iter_new(&it, &s, &two, &e));
    for (size_t pass = 0; pass < 2; pass++, data_reset(&it)) {
        CHECK_INT(it.passes, pass);
        for (size_t b = 0; b < 3; b++) {
            CHECK(data_next(&it));
            CHECK_INT(it.size, b < 2 ? 2 : 1);
            CHECK_INT(it.pad, b < 2 ? 0 : 1);
            CHECK_INT(it.index[0], 2 * b);
            CHECK_INT(it.index[1], b < 2 ? 2 * b + 1 : 0); /* the pad begins anew */
        }
        CHECK(!data_next(&it));
        CHECK(!data_next(&it));
        CHECK_INT(it.size + it.pad, 0);
    }
    data_iter_free(&it);
    CHECK(data_iter_new(&it, &s, &none, &e));
    CHECK_TEXT(e.text, "a batch has 1 to");
    data_set_free(&s);
}

/* A batch larger than the set goes round it more than once. */
static void large_batch(void)
{
    data_set s = five_examples();
    data_error e = no_error();
    data_iter it;
    const data_iter_desc twelve = { 12, 0, 0 };
    CHECK(!data_iter_new(&it, &s, &twelve, &e));
    CHECK(data_next(&it));
    CHECK_INT(it.size, 5);
    CHECK_INT(it.pad, 7);
    for (size_t i = 0; i < 12; i++) CHECK_INT(it.index[i], i % 5);
    CHECK(!data_next(&it));
    data_iter_free(&it);
    data_set_free(&s);
}

/* Every pass has every example once; a seed always gives the same passes, which differ. */
static void shuffled(void)
{
    enum { N = 100 };
    int32_t values[N] = { 0 };
    size_t order[3][N];
    data_set s = no_fields();
    data_error e = no_error();
    data_iter it;
    const data_field f = a_field("x", DATA_INT, 1, 1, 0, values);
    data_iter_desc desc = { 7, 1, 3 };
    CHECK(!data_add(&s, &f, N, &e));
    for (int run = 0; run < 3; run++) {
        desc.seed = run < 2 ? 3 : 4;
        CHECK(!data_iter_new(&it, &s, &desc, &e));
        for (int pass = 0; pass < 2; pass++, data_reset(&it)) {
            int seen[N] = { 0 }, same = pass > 0;
            size_t at = 0;
            for (; data_next(&it); at += it.size) {
                for (size_t i = 0; i < it.size; i++) {
                    seen[it.index[i]]++;
                    same &= order[run][at + i] == it.index[i];
                    order[run][at + i] = it.index[i];
                }
            }
            CHECK_INT(at, N);
            CHECK(!same);
            for (int i = 0; i < N; i++) CHECK_INT(seen[i], 1);
        }
        data_iter_free(&it);
    }
    CHECK(!memcmp(order[0], order[1], sizeof order[0]));
    CHECK(memcmp(order[0], order[2], sizeof order[0]));
    data_set_free(&s);
}

static void provides(void)
{
    data_set s = five_examples();
    data_error e = no_error();
    data_iter it;
    const data_iter_desc two = { 2, 0, 0 };
    CHECK(!data_iter_new(&it, &s, &two, &e));
    const data_field x = data_provide(&it, 0), label = data_provide(&it, 2);
    CHECK_TEXT(x.name, "x");
    CHECK(x.rank == 3 && x.dim[0] == 2 && x.dim[1] == 1 && x.dim[2] == 2 && !x.label && x.type == DATA_FLOAT);
    CHECK_TEXT(label.name, "other");
    CHECK(label.rank == 2 && label.dim[0] == 2 && label.dim[1] == 1 && label.label && label.type == DATA_INT);
    CHECK_INT(data_provide(&it, 3).rank, 0);
    data_iter_free(&it);
    data_set_free(&s);
}

/* ---- MNIST's format ---- */

static const unsigned char images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3,
                                        0, 51, 102, 153, 204, 255, 1, 2, 3, 4, 5, 6 };
static const unsigned char labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 7, 9 };

static void idx(void)
{
    data_set s = no_fields();
    data_error e = no_error();
    const float first[6] = { 0, 0.2f, 0.4f, 0.6f, 0.8f, 1 };
    write_file(images, sizeof images);
    CHECK(!data_load_idx(&s, "image", 0, path, &e));
    write_file(labels, sizeof labels);
    CHECK(!data_load_idx(&s, "label", 1, path, &e));
    CHECK_TEXT(e.text[0] ? e.text : "fine", "fine");
    CHECK_INT(s.count, 2);
    CHECK(s.field[0].rank == 2 && s.field[0].dim[0] == 2 && s.field[0].dim[1] == 3 && s.field[1].label);
    CHECK_BITS(data_floats(&s, 0, 0), first, 6);
    CHECK_INT(data_ints(&s, 1, 1, NULL)[0], 9);
    data_set_free(&s);
}

/* The file of images with byte `at` changed, or cut to `size` bytes. */
static void idx_refused(size_t at, unsigned char value, size_t size, const char *why)
{
    unsigned char bytes[sizeof images + 1] = { 0 };
    data_set s = no_fields();
    data_error e = no_error();
    memcpy(bytes, images, sizeof images);
    bytes[at] = value;
    write_file(bytes, size);
    CHECK(data_load_idx(&s, "image", 0, path, &e));
    CHECK_TEXT(e.text, why);
    CHECK_TEXT(e.text, path);
    CHECK_INT(e.line, 0);
    CHECK_INT(s.n_fields, 0);
}

static void idx_wrong(void)
{
    const size_t all = sizeof images;
    for (size_t size = 1; size < all; size++)
        idx_refused(0, 0, size, size < 4 ? "not an IDX file" : size < 16 ? "ends within its header" : " bytes");
    idx_refused(0, 0, 0, "empty");
    idx_refused(0, 0, all + 1, "29 bytes, but its header says 28");
    idx_refused(0, 1, all, "not an IDX file");
    idx_refused(2, 13, all, "IDX type 0x0d");
    idx_refused(3, 0, all, "0 axes");
    idx_refused(3, 200, all, "200 axes");
    idx_refused(4, 255, all, "4278190082 along axis 0");
    idx_refused(11, 0, all, "0 along axis 1");
    idx_refused(12, 255, all, "along axis 2");
    idx_refused(15, 2, all, "28 bytes, but its header says 24");
}

static void idx_others(void)
{
    static const unsigned char zipped[] = { 0x1f, 0x8b, 8, 0 };
    data_set s = no_fields();
    data_error e = no_error();
    write_file(zipped, sizeof zipped);
    CHECK(data_load_idx(&s, "image", 0, path, &e));
    CHECK_TEXT(e.text, "gunzip");
    e = no_error();
    CHECK(data_load_idx(&s, "image", 0, "no such file", &e));
    CHECK_TEXT(e.text, "no such file: cannot open it");
    e = no_error();
    CHECK(data_load_idx(&s, "image", 0, ".", &e)); /* a folder */
    s = five_examples(); /* labels of another number of images */
    e = no_error();
    write_file(labels, sizeof labels);
    CHECK(data_load_idx(&s, "label", 1, path, &e));
    CHECK_TEXT(e.text, "field label: 2 examples, the other fields have 5");
    CHECK_INT(s.n_fields, 3);
    data_set_free(&s);
}

/* ---- CSV ---- */

/* Columns: two floats, one to skip, two labels. */
static int load_csv(data_set *s, char separator, int header, const char *text, data_error *e)
{
    data_field fields[4];
    data_csv desc = { separator, header, fields, 4 };
    fields[0] = a_field("x", DATA_FLOAT, 1, 2, 0, NULL);
    fields[1] = a_field(NULL, DATA_FLOAT, 1, 1, 0, NULL);
    fields[2] = a_field("class", DATA_INT, 1, 1, 0, NULL);
    fields[3] = a_field("score", DATA_FLOAT, 1, 1, 0, NULL);
    fields[2].label = fields[3].label = 1;
    *s = no_fields();
    *e = no_error();
    write_text(text);
    return data_load_csv(s, &desc, path, e);
}

static void csv(void)
{
    static const char *const texts[] = {
        "1,2.5,a,3,0.5\n-1e2, 4 ,\"b, \"\"c\"\"\",-4,\"6\"\n",
        "\xef\xbb\xbf\061,2.5,a,3,0.5\r\n\r\n-1e2,4,,-4,6", /* a byte order mark, and 1 */
        "one;two;name;class;score\n1;2.5;a,b;3;.5\n\n-100;4;;-4;6\n",
    };
    const float x[2][2] = { { 1, 2.5f }, { -100, 4 } }, score[2] = { 0.5f, 6 };
    for (int i = 0; i < 3; i++) {
        data_set s;
        data_error e;
        CHECK_SAYS(!load_csv(&s, i < 2 ? ',' : ';', i == 2, texts[i], &e), "%d: %s", i, e.text);
        if (!CHECK_INT(s.n_fields, 3) || !CHECK_INT(s.count, 2)) continue;
        for (size_t k = 0; k < 2; k++) {
            CHECK_BITS(data_floats(&s, 0, k), x[k], 2);
            CHECK_INT(data_ints(&s, 1, k, NULL)[0], k ? -4 : 3);
            CHECK_BITS(data_floats(&s, 2, k), score + k, 1);
        }
        CHECK(s.field[1].label && !s.field[0].label);
        data_set_free(&s);
    }
}

/* Numbers have a point whatever the locale of the host. */
static void csv_locale(void)
{
    data_set s;
    data_error e;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        check_skip("csv in a locale with commas (no de_DE.UTF-8)");
        return;
    }
    csv();
    CHECK(load_csv(&s, ';', 1, "one;two;name;class;score\n1;2,5;a,b;3;,5\n", &e));
    CHECK_TEXT(e.text, "\"2,5\" is not a number");
    CHECK(load_csv(&s, ';', 1, "one;two;name;class;score\n1;2.5.5;a,b;3;.5\n", &e));
    setlocale(LC_ALL, "C");
}

static void csv_wrong(void)
{
    static const struct { const char *text, *why; long line; } rows[] = {
        { "", "it is empty", 0 },
        { "\n\n", "no examples in it", 0 },
        { "1,2,a,3,4\n1,2,a,3\n", ":2: only 4 columns", 2 },
        { "1,2,a,3,4,5\n", ":1: more than 5 columns", 1 },
        { "1,2,a,3,4,\n", "more than 5 columns", 1 },
        { "1,x,a,3,4\n", ":1: column 2: \"x\" is not a number", 1 },
        { "1,,a,3,4\n", "column 2: \"\" is not a number", 1 },
        { "1,2 3,a,3,4\n", "column 2: \"2 3\" is not a number", 1 },
        { "\n1,nan,a,3,4\n", ":2: column 2: \"nan\" is not finite", 2 },
        { "1,1e99,a,3,4\n", "is not finite", 1 },
        { "1,2,a,3.5,4\n", "column 4: \"3.5\" is not a whole number", 1 },
        { "1,2,a,3000000000,4\n", "column 4: \"3000000000\" is out of range", 1 },
        { "1,2,a,99999999999999999999,4\n", "is out of range", 1 },
        { "1,2,\"a,3,4\n", "column 3: badly quoted", 1 },
        { "1,2,\"a\"b,3,4\n", "column 3: badly quoted", 1 },
        { "1,2,\"a\"", "only 3 columns", 1 },
    };
    data_set s;
    data_error e;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(load_csv(&s, ',', 0, rows[i].text, &e));
        CHECK_TEXT(e.text, rows[i].why);
        CHECK_INT(e.line, rows[i].line);
        CHECK_INT(s.n_fields, 0);
    }
    CHECK(load_csv(&s, ',', 1, "1,2,a,3,4\n", &e)); /* only a header */
    CHECK_TEXT(e.text, "no examples in it");
    write_file("1,2,a,3,4\n1,2,\0,3,4\n", 20);
    const data_field f = a_field("x", DATA_FLOAT, 1, 5, 0, NULL);
    const data_csv desc = { ',', 0, &f, 1 }, no_columns = { ',', 0, &f, 0 };
    e = no_error();
    CHECK(data_load_csv(&s, &no_columns, path, &e));
    CHECK_TEXT(e.text, "1 to 8 fields, not 0");
    e = no_error();
    CHECK(data_load_csv(&s, &desc, path, &e));
    CHECK_TEXT(e.text, ":1: column 3");
}

/* A set that has other examples keeps what it has. */
static void csv_beside(void)
{
    data_set s = five_examples();
    data_error e = no_error();
    data_field fields[2] = { a_field("more", DATA_INT, 1, 1, 0, NULL), a_field("x", DATA_INT, 1, 1, 0, NULL) };
    const data_csv one = { ',', 0, fields, 1 }, both = { ',', 0, fields, 2 };
    write_text("1,1\n2,2\n3,3\n4,4\n5,5\n");
    CHECK(data_load_csv(&s, &both, path, &e));
    CHECK_TEXT(e.text, "field x: there is one of that name");
    CHECK_INT(s.n_fields, 3);
    e = no_error();
    write_text("1\n2\n3\n4\n");
    CHECK(data_load_csv(&s, &one, path, &e));
    CHECK_TEXT(e.text, "field more: 4 examples");
    e = no_error();
    write_text("1\n2\n3\n4\n5");
    CHECK(!data_load_csv(&s, &one, path, &e));
    CHECK_INT(data_ints(&s, 3, 4, NULL)[0], 5);
    data_set_free(&s);
}

/* ---- words and lines ---- */

static void vocabulary(void)
{
    data_vocab v;
    char word[16];
    memset(&v, 0, sizeof v);
    CHECK_INT(data_vocab_find(&v, "a", 1), -1);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < 5000; i++)
            CHECK_INT(data_vocab_add(&v, word, (size_t)snprintf(word, sizeof word, "w%d", i)), i);
    CHECK_INT(v.n_words, 5000);
    CHECK_INT(v.words[4999].count, 2);
    CHECK_INT(data_vocab_find(&v, "w4321", 5), 4321);
    CHECK_INT(data_vocab_find(&v, "w432", 4), 432);
    CHECK_INT(data_vocab_find(&v, "w5000", 5), -1);
    CHECK_INT(data_vocab_add(&v, "", 0), 5000);
    CHECK_INT(data_vocab_find(&v, NULL, 0), 5000);
    data_vocab_free(&v);
    CHECK_INT(v.n_words, 0);
}

/* Reads the text into a new set; how many words every example has, as digits. */
static const char *load_lines(const char *text, const data_words *words, data_vocab *v, data_set *s, data_error *e)
{
    static char lengths[32];
    size_t n = 0, length = 0;
    *s = no_fields();
    *e = no_error();
    write_text(text);
    if (data_load_lines(s, "words", words, v, path, e)) return e->text;
    for (; n < s->count && n + 1 < sizeof lengths; n++) {
        CHECK(data_ints(s, 0, n, &length) != NULL);
        lengths[n] = (char)('0' + length);
    }
    lengths[n] = 0;
    return lengths;
}

static void lines(void)
{
    const data_words add = { 1, 0, 1, 0 }, keep = { 0, 0, 0, 0 }, strict = { 0, -1, 0, 0 };
    data_vocab v;
    data_set s;
    data_error e;
    memset(&v, 0, sizeof v);
    data_vocab_add(&v, " ", 1); /* unknown words */
    CHECK_TEXT(load_lines("the cat sat\n\n  \t\n The  \tdog \r\nsat", &add, &v, &s, &e), "321");
    CHECK_INT(s.count, 3);
    CHECK_INT(v.n_words, 5);
    CHECK(data_ints(&s, 0, 0, NULL)[0] == 1 && data_ints(&s, 0, 1, NULL)[0] == 1);
    CHECK_INT(data_ints(&s, 0, 1, NULL)[1], 4);
    CHECK_INT(v.words[1].count, 2);
    data_set_free(&s);
    CHECK_TEXT(load_lines("cat cow The\n", &keep, &v, &s, &e), "3");
    const int32_t *got = data_ints(&s, 0, 0, NULL);
    CHECK(got && got[0] == 2 && got[1] == 0 && got[2] == 0);
    data_set_free(&s);
    CHECK_TEXT(load_lines("cat\ncow\n", &strict, &v, &s, &e), ":2: \"cow\" is not in the vocabulary");
    CHECK_INT(s.n_fields, 0);
    CHECK_TEXT(load_lines("\n \n", &add, &v, &s, &e), "no examples in it");
    write_file("a\0b\n", 4);
    e = no_error();
    CHECK(data_load_lines(&s, "words", &add, &v, path, &e));
    CHECK_TEXT(e.text, ":1: a zero byte");
    data_vocab_free(&v);
}

static void characters(void)
{
    const data_words add = { 1, 0, 0, 1 };
    data_vocab v;
    data_set s;
    data_error e;
    memset(&v, 0, sizeof v);
    /* characters of 1, 2, 3 and 4 bytes; then bytes that are no characters: cut off, stray, never valid */
    const char *text = "a \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\n\xe2\x82\n\x80\xff\xc3z\n";
    CHECK_TEXT(load_lines(text, &add, &v, &s, &e), "524");
    CHECK_INT(v.words[data_ints(&s, 0, 0, NULL)[4]].length, 4);
    CHECK_INT(v.words[data_ints(&s, 0, 1, NULL)[0]].length, 1);
    data_set_free(&s);
    data_vocab_free(&v);
}

/* ---- trees ---- */

typedef struct grove { data_set s; data_trees t; data_vocab v; data_error e; } grove;

static int load_trees(grove *g, int arity, size_t limit, const char *text)
{
    data_ptb desc = { { 1, 0, 1, 0 }, 5, arity, limit };
    memset(g, 0, sizeof *g);
    write_text(text);
    return data_load_trees(&g->s, &g->t, &desc, &g->v, path, &g->e);
}

static void free_grove(grove *g)
{
    data_set_free(&g->s);
    data_trees_free(&g->t);
    data_vocab_free(&g->v);
}

static void trees(void)
{
    grove g;
    CHECK_SAYS(!load_trees(&g, 2, 0, "(3 (2 A) (4 (4 great\xc2\xa0) (2 film)))\r\n(1 a)\n"), "%s", g.e.text);
    if (CHECK_INT(g.s.count, 2) && CHECK_INT(g.t.n_nodes, 6)) {
        const int32_t *first = data_ints(&g.s, 0, 0, NULL), *second = data_ints(&g.s, 0, 1, NULL);
        CHECK(first[0] == 0 && first[1] == 4 && second[0] == 5 && second[1] == 5);
        CHECK_INT(data_ints(&g.s, 1, 0, NULL)[0], 3);
        const data_node *root = &g.t.nodes[4], *left = &g.t.nodes[root->child], *right = &g.t.nodes[left->sibling];
        CHECK(root->word == -1 && root->sibling == -1 && left->label == 2 && left->child == -1 && right->sibling == -1);
        CHECK(right->label == 4 && right->word == -1 && g.t.nodes[right->child].label == 4);
        CHECK(left->word == 0 && g.t.nodes[5].word == 0); /* lower case, both */
        CHECK_INT(g.v.words[1].length, 7);                /* a no-break space does not end it */
    }
    free_grove(&g);
    CHECK(!load_trees(&g, 0, 1, "(0 (1 a)(2 b) (3 c)  (4 d) )\nnot read"));
    CHECK_INT(g.s.count, 1);
    CHECK_INT(g.t.n_nodes, 5);
    free_grove(&g);
}

/* Trees made by a program, beside those of a file. */
static void trees_made(void)
{
    grove g;
    data_set made = no_fields();
    CHECK(!load_trees(&g, 2, 0, "(3 (2 a) (4 (4 b) (2 c)))\n"));
    CHECK_INT(g.t.longest, 5);
    const int32_t first = (int32_t)g.t.n_nodes;
    const int leaf = data_tree_node(&g.t, NULL, 0, 7, 2), root = data_tree_node(&g.t, &leaf, 1, -1, 1);
    for (int32_t wrong = 0; wrong < 4; wrong++) {
        int32_t *tree = (int32_t *)malloc(2 * sizeof *tree); /* the set frees it, come what may */
        data_error e = no_error();
        if (!CHECK(tree != NULL)) break;
        tree[0] = wrong == 1 ? -1 : wrong == 2 ? (int32_t)root + 1 : first;
        tree[1] = wrong == 3 ? (int32_t)root + 1 : (int32_t)root;
        CHECK_INT(data_add_trees(&made, &g.t, tree, 1, &e), wrong > 0);
        if (wrong) CHECK_TEXT(e.text, "tree 0: no such nodes");
    }
    CHECK_INT(made.n_fields, 2);
    CHECK(data_ints(&made, 0, 0, NULL)[0] == leaf && data_ints(&made, 0, 0, NULL)[1] == root);
    CHECK_INT(data_ints(&made, 1, 0, NULL)[0], 1);
    CHECK_INT(g.t.nodes[root].child, leaf);
    CHECK_INT(g.t.longest, 5);
    data_set_free(&made);
    free_grove(&g);
}

static void trees_wrong(void)
{
    static const struct { const char *text, *why; } rows[] = {
        { "(1 a)\n\n", ":2: a tree must begin with '('" },
        { "a", ":1: a tree must begin with '('" },
        { "(5 a)", "a label must be 0 to 4" },
        { "(99999999999999999999 a)", "a label must be 0 to 4" },
        { "(S a)", "a label must be 0 to 4" },
        { "( 1 a)", "a label must be 0 to 4" },
        { "(1a)", "a space must follow the label" },
        { "(1)", "a space must follow the label" },
        { "(1 )", "a word or a subtree is missing" },
        { "(1 a", "')' is missing" },
        { "(1 (2 a) (3 b)", "')' is missing" },
        { "(1 a b)", "two words in a node" },
        { "(1 a (2 b))", "a word beside a subtree" },
        { "(1 (2 a) b)", "a word beside a subtree" },
        { "(1 (2 a))", "a node has 1 children, not 2" },
        { "(1 (2 a) (2 b) (2 c))", "a node has 3 children, not 2" },
        { "(1 a) (1 b)", "there is more after the tree" },
        { "(1 a))", "there is more after the tree" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        grove g;
        CHECK_SAYS(load_trees(&g, 2, 0, rows[i].text), "accepted: %s", rows[i].text);
        CHECK_TEXT(g.e.text, rows[i].why);
        CHECK_INT(g.s.n_fields, 0);
        CHECK_INT(g.t.n_nodes, 0);
        free_grove(&g);
    }
}

/* A million levels: nothing recurses. */
static void deep_tree(void)
{
    enum { DEPTH = 1000000 };
    char *text = (char *)malloc(4 * DEPTH + 8);
    grove g;
    size_t n = 0;
    if (!CHECK(text != NULL)) return;
    for (int i = 0; i < DEPTH; i++, n += 3) memcpy(text + n, "(0 ", 3);
    text[n++] = 'a';
    memset(text + n, ')', DEPTH);
    text[n + DEPTH] = 0;
    CHECK(!load_trees(&g, 1, 0, text));
    CHECK_INT(g.t.n_nodes, DEPTH);
    free_grove(&g);
    text[n + DEPTH - 1] = 0; /* the last bracket */
    CHECK(load_trees(&g, 1, 0, text));
    CHECK_TEXT(g.e.text, "')' is missing");
    free_grove(&g);
    free(text);
}

/* Files made of pieces that mean something, at random: each is read or refused with a message, never more. */
static void random_files(void)
{
    static const char *const pieces[] = { "(", ")", "(1 ", " ", "a", "1", "\"", ",", ";", "\n", "\r\n", "-",
                                          "9999999999", "\xc3", "(2 b)", "1,2,a,3,4\n" };
    check_random r = { 5 };
    char text[256];
    int read = 0, refused_files = 0;
    for (int round = 0; round < 3000; round++) {
        grove g;
        data_set s;
        data_error e;
        size_t n = 0;
        for (int k = 1 + random_below(&r, 12); k > 0; k--) {
            const char *piece = pieces[random_below(&r, (int)(sizeof pieces / sizeof *pieces))];
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", piece);
        }
        const int tree = load_trees(&g, 0, 0, text), table = load_csv(&s, ',', 0, text, &e);
        CHECK(!!tree == !!g.e.text[0] && !!table == !!e.text[0]);
        read += !tree + !table;
        refused_files += tree + table;
        data_set_free(&s);
        free_grove(&g);
    }
    CHECK(read > 0 && refused_files > 0);
}

static void paths(void)
{
    char text[32];
    write_text("x");
    CHECK(data_path(text, sizeof text, ".", path));
    CHECK_TEXT(text, path);
    CHECK(!data_path(text, sizeof text, ".", "no such file"));
    CHECK(!data_path(text, 4, ".", path));
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_run("arrays in memory", memory);
    check_run("arrays in memory that are wrong", memory_wrong);
    check_run("too many fields", too_many_fields);
    check_run("errors stick", errors_stick);
    check_run("passes and pads", passes);
    check_run("a batch larger than the set", large_batch);
    check_run("shuffled passes", shuffled);
    check_run("what a batch provides", provides);
    check_run("idx", idx);
    check_run("idx that is wrong", idx_wrong);
    check_run("idx: compressed, missing, a folder, of another length", idx_others);
    check_run("csv", csv);
    check_run("csv in a locale with decimal commas", csv_locale);
    check_run("csv that is wrong", csv_wrong);
    check_run("csv beside other fields", csv_beside);
    check_run("vocabulary", vocabulary);
    check_run("lines of words", lines);
    check_run("lines of characters", characters);
    check_run("trees", trees);
    check_run("trees made by a program", trees_made);
    check_run("trees that are wrong", trees_wrong);
    check_run("a deep tree", deep_tree);
    check_run("files at random", random_files);
    check_run("paths", paths);
    remove(path);
    return check_finish();
}
