/* Shared by the recurrent kernels: activations, products with packed weights, rows in time. rnn.py generates
 * the products. */

#ifndef GW_RNN_H
#define GW_RNN_H

#include "library/templates.h"

GW_INLINE vf vf_absolute(vf x) { return (vf)((vi)x & vi_set1(INT32_MAX)); }

GW_INLINE vf activate(const activation *f, vf x) {
    if (f->kind == SIGMOID)
        return VF_MATH(sigmoid)(x);
    if (f->kind == TANH)
        return VF_MATH(tanh)(x);
    vf zero = {0}, one = vf_set1(1.0f), alpha = vf_set1((float)f->alpha), beta = vf_set1((float)f->beta);
    switch (f->kind) {
    case RELU: return vf_relu(x);
    case HARD_SIGMOID: return vf_min(vf_max(vf_fma(alpha, x, beta), zero), one);
    case AFFINE: return vf_fma(alpha, x, beta);
    case LEAKY_RELU: return vf_select(x < zero, alpha * x, x);
    case THRESHOLDED_RELU: return vf_select(x <= alpha, zero, x);
    case SCALED_TANH: return alpha * VF_MATH(tanh)(beta * x);
    case ELU: { /* e^x - 1 without cancellation */
        vf t = VF_MATH(tanh)(0.5f * x);
        return vf_select(x < zero, alpha * (2.0f * t) / (1.0f - t), x);
    }
    default: return x / (1.0f + vf_absolute(x));
    }
}

GW_INLINE vf clamp(vf x, float bound) { return vf_min(vf_max(x, vf_set1(-bound)), vf_set1(bound)); }

/* Packed weights [panels][depth][PANEL], of which panels [first, last) are multiplied; backwards: from the
 * last one on. */
typedef struct {
    const float *w;
    int64_t depth, panels, first, last;
    int backwards;
} weights;

/* out[r][columns of the panels of w] = x[r] @ w; a row of out has the columns of all panels. The outer loop
 * is over panels, so that each is reused from the cache for all rows. */
static void project(int64_t rows, const float *const *x, const weights *w, float *out) {
    const int64_t ld = w->panels * PANEL;
    for (int64_t i = w->first; i < w->last; i++) {
        int64_t p = w->backwards ? w->first + w->last - 1 - i : i;
        for (int64_t r = 0; r < rows; r += MOST) {
            int64_t some = rows - r < MOST ? rows - r : MOST;
            PRODUCT[some - 1](w->depth, x + r, w->w + p * w->depth * PANEL, out + r * ld + p * PANEL, ld);
        }
    }
}

/* The number of panels that hold the columns. */
GW_INLINE int64_t panels_of(int64_t columns) { return (columns + PANEL - 1) / PANEL; }

/* The rows of one unit of the grid, and their position in time. Sizes are padded to PANEL for whole vectors.
 */
typedef struct {
    int64_t sequence, direction, row0, rows, steps, reverse, longest, length[ROWS];
} unit;

static unit unit_of(int64_t index, int64_t sequence, int64_t batch, int64_t reverse, const int32_t *lengths) {
    int64_t blocks = (batch + ROWS - 1) / ROWS, block = index % blocks;
    unit u = {.sequence = sequence, .direction = index / blocks, .row0 = batch * block / blocks};
    u.rows = batch * (block + 1) / blocks - u.row0; /* as even as possible */
    u.steps = POINTS / u.rows;
    u.reverse = reverse || u.direction == 1;
    for (int64_t r = 0; r < u.rows; r++) {
        int64_t n = lengths ? lengths[u.row0 + r] : sequence;
        n = n < 0 ? 0 : n < sequence ? n : sequence;
        u.length[r] = n;
        u.longest = n > u.longest ? n : u.longest;
    }
    return u;
}

/* The time index that row r reads at a step; a row whose sequence has ended reads index 0, and its result is
 * unused. */
static int64_t time_of(const unit *u, int64_t r, int64_t step) {
    if (step >= u->length[r])
        return 0;
    return u->reverse ? u->length[r] - 1 - step : step;
}

/* The inputs of a layer, and the elements between them. */
typedef struct {
    const float *x;
    int64_t time, row;
} series;

/* gates[(step - first) * rows + r] = x[time, row0 + r] @ w for steps [first, first + steps). */
static void project_inputs(const unit *u, int64_t first, const series *x, const weights *w, float *gates) {
    const float *rows[POINTS];
    int64_t count = 0;
    for (int64_t step = first; step < first + u->steps && step < u->longest; step++)
        for (int64_t r = 0; r < u->rows; r++)
            rows[count++] = x->x + time_of(u, r, step) * x->time + (u->row0 + r) * x->row;
    project(count, rows, w, gates);
}

/* out = states @ r. States have PANEL elements of padding. */
static void project_states(const unit *u, const float *states, const weights *r, float *out) {
    const float *rows[ROWS];
    for (int64_t i = 0; i < u->rows; i++)
        rows[i] = states + i * (r->depth + PANEL);
    project(u->rows, rows, r, out);
}

/* The sums of a cell's input and recurrent biases, n each, then PANEL zeros; all zeros if b is NULL. */
GW_INLINE void add_biases(const float *b, int64_t n, float *to) {
    memset(to, 0, (size_t)(n + PANEL) * sizeof *to);
    for (int64_t j = 0; b && j < n; j++)
        to[j] = b[j] + b[n + j];
}

/* Copies n elements, or writes zeros if `from` is NULL. */
static void copy_row(float *to, const float *from, int64_t n) {
    if (from)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        memset(to, 0, (size_t)n * sizeof *to);
}

/* Loads the initial states of a unit's rows, with PANEL elements of padding after each; zeros if `from` is
 * NULL. */
GW_INLINE void load_states(const unit *u, const float *from, int64_t direction, int64_t row, int64_t n,
                           float *to) {
    for (int64_t i = 0; i < u->rows; i++, to += n + PANEL)
        copy_row(to, from ? from + u->direction * direction + (u->row0 + i) * row : NULL, n);
}

/* Stores the last states, if they are wanted. */
GW_INLINE void store_states(const unit *u, const float *from, int64_t n, float *to, int64_t direction,
                            int64_t row) {
    for (int64_t i = 0; to && i < u->rows; i++)
        copy_row(to + u->direction * direction + (u->row0 + i) * row, from + i * (n + PANEL), n);
}

/* Y is zero after the end of a row's sequence. */
static void clear_ended(const unit *u, float *y, int64_t y_time, int64_t y_row, int64_t hidden) {
    for (int64_t r = 0; y && r < u->rows; r++)
        for (int64_t t = u->length[r]; t < u->sequence; t++)
            memset(y + t * y_time + r * y_row, 0, (size_t)hidden * sizeof *y);
}

#endif
