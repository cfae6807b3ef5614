/* Padding of rows of elements of SIZE bytes. Included by pad.c, once for each size. */

#define OF(name) GW_JOIN(name, SIZE)

/* Copies dense rows of src, with constants before and after each. */
static void OF(frame)(const row_pad *t, char *dst, int64_t d, const char *src, int64_t s, int64_t rows) {
    const OF(e) fill = *(const OF(e) *)t->fill;
    const int64_t left = t->before, inside = t->inside, right = t->n - left - inside;
    for (int64_t i = 0; i < rows; i++, dst += d, src += s) {
        OF(fill)(dst, fill, left);
        move_run(dst + left * SIZE, src, inside * SIZE);
        OF(fill)(dst + (left + inside) * SIZE, fill, right);
    }
}

#undef OF
