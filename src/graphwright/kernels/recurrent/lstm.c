/* LSTM: see lstm.py. */

#include "recurrent/lstm.gen.h"

#include "recurrent/rnn.h"

/* One row's step: gates in the order i, o, f, c are input + recurrent + bias; h and c are updated in place.
 */
GW_INLINE void cell(const struct lstm_args *t, const activation *f, const float *input,
                    const float *recurrent, const float *bias, const float *peephole, float *h, float *c) {
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

/* With the usual activations there is nothing to choose between in the loop. */
static void usual_cell(const struct lstm_args *t, const float *input, const float *recurrent,
                       const float *bias, const float *peephole, float *h, float *c) {
    static const activation usual[3] = {{SIGMOID, 0, 0}, {TANH, 0, 0}, {TANH, 0, 0}};
    cell(t, usual, input, recurrent, bias, peephole, h, c);
}
static void any_cell(const struct lstm_args *t, const activation *f, const float *input,
                     const float *recurrent, const float *bias, const float *peephole, float *h, float *c) {
    if (f[0].kind == SIGMOID && f[1].kind == TANH && f[2].kind == TANH)
        usual_cell(t, input, recurrent, bias, peephole, h, c);
    else
        cell(t, f, input, recurrent, bias, peephole, h, c);
}

static void run_unit(const struct lstm_args *t, void *const *buf, int64_t index, float *scratch) {
    unit u = unit_of(index, t->sequence, t->batch, t->reverse, buf[LSTM_SEQUENCE_LENS]);
    int64_t n = t->hidden, panels = (4 * n + PANEL - 1) / PANEL, columns = panels * PANEL, pitch = n + PANEL;
    int64_t d = u.direction;
    const float *w = (const float *)buf[LSTM_W] + d * panels * PANEL * t->inputs;
    const float *r = (const float *)buf[LSTM_R] + d * panels * PANEL * n;
    const float *b = buf[LSTM_B] ? (const float *)buf[LSTM_B] + d * 8 * n : NULL;
    float *y = buf[LSTM_Y] ? (float *)buf[LSTM_Y] + d * t->y_direction + u.row0 * t->y_row : NULL;
    float *inputs = scratch, *recurrent = inputs + POINTS * columns, *h = recurrent + ROWS * columns;
    float *c = h + ROWS * pitch, *bias = c + ROWS * pitch, *peephole = bias + 4 * n + PANEL;
    memset(bias, 0, (size_t)(4 * n + PANEL) * sizeof *bias);
    for (int64_t j = 0; b && j < 4 * n; j++)
        bias[j] = b[j] + b[4 * n + j];
    if (buf[LSTM_P])
        copy_row(peephole, (const float *)buf[LSTM_P] + d * 3 * n, 3 * n);
    else
        peephole = NULL;
    const float *states[ROWS];
    for (int64_t i = 0; i < u.rows; i++) {
        states[i] = h + i * pitch;
    }
    load_states(&u, buf[LSTM_INITIAL_H], t->h0_direction, t->h0_row, n, h);
    load_states(&u, buf[LSTM_INITIAL_C], t->c0_direction, t->c0_row, n, c);
    for (int64_t step = 0; step < u.longest; step++) {
        if (step % u.steps == 0)
            project_inputs(&u, step, buf[LSTM_X], t->x_time, t->x_row, t->inputs, w, panels, inputs);
        project(u.rows, n, states, r, 0, panels, step % 2, recurrent, columns);
        for (int64_t i = 0; i < u.rows; i++) {
            if (step >= u.length[i])
                continue;
            any_cell(t, t->f[d], inputs + (step % u.steps * u.rows + i) * columns, recurrent + i * columns,
                     bias, peephole, h + i * pitch, c + i * pitch);
            if (y)
                copy_row(y + time_of(&u, i, step) * t->y_time + i * t->y_row, h + i * pitch, n);
        }
    }
    clear_ended(&u, y, t->y_time, t->y_row, n);
    store_states(&u, h, n, buf[LSTM_Y_H], t->hn_direction, t->hn_row);
    store_states(&u, c, n, buf[LSTM_Y_C], t->cn_direction, t->cn_row);
}

GW_KERNEL(gw_lstm_f32) {
    struct lstm_args t;
    memcpy(&t, arg, sizeof t);
    if (t.hidden == 0)
        return 0;
    for (int64_t index = begin; index < end; index++)
        run_unit(&t, buf, index, scratch);
    return 0;
}
