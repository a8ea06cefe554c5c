/* Rows of floats to bytes and back, around products of eight-bit integers; quantisation.py calls it.

   One pass over the memory each, where PyTorch needs one for every operation. Compilers vectorise these loops. */

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { ZERO = 128 }; /* the byte that stands for 0 */

/* Bytes 1 to 255 for the numbers of each row, and the scale that makes numbers of them again; x: (rows, width). */
void focat_quantise_rows(const float *x, int64_t rows, int64_t width, uint8_t *bytes, float *scales) {
    for (int64_t r = 0; r < rows; r++, x += width, bytes += width) {
        uint32_t largest = 0; /* bits of a positive float: they have the order of the numbers; NaN is above all */
        for (int64_t i = 0; i < width; i++) {
            uint32_t bits;
            memcpy(&bits, x + i, sizeof bits);
            bits &= 0x7FFFFFFF;
            largest = bits > largest ? bits : largest;
        }
        float most;
        memcpy(&most, &largest, sizeof most);
        if (!isfinite(most)) { /* no integer stands for NaN or infinity: the scale alone says it */
            memset(bytes, ZERO, width);
            scales[r] = NAN;
            continue;
        }
        most = most < 1e-12f ? 1e-12f : most;
        scales[r] = most / 127;
        float factor = 127 / most;
        for (int64_t i = 0; i < width; i++) bytes[i] = (uint8_t)(int32_t)(x[i] * factor + (ZERO + 0.5f));
    }
}

/* Multiply each row by its scale, and add the bias, in place; y: (rows, width); bias: (width), or 0 if there is none.
   With relu, what is negative then becomes 0. */
void focat_unscale_rows(float *restrict y, int64_t rows, int64_t width, const float *restrict scales,
                        const float *restrict bias, int relu) {
    for (int64_t r = 0; r < rows; r++, y += width) {
        float scale = scales[r];
        if (bias)
            for (int64_t i = 0; i < width; i++) y[i] = y[i] * scale + bias[i];
        else
            for (int64_t i = 0; i < width; i++) y[i] *= scale;
        if (relu)
            for (int64_t i = 0; i < width; i++) y[i] = y[i] < 0 ? 0 : y[i]; /* NaN stays */
    }
}
