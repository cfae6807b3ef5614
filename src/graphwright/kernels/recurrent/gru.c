/* GRU: see gru.py. */

#include "recurrent/gru.gen.h"

#include "recurrent/rnn.h"

struct cell {
    const struct gru_args *t;
    const activation *f; /* of the gates, and of the candidate state */
    const float *r;
    /* recurrent products without biases, states, reset * states, biases */
    float *recurrent, *candidates, *h, *resets, *input_bias, *recurrent_bias;
};

static struct cell make_cell(const struct gru_args *t, void *const *buf, const unit *u, float *scratch) {
    const int64_t n = t->hidden, columns = panels_of(3 * n) * PANEL, pitch = n + PANEL, d = u->direction;
    const float *b = buf[GRU_B] ? (const float *)buf[GRU_B] + d * 6 * n : NULL;
    struct cell c = {.t = t, .f = t->f[d], .r = (const float *)buf[GRU_R] + d * columns * n};
    c.recurrent = scratch;
    c.candidates = c.recurrent + ROWS * columns;
    c.h = c.candidates + ROWS * columns;
    c.resets = c.h + ROWS * pitch;
    c.input_bias = c.resets + ROWS * pitch;
    c.recurrent_bias = c.input_bias + 3 * n + PANEL;
    copy_row(c.input_bias, b, 3 * n);
    copy_row(c.recurrent_bias, b ? b + 3 * n : NULL, 3 * n);
    load_states(u, buf[GRU_INITIAL_H], t->h0_direction, t->h0_row, n, c.h);
    return c;
}

/* Updates one row for one step; gates are in the order z, r, h. input and recurrent are products without
 * biases. */
typedef struct {
    const float *input, *recurrent, *candidate;
    float *h, *reset;
} row;

static row row_of(const struct cell *c, const float *input, int64_t i) {
    const int64_t n = c->t->hidden, columns = panels_of(3 * n) * PANEL, pitch = n + PANEL;
    return (row){
        .input = input,
        .recurrent = c->recurrent + i * columns,
        .candidate = c->candidates + i * columns,
        .h = c->h + i * pitch,
        .reset = c->resets + i * pitch,
    };
}

/* The input part and the recurrent part of a gate at column `at`; recurrent is its product. */
GW_INLINE vf input_part(const struct cell *c, const row *x, int64_t at) {
    return vf_load(x->input + at) + vf_load(c->input_bias + at);
}
GW_INLINE vf recurrent_part(const struct cell *c, const float *recurrent, int64_t at) {
    return vf_load(recurrent + at) + vf_load(c->recurrent_bias + at);
}

static vf gate(const struct cell *c, const row *x, int64_t at) {
    const vf sum = input_part(c, x, at) + recurrent_part(c, x->recurrent, at);
    return activate(&c->f[0], clamp(sum, (float)c->t->clip));
}

/* reset = r * h, the operand of the candidate's recurrent product unless linear_before_reset. */
static void reset_state(const struct cell *c, const row *x) {
    for (int64_t j = 0; j < c->t->hidden; j += VL)
        vf_store(x->reset + j, gate(c, x, c->t->hidden + j) * vf_load(x->h + j));
}

static void multiply(const struct cell *c, const unit *u, const float *inputs, int backwards) {
    const int64_t n = c->t->hidden, panels = panels_of(3 * n);
    weights r = {c->r, n, panels, 0, panels, backwards};
    if (c->t->linear_before_reset) {
        project_states(u, c->h, &r, c->recurrent);
        return;
    }
    /* The candidate's columns may share a panel with the gates. This panel is computed twice, the second time
     * to another buffer. */
    r.last = panels_of(2 * n);
    project_states(u, c->h, &r, c->recurrent);
    for (int64_t i = 0; i < u->rows; i++) {
        const row x = row_of(c, inputs + i * panels * PANEL, i);
        reset_state(c, &x);
    }
    r.first = 2 * n / PANEL;
    r.last = panels;
    project_states(u, c->resets, &r, c->candidates);
}

static void update(const struct cell *c, const float *input, int64_t i) {
    const row x = row_of(c, input, i);
    const int64_t n = c->t->hidden;
    for (int64_t j = 0; j < n; j += VL) {
        vf z = gate(c, &x, j), in = input_part(c, &x, 2 * n + j), candidate;
        if (c->t->linear_before_reset)
            candidate = vf_fma(gate(c, &x, n + j), recurrent_part(c, x.recurrent, 2 * n + j), in);
        else
            candidate = in + recurrent_part(c, x.candidate, 2 * n + j);
        candidate = activate(&c->f[1], clamp(candidate, (float)c->t->clip));
        vf_store(x.h + j, vf_fma(z, vf_load(x.h + j), (1.0f - z) * candidate));
    }
}

static void store_cell(const struct cell *c, void *const *buf, const unit *u) {
    store_states(u, c->h, c->t->hidden, buf[GRU_Y_H], c->t->hn_direction, c->t->hn_row);
}

#define KERNEL gw_gru_f32
#define ARGS gru_args
#define GATES 3
#define OPERAND(name) GRU_##name
#include "recurrent/layer_of.h"
