/* Four-lane float arithmetic and the engine's own exp, sin and cos, bit-identical everywhere.
 *
 * Every function is a fixed sequence of IEEE single-precision operations: no libm, no contraction (build with
 * -ffp-contract=off), no float-to-integer conversion that a NaN could make undefined. Vectors are the compiler's generic
 * ones, so a lane means the same on x86-64 and AArch64 whatever -m flags are given.
 * Polynomials and split constants: Cephes, expf.c and sinf.c (S. Moshier). Nothing here fails or touches memory of its own. */
#ifndef REPRO_MODEL_FMATH_H
#define REPRO_MODEL_FMATH_H

#include <float.h>
#include <stdint.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "floats must be evaluated as floats");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows, states and digests are little-endian");

typedef float v4f __attribute__((vector_size(16)));
typedef uint32_t v4u __attribute__((vector_size(16)));

/* Pools belong to the caller: no more than float alignment is assumed. */
static inline v4f fm_load(const float *p)
{
    v4f v;

    memcpy(&v, p, sizeof v);
    return v;
}

static inline void fm_store(float *p, v4f v)
{
    memcpy(p, &v, sizeof v);
}

static inline v4f fm_splat(float x)
{
    return (v4f){ x, x, x, x };
}

/* a > b ? a : b in each lane; a NaN in a gives b. */
static inline v4f fm_max(v4f a, v4f b)
{
    v4u m = (v4u)(a > b);

    return (v4f)(((v4u)a & m) | ((v4u)b & ~m));
}

/* a < b ? a : b in each lane; a NaN in a gives b. */
static inline v4f fm_min(v4f a, v4f b)
{
    v4u m = (v4u)(a < b);

    return (v4f)(((v4u)a & m) | ((v4u)b & ~m));
}

static inline float fm_sum(v4f a)
{
    return (a[0] + a[2]) + (a[1] + a[3]);
}

/* fm_sum() of four vectors at once: the same additions in the same order. */
static inline v4f fm_sum4(v4f a, v4f b, v4f c, v4f d)
{
    v4f ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    v4f cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);

    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

/* e^x, relative error about 1e-7; x is clamped to [-87.3, 88], a NaN counts as -87.3. */
static inline v4f fm_exp(v4f x)
{
    /* Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the sum. */
    const float round = 12582912.0f;
    v4f t, n, r, p;

    x = fm_min(fm_max(x, fm_splat(-87.3f)), fm_splat(88.0f));
    t = x * 1.44269504088896341f + round;
    n = t - round;
    r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * (v4f)(((v4u)t << 23) + 0x3f800000u);
}

static inline v4f fm_sigmoid(v4f x)
{
    return 1.0f / (1.0f + fm_exp(-x));
}

/* sin and cos of x in [0, 16384] radians, absolute error below 1e-6. */
static inline void fm_sincos(float x, float *sin_out, float *cos_out)
{
    const float round = 12582912.0f;
    float t = x * 0.636619772367581343f + round;
    float n = t - round;
    float r, z, s, c;
    uint32_t quadrant;

    memcpy(&quadrant, &t, sizeof quadrant);
    /* pi/2 in three parts; the first has 8 bits, so its product with n is exact. */
    r = x - n * 1.5703125f;
    r = r - n * 4.837512969970703125e-4f;
    r = r - n * 7.54978995489188216e-8f;
    z = r * r;
    s = -1.9515295891e-4f * z + 8.3321608736e-3f;
    s = s * z - 1.6666654611e-1f;
    s = s * z * r + r;
    c = 2.443315711809948e-5f * z - 1.388731625493765e-3f;
    c = c * z + 4.166664568298827e-2f;
    c = c * (z * z) - 0.5f * z + 1.0f;
    switch (quadrant & 3) {
    case 0:
        *sin_out = s;
        *cos_out = c;
        break;
    case 1:
        *sin_out = c;
        *cos_out = -s;
        break;
    case 2:
        *sin_out = -s;
        *cos_out = -c;
        break;
    default:
        *sin_out = -c;
        *cos_out = s;
        break;
    }
}

#endif
