/* The most probable words of rows of logits, and what makes log-probabilities of logits; top_tokens.py calls it.

   A row is read twice, the second time from the processor's cache. Compilers vectorise the inner loops. */

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    LANES = 32,  /* sums that are added up side by side */
    BLOCK = 128, /* logits that are looked at one by one if any is among the best so far */
};

/* e to the power of x, for x <= 0; about 0 below -87. A polynomial within half of a power of two (Cephes' coefficients). */
static inline float exponential(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: what is added to it is rounded to an integer, in the lowest bits */
    x = x < -87.0f ? -87.0f : x;
    float shifted = x * 1.44269504f + magic, whole = shifted - magic, power;
    float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f; /* ln 2 in two parts, for exactness */
    float p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits - 0x4B400000u + 127u) << 23; /* bits of magic; 127 and 23: how a float holds its power of two */
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

static void find_words(const float *x, int64_t begin, int64_t end, int64_t count, float *words, int64_t *ids) {
    int64_t found = 0;
    for (int64_t j = begin; j < end; j += BLOCK) {
        int64_t stop = j + BLOCK < end ? j + BLOCK : end;
        int any = found < count || stop < j + BLOCK;
        if (!any)
            for (int i = 0; i < BLOCK; i++) any |= x[j + i] > words[count - 1];
        for (int64_t i = any ? j : stop; i < stop; i++) {
            if (found == count && !(x[i] > words[count - 1])) continue;
            int64_t place = found < count ? found++ : count - 1;
            for (; place > 0 && x[i] > words[place - 1]; place--) {
                words[place] = words[place - 1];
                ids[place] = ids[place - 1];
            }
            words[place] = x[i];
            ids[place] = i;
        }
    }
}

/* logits: (rows, vocabulary). Words begin at `first`; at least `count` of them exist.
   words, ids: (rows, count) logits and tokens of the best, the best first; of equal ones, the first.
   log_sums: (rows) the logarithm of the sum of the exponentials of all logits. */
void focat_top_tokens(const float *logits, int64_t rows, int64_t vocabulary, int64_t first, int64_t count, float *words,
                      int64_t *ids, float *log_sums) {
    for (int64_t r = 0; r < rows; r++, logits += vocabulary, words += count, ids += count) {
        find_words(logits, first, vocabulary, count, words, ids);
        float highest = words[0], sums[LANES] = {0}, sum = 0;
        for (int64_t j = 0; j < first; j++) highest = logits[j] > highest ? logits[j] : highest;
        int64_t j = 0;
        for (; j + LANES <= vocabulary; j += LANES)
            for (int i = 0; i < LANES; i++) sums[i] += exponential(logits[j + i] - highest);
        for (; j < vocabulary; j++) sum += exponential(logits[j] - highest);
        for (int i = 0; i < LANES; i++) sum += sums[i];
        log_sums[r] = highest + logf(sum);
    }
}
