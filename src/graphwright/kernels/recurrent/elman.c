/* RNN: see elman.py. */

#include "recurrent/elman.gen.h"

#include "recurrent/rnn.h"

struct cell {
    const struct rnn_args *t;
    const activation *f;
    const float *r;
    float *recurrent, *h, *bias;
};

static struct cell make_cell(const struct rnn_args *t, void *const *buf, const unit *u, float *scratch) {
    const int64_t n = t->hidden, columns = panels_of(n) * PANEL, d = u->direction;
    const float *b = buf[RNN_B] ? (const float *)buf[RNN_B] + d * 2 * n : NULL;
    struct cell c = {.t = t, .f = &t->f[d], .r = (const float *)buf[RNN_R] + d * columns * n};
    c.recurrent = scratch;
    c.h = c.recurrent + ROWS * columns;
    c.bias = c.h + ROWS * (n + PANEL);
    add_biases(b, n, c.bias);
    load_states(u, buf[RNN_INITIAL_H], t->h0_direction, t->h0_row, n, c.h);
    return c;
}

static void multiply(const struct cell *c, const unit *u, const float *inputs, int backwards) {
    const int64_t n = c->t->hidden, panels = panels_of(n);
    (void)inputs;
    const weights r = {c->r, n, panels, 0, panels, backwards};
    project_states(u, c->h, &r, c->recurrent);
}

/* The gate is input + recurrent + bias. */
GW_INLINE void update_as(int64_t n, float clip, const activation *f, const float *input,
                         const float *recurrent, const float *bias, float *h) {
    for (int64_t j = 0; j < n; j += VL) {
        vf gate = vf_load(input + j) + vf_load(recurrent + j) + vf_load(bias + j);
        vf_store(h + j, activate(f, clamp(gate, clip)));
    }
}

/* The default activation has a loop of its own, without a choice per element. */
static void update(const struct cell *c, const float *input, int64_t row) {
    static const activation usual = {TANH, 0, 0};
    const int64_t n = c->t->hidden;
    const float clip = (float)c->t->clip, *recurrent = c->recurrent + row * panels_of(n) * PANEL;
    float *h = c->h + row * (n + PANEL);
    if (c->f->kind == TANH)
        update_as(n, clip, &usual, input, recurrent, c->bias, h);
    else
        update_as(n, clip, c->f, input, recurrent, c->bias, h);
}

static void store_cell(const struct cell *c, void *const *buf, const unit *u) {
    store_states(u, c->h, c->t->hidden, buf[RNN_Y_H], c->t->hn_direction, c->t->hn_row);
}

#define KERNEL gw_rnn_f32
#define ARGS rnn_args
#define GATES 1
#define OPERAND(name) RNN_##name
#include "recurrent/layer_of.h"
