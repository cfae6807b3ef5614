/* Loops that run at the limits of one core: see rates.py, which compiles them together with vector.h. */

#define CHAINS 12 /* independent sums: two FMA units with a latency of 4 cycles need eight */

/* CHAINS independent FMAs per iteration, all in registers. */
GW_EXPORT void fma_loop(int64_t steps, float *out) {
    vf sum[CHAINS], x = vf_set1(1.0001f), y = vf_set1(0.9999f);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = x;
    for (; steps > 0; steps--)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            sum[i] = vf_fma(sum[i], y, x);
    for (int i = 0; i < CHAINS; i++)
        vf_store(out + i * VL, sum[i]);
}

/* Dependent additions of one cycle each. */
GW_EXPORT uint64_t cycle_loop(int64_t steps, uint64_t sum) {
    for (; steps > 0; steps -= 8)
        for (int i = 0; i < 8; i++) {
            sum += (uint64_t)steps;
            __asm__ volatile("" : "+r"(sum));
        }
    return sum;
}

/* Four parallel streams, each over a quarter of n floats: the maximal memory bandwidth. */
GW_EXPORT void read_loop(const float *from, int64_t n, int64_t times, float *out) {
    const int64_t quarter = n / 4 / (4 * VL) * (4 * VL);
    vf sum[8] = {{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}};
    for (; times > 0; times--)
        for (int64_t i = 0; i < quarter; i += 4 * VL)
#pragma GCC unroll 4
            for (int s = 0; s < 4; s++) {
                const float *p = from + s * quarter + i;
#pragma GCC unroll 4
                for (int v = 0; v < 4; v++) {
                    if (v * VL % 16 == 0)
                        __builtin_prefetch(p + v * VL + 512, 0, 3);
                    sum[4 * (s % 2) + v] += vf_load(p + v * VL);
                }
            }
    for (int s = 0; s < 8; s++)
        vf_store(out + s * VL, sum[s]);
}

GW_EXPORT void copy_loop(const float *from, int64_t n, int64_t times, float *to) {
    for (; times > 0; times--)
        for (int64_t i = 0; i + 2 * VL <= n; i += 2 * VL) {
            vf_store(to + i, vf_load(from + i));
            vf_store(to + i + VL, vf_load(from + i + VL));
        }
}
