/* Computes rows [begin, end) of y, each of arg[1] floats: rows of x, reversed within images of arg[0] rows. */
int32_t flip_rows(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    const int64_t rows = arg[0], floats = arg[1];
    (void)scratch;
    for (int64_t k = begin; k < end; ++k) {
        const int64_t source = k - k % rows + rows - 1 - k % rows;
        memcpy((float *)buf[1] + k * floats, (const float *)buf[0] + source * floats, sizeof(float) * (size_t)floats);
    }
    return 0;
}
