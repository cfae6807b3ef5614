/* LSTM: see lstm.py. */

#include "recurrent/lstm.gen.h"

#include "recurrent/rnn.h"

struct cell {
    const struct lstm_args *t;
    const activation *f; /* of the gates, of the cell's input, and of its output */
    const float *r, *peephole;
    float *recurrent, *h, *c, *bias;
};

static struct cell make_cell(const struct lstm_args *t, void *const *buf, const unit *u, float *scratch) {
    const int64_t n = t->hidden, columns = panels_of(4 * n) * PANEL, pitch = n + PANEL, d = u->direction;
    const float *b = buf[LSTM_B] ? (const float *)buf[LSTM_B] + d * 8 * n : NULL;
    struct cell c = {.t = t, .f = t->f[d], .r = (const float *)buf[LSTM_R] + d * columns * n};
    c.recurrent = scratch;
    c.h = c.recurrent + ROWS * columns;
    c.c = c.h + ROWS * pitch;
    c.bias = c.c + ROWS * pitch;
    add_biases(b, 4 * n, c.bias);
    if (buf[LSTM_P]) {
        float *peephole = c.bias + 4 * n + PANEL;
        copy_row(peephole, (const float *)buf[LSTM_P] + d * 3 * n, 3 * n);
        c.peephole = peephole;
    }
    load_states(u, buf[LSTM_INITIAL_H], t->h0_direction, t->h0_row, n, c.h);
    load_states(u, buf[LSTM_INITIAL_C], t->c0_direction, t->c0_row, n, c.c);
    return c;
}

static void multiply(const struct cell *c, const unit *u, const float *inputs, int backwards) {
    const int64_t n = c->t->hidden, panels = panels_of(4 * n);
    (void)inputs;
    const weights r = {c->r, n, panels, 0, panels, backwards};
    project_states(u, c->h, &r, c->recurrent);
}

/* Updates one row: the gates, in the order i, o, f, c, are input + recurrent + bias; h and c are updated in
 * place. */
GW_INLINE void update_as(const struct cell *own, const activation *f, const float *input,
                         const float *recurrent, float *h, float *c) {
    const struct lstm_args *t = own->t;
    const float *bias = own->bias, *peephole = own->peephole;
    int64_t n = t->hidden;
    float clip = (float)t->clip;
    for (int64_t j = 0; j < n; j += VL) {
        vf gate[4], cell = vf_load(c + j);
        for (int g = 0; g < 4; g++)
            gate[g] = vf_load(input + g * n + j) + vf_load(recurrent + g * n + j) + vf_load(bias + g * n + j);
        if (peephole) {
            gate[0] = vf_fma(vf_load(peephole + j), cell, gate[0]);
            gate[2] = vf_fma(vf_load(peephole + 2 * n + j), cell, gate[2]);
        }
        vf i = activate(&f[0], clamp(gate[0], clip)), candidate = activate(&f[1], clamp(gate[3], clip));
        vf forget = t->input_forget ? 1.0f - i : activate(&f[0], clamp(gate[2], clip));
        cell = vf_fma(forget, cell, i * candidate);
        if (peephole)
            gate[1] = vf_fma(vf_load(peephole + n + j), cell, gate[1]);
        vf_store(c + j, cell);
        vf_store(h + j, activate(&f[0], clamp(gate[1], clip)) * activate(&f[2], cell));
    }
}

/* The default activations have a loop of their own, without a choice per element. */
static void update(const struct cell *own, const float *input, int64_t row) {
    static const activation usual[3] = {{SIGMOID, 0, 0}, {TANH, 0, 0}, {TANH, 0, 0}};
    const int64_t n = own->t->hidden, pitch = n + PANEL;
    const float *recurrent = own->recurrent + row * panels_of(4 * n) * PANEL;
    float *h = own->h + row * pitch, *c = own->c + row * pitch;
    const activation *f = own->f;
    if (f[0].kind == SIGMOID && f[1].kind == TANH && f[2].kind == TANH)
        update_as(own, usual, input, recurrent, h, c);
    else
        update_as(own, f, input, recurrent, h, c);
}

static void store_cell(const struct cell *c, void *const *buf, const unit *u) {
    const struct lstm_args *t = c->t;
    store_states(u, c->h, t->hidden, buf[LSTM_Y_H], t->hn_direction, t->hn_row);
    store_states(u, c->c, t->hidden, buf[LSTM_Y_C], t->cn_direction, t->cn_row);
}

#define KERNEL gw_lstm_f32
#define ARGS lstm_args
#define GATES 4
#define OPERAND(name) LSTM_##name
#include "recurrent/layer_of.h"
