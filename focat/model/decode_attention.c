/* Attention of few queries to many keys, as in a step of beam search on a CPU; decode_attention.py compiles and calls it.

   The queries of a window are its hypotheses. PyTorch multiplies head by head, with kernels for large matrices. This one
   reads each key and value of a window once, for all heads and up to four queries, and skips those that no query sees.
   Vectors are those of GCC and Clang, which translate them for any processor. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = 16, /* floats of a vector; a processor with smaller registers uses several for one vector */
    GROUP = 4,  /* queries that are multiplied with as many keys at a time: 16 sums, which fit into registers */
    PARTS = 2,  /* vectors of values that are summed at a time, for all queries of a group */
    BLOCK = 32, /* values that are summed before the next head, and fetched from memory meanwhile */
};

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t integers __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float quad __attribute__((vector_size(4 * GROUP)));
typedef int32_t quad_indices __attribute__((vector_size(4 * GROUP)));

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (quad_indices){__VA_ARGS__})
#endif

static inline vector load(const float *from) { return *(const vector *)from; }
static inline void store(float *to, vector values) { *(vector *)to = values; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t rounded(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

static inline void prefetch(const float *from, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) __builtin_prefetch(from + i);
}

/* The sum of each of four vectors. */
static inline quad sums(const vector *of) {
    quad folded[GROUP];
    for (int i = 0; i < GROUP; i++) {
        quad parts[LANES / GROUP];
        memcpy(parts, &of[i], sizeof parts);
        folded[i] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
    quad ab = SHUFFLE(folded[0], folded[1], 0, 4, 1, 5) + SHUFFLE(folded[0], folded[1], 2, 6, 3, 7);
    quad cd = SHUFFLE(folded[2], folded[3], 0, 4, 1, 5) + SHUFFLE(folded[2], folded[3], 2, 6, 3, 7);
    return SHUFFLE(ab, cd, 0, 1, 4, 5) + SHUFFLE(ab, cd, 2, 3, 6, 7);
}

/* e to the power of x, for x <= 0; 0 below -87. A polynomial within half of a power of two (Cephes' coefficients). */
static inline vector exponential(vector x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: what is added to it is rounded to an integer, in the lowest bits */
    integers is_zero = x < -87.0f;
    x = (vector)(~is_zero & (integers)x);
    vector shifted = x * 1.44269504f + magic, whole = shifted - magic;
    vector r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f; /* ln 2 in two parts, for exactness */
    vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    integers power = ((integers)shifted - 0x4B400000) << 23; /* bits of magic; 23: bits of the mantissa */
    return (vector)(~is_zero & ((integers)p + power));
}

/* Keys or values of a window. A head's numbers are adjacent; strides are in floats. */
typedef struct {
    const float *first;
    int64_t head, token;
} tokens;

/* Memory for one group of queries. */
typedef struct {
    int32_t *columns; /* (count) the keys that a query sees */
    float *bias;      /* (GROUP, rounded count) 0, or -inf for a key that is not seen */
    float *queries;   /* (heads, GROUP, width) scaled */
    float *scores;    /* (heads, GROUP, rounded count) then weights, times their sum */
    float *scales;    /* (heads, GROUP) one by the sum of the weights; 0 if nothing is seen */
    float *result;    /* (heads, GROUP, width) */
} group;

static void multiply_keys(group g, tokens keys, int64_t count, int64_t heads, int64_t width) {
    int64_t stride = rounded(count);
    for (int64_t j = 0; j < count; j += GROUP) {
        const float *row[GROUP], *next[GROUP];
        for (int c = 0; c < GROUP; c++) {
            row[c] = keys.first + g.columns[least(j + c, count - 1)] * keys.token;
            next[c] = keys.first + g.columns[least(j + GROUP + c, count - 1)] * keys.token;
        }
        for (int64_t h = 0; h < heads; h++) {
            vector products[GROUP][GROUP] = {{{0}}}; /* (queries, keys) */
            for (int c = 0; c < GROUP; c++) prefetch(next[c] + h * keys.head, width);
            for (int64_t d = 0; d < width; d += LANES) {
                vector query[GROUP];
                for (int i = 0; i < GROUP; i++) query[i] = load(g.queries + (h * GROUP + i) * width + d);
                for (int c = 0; c < GROUP; c++) {
                    vector key = load(row[c] + h * keys.head + d);
                    for (int i = 0; i < GROUP; i++) products[i][c] += query[i] * key;
                }
            }
            for (int i = 0; i < GROUP; i++) {
                quad found = sums(products[i]);
                memcpy(g.scores + (h * GROUP + i) * stride + j, &found, sizeof found);
            }
        }
    }
}

static void softmax(group g, tokens values, int64_t count, int64_t heads, int64_t width) {
    int64_t stride = rounded(count);
    for (int64_t r = 0; r < heads * GROUP; r++) {
        float *scores = g.scores + r * stride, *bias = g.bias + r % GROUP * stride;
        vector most = {0}, total = {0};
        most -= INFINITY;
        for (int64_t j = 0; j < stride; j += LANES) {
            vector x = load(scores + j) + load(bias + j);
            integers is_more = x > most;
            most = (vector)((is_more & (integers)x) | (~is_more & (integers)most));
            store(scores + j, x);
        }
        float highest = most[0], sum = 0;
        for (int i = 1; i < LANES; i++) highest = most[i] > highest ? most[i] : highest;
        highest = highest == -INFINITY ? 0 : highest;
        for (int64_t j = 0; j < stride; j += LANES) {
            vector weights = exponential(load(scores + j) - highest);
            total += weights;
            store(scores + j, weights);
        }
        for (int i = 0; i < LANES; i++) sum += total[i];
        int sees = sum != 0;
        for (int64_t j = 0; j < count && !sees; j++) sees = bias[j] == 0;
        g.scales[r] = sees ? 1 / sum : 0; /* infinite where all scores are -inf; 0 times that is not a number */
        for (int64_t j = r % GROUP; j < least(BLOCK, count); j += GROUP) /* needed next; the rows of a head share them out */
            prefetch(values.first + g.columns[j] * values.token + r / GROUP * values.head, width);
    }
}

static void sum_values(group g, tokens values, int64_t count, int64_t heads, int64_t width) {
    int64_t stride = rounded(count);
    memset(g.result, 0, sizeof(float) * heads * GROUP * width);
    for (int64_t first = 0; first < count; first += BLOCK) {
        int64_t end = least(first + BLOCK, count), next_end = least(end + BLOCK, count);
        for (int64_t h = 0; h < heads; h++) {
            const float *weights = g.scores + h * GROUP * stride, *of_head = values.first + h * values.head;
            for (int64_t j = end; j < next_end; j++) prefetch(of_head + g.columns[j] * values.token, width);
            for (int64_t d = 0; d < width; d += PARTS * LANES) {
                float *result = g.result + h * GROUP * width + d;
                vector sum[GROUP][PARTS];
                for (int i = 0; i < GROUP; i++)
                    for (int p = 0; p < PARTS; p++) sum[i][p] = load(result + i * width + p * LANES);
                for (int64_t j = first; j < end; j++)
                    for (int p = 0; p < PARTS; p++) {
                        vector value = load(of_head + g.columns[j] * values.token + d + p * LANES);
                        for (int i = 0; i < GROUP; i++) sum[i][p] += weights[i * stride + j] * value;
                    }
                for (int i = 0; i < GROUP; i++)
                    for (int p = 0; p < PARTS; p++) store(result + i * width + p * LANES, sum[i][p]);
            }
        }
    }
}

/* Scaled dot-product attention. Returns 0, or 1 if there is no memory.

   shape: windows, heads, queries, keys, width of a head, a multiple of 32.
   strides: of queries, keys and values by window, head and token, in floats; of the mask by window, query and key.
   mask: nonzero where a query sees a key.
   output: (windows, queries, heads, width), contiguous; 0 for a query that sees nothing. */
int focat_decode_attention(const float *queries, const float *keys, const float *values, const uint8_t *mask,
                           float *output, const int64_t *shape, const int64_t *strides) {
    int64_t heads = shape[1], most = rounded(shape[3]), width = shape[4], rows = heads * GROUP;
    float *memory = malloc(sizeof(float) * ((rows + GROUP + 1) * most + rows * (2 * width + 1)));
    if (!memory) return 1;
    group g;
    g.columns = (int32_t *)memory;
    g.bias = memory + most;
    g.scores = g.bias + GROUP * most;
    g.queries = g.scores + rows * most;
    g.result = g.queries + rows * width;
    g.scales = g.result + rows * width;
    float scale = 1 / sqrtf((float)width);
    for (int64_t w = 0; w < shape[0]; w++) {
        tokens of_keys = {keys + w * strides[3], strides[4], strides[5]};
        tokens of_values = {values + w * strides[6], strides[7], strides[8]};
        for (int64_t q = 0; q < shape[2]; q += GROUP) {
            int64_t used = least(shape[2] - q, GROUP), count = 0, key = strides[11];
            const uint8_t *seen[GROUP]; /* a group that is not full ends with copies of its last query */
            for (int i = 0; i < GROUP; i++) {
                int64_t query = q + least(i, used - 1);
                seen[i] = mask + w * strides[9] + query * strides[10];
                const float *from = queries + w * strides[0] + query * strides[2];
                for (int64_t h = 0; h < heads; h++)
                    for (int64_t d = 0; d < width; d += LANES)
                        store(g.queries + (h * GROUP + i) * width + d, scale * load(from + h * strides[1] + d));
            }
            for (int64_t j = 0; j < shape[3]; j++) {
                g.columns[count] = (int32_t)j;
                count += (seen[0][j * key] | seen[1][j * key] | seen[2][j * key] | seen[3][j * key]) != 0;
            }
            int64_t stride = rounded(count);
            for (int i = 0; i < GROUP; i++)
                for (int64_t j = 0; j < stride; j++)
                    g.bias[i * stride + j] = j < count && seen[i][g.columns[j] * key] ? 0 : -INFINITY;
            for (int64_t r = 0; r < rows; r++)
                for (int64_t j = count; j < stride; j++) g.scores[r * stride + j] = 0;
            multiply_keys(g, of_keys, count, heads, width);
            softmax(g, of_values, count, heads, width);
            sum_values(g, of_values, count, heads, width);
            for (int i = 0; i < used; i++)
                for (int64_t h = 0; h < heads; h++)
                    for (int64_t d = 0; d < width; d += LANES)
                        store(output + ((w * shape[2] + q + i) * heads + h) * width + d,
                              g.scales[h * GROUP + i] * load(g.result + (h * GROUP + i) * width + d));
        }
    }
    free(memory);
    return 0;
}

/* The same of windows whose tokens lie one behind the other, (tokens, heads, width), without padding.

   bounds: (2, windows + 1) where the queries of each window begin, and its keys.
   shape: windows, heads, width of a head, a multiple of 32; 1 if a query sees no key behind its own place, where the
   last query is beside the last key, or 0 if it sees all keys of its window.
   strides: of queries, keys and values by head and token, in floats.
   output: (queries, heads, width), contiguous. */
int focat_window_attention(const float *queries, const float *keys, const float *values, float *output,
                           const int64_t *bounds, const int64_t *shape, const int64_t *strides) {
    const int64_t *s = strides, *key_bounds = bounds + shape[0] + 1;
    int64_t longest = 0, failed = 0;
    for (int64_t w = 0; w < shape[0]; w++) {
        int64_t length = bounds[w + 1] - bounds[w] + key_bounds[w + 1] - key_bounds[w];
        longest = length > longest ? length : longest;
    }
    uint8_t *mask = malloc(longest + 1); /* of the last query, then zeros: each one before begins one byte later */
    if (!mask) return 1;
    for (int64_t w = 0; w < shape[0] && !failed; w++) {
        int64_t query = bounds[w], key = key_bounds[w], count = bounds[w + 1] - query, seen = key_bounds[w + 1] - key;
        int64_t of_window[] = {1, shape[1], count, seen, shape[2]};
        int64_t by[] = {0, s[0], s[1], 0, s[2], s[3], 0, s[4], s[5], 0, shape[3] ? -1 : 0, 1};
        memset(mask, 1, seen);
        memset(mask + seen, 0, count);
        failed = focat_decode_attention(queries + query * s[1], keys + key * s[3], values + key * s[5],
                                        shape[3] ? mask + count - 1 : mask, output + query * shape[1] * shape[2],
                                        of_window, by);
    }
    free(mask);
    return (int)failed;
}
