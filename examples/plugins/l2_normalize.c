/* Divides rows [begin, end) of x, each of arg[0] floats, by max(norm, epsilon).
   vf is a vector of VL floats; the last vector of a row may be shorter, and is loaded and stored partially. */
int32_t l2_normalize(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    const int64_t columns = arg[0];
    const float epsilon = (float)gw_double(arg[1]);
    (void)scratch;
    for (int64_t row = begin; row < end; ++row) {
        const float *x = (const float *)buf[0] + row * columns;
        float *y = (float *)buf[1] + row * columns;
        vf squares = vf_set1(0);
        int64_t i = 0;
        for (; i + VL <= columns; i += VL)
            squares = vf_fma(vf_load(x + i), vf_load(x + i), squares);
        const vf rest = vf_load_n(x + i, columns - i);
        const float norm = __builtin_sqrtf(vf_sum(vf_fma(rest, rest, squares)));
        const vf divisor = vf_set1(norm < epsilon ? epsilon : norm);
        for (i = 0; i + VL <= columns; i += VL)
            vf_store(y + i, vf_load(x + i) / divisor);
        vf_store_n(y + i, rest / divisor, columns - i);
    }
    return 0;
}
