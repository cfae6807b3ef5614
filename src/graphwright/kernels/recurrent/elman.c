/* RNN: see elman.py. */

#include "recurrent/elman.gen.h"

#include "recurrent/rnn.h"

/* One row's step: the gate is input + recurrent + bias. */
GW_INLINE void cell(int64_t n, float clip, const activation *f, const float *input, const float *recurrent,
                    const float *bias, float *h) {
    for (int64_t j = 0; j < n; j += VL) {
        vf gate = vf_load(input + j) + vf_load(recurrent + j) + vf_load(bias + j);
        vf_store(h + j, activate(f, clamp(gate, clip)));
    }
}

/* With the usual activation there is nothing to choose between in the loop. */
static void any_cell(int64_t n, float clip, const activation *f, const float *input, const float *recurrent,
                     const float *bias, float *h) {
    static const activation usual = {TANH, 0, 0};
    if (f->kind == TANH)
        cell(n, clip, &usual, input, recurrent, bias, h);
    else
        cell(n, clip, f, input, recurrent, bias, h);
}

static void run_unit(const struct rnn_args *t, void *const *buf, int64_t index, float *scratch) {
    unit u = unit_of(index, t->sequence, t->batch, t->reverse, buf[RNN_SEQUENCE_LENS]);
    int64_t n = t->hidden, panels = (n + PANEL - 1) / PANEL, columns = panels * PANEL, pitch = n + PANEL;
    int64_t d = u.direction;
    const float *w = (const float *)buf[RNN_W] + d * panels * PANEL * t->inputs;
    const float *r = (const float *)buf[RNN_R] + d * panels * PANEL * n;
    const float *b = buf[RNN_B] ? (const float *)buf[RNN_B] + d * 2 * n : NULL;
    float *y = buf[RNN_Y] ? (float *)buf[RNN_Y] + d * t->y_direction + u.row0 * t->y_row : NULL;
    float *inputs = scratch, *recurrent = inputs + POINTS * columns, *h = recurrent + ROWS * columns;
    float *bias = h + ROWS * pitch;
    memset(bias, 0, (size_t)(n + PANEL) * sizeof *bias);
    for (int64_t j = 0; b && j < n; j++)
        bias[j] = b[j] + b[n + j];
    const float *states[ROWS];
    for (int64_t i = 0; i < u.rows; i++) {
        states[i] = h + i * pitch;
    }
    load_states(&u, buf[RNN_INITIAL_H], t->h0_direction, t->h0_row, n, h);
    for (int64_t step = 0; step < u.longest; step++) {
        if (step % u.steps == 0)
            project_inputs(&u, step, buf[RNN_X], t->x_time, t->x_row, t->inputs, w, panels, inputs);
        project(u.rows, n, states, r, 0, panels, step % 2, recurrent, columns);
        for (int64_t i = 0; i < u.rows; i++) {
            if (step >= u.length[i])
                continue;
            any_cell(n, (float)t->clip, &t->f[d], inputs + (step % u.steps * u.rows + i) * columns,
                     recurrent + i * columns, bias, h + i * pitch);
            if (y)
                copy_row(y + time_of(&u, i, step) * t->y_time + i * t->y_row, h + i * pitch, n);
        }
    }
    clear_ended(&u, y, t->y_time, t->y_row, n);
    store_states(&u, h, n, buf[RNN_Y_H], t->hn_direction, t->hn_row);
}

GW_KERNEL(gw_rnn_f32) {
    struct rnn_args t;
    memcpy(&t, arg, sizeof t);
    if (t.hidden == 0)
        return 0;
    for (int64_t index = begin; index < end; index++)
        run_unit(&t, buf, index, scratch);
    return 0;
}
