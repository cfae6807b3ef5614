/* GRU: see gru.py. */

#include "recurrent/gru.gen.h"

#include "recurrent/rnn.h"

/* One row of one step; gates in the order z, r, h. input and recurrent are products without biases. */
typedef struct {
    const float *input, *input_bias, *recurrent, *recurrent_bias, *candidate;
    float *h, *reset;
} gru_row;

/* The input's and the recurrent part of a gate at column at; recurrent is its product. */
GW_INLINE vf input_part(const gru_row *row, int64_t at) {
    return vf_load(row->input + at) + vf_load(row->input_bias + at);
}
GW_INLINE vf recurrent_part(const gru_row *row, const float *recurrent, int64_t at) {
    return vf_load(recurrent + at) + vf_load(row->recurrent_bias + at);
}

static vf gate(const struct gru_args *t, const activation *f, const gru_row *row, int64_t at) {
    return activate(f, clamp(input_part(row, at) + recurrent_part(row, row->recurrent, at), (float)t->clip));
}

/* reset = r * h, what the candidate's product takes unless linear_before_reset. */
static void reset_state(const struct gru_args *t, const activation *f, const gru_row *row) {
    for (int64_t j = 0; j < t->hidden; j += VL)
        vf_store(row->reset + j, gate(t, &f[0], row, t->hidden + j) * vf_load(row->h + j));
}

static void update_state(const struct gru_args *t, const activation *f, const gru_row *row) {
    int64_t n = t->hidden;
    for (int64_t j = 0; j < n; j += VL) {
        vf z = gate(t, &f[0], row, j), x = input_part(row, 2 * n + j), candidate;
        if (t->linear_before_reset)
            candidate = vf_fma(gate(t, &f[0], row, n + j), recurrent_part(row, row->recurrent, 2 * n + j), x);
        else
            candidate = x + recurrent_part(row, row->candidate, 2 * n + j);
        candidate = activate(&f[1], clamp(candidate, (float)t->clip));
        vf_store(row->h + j, vf_fma(z, vf_load(row->h + j), (1.0f - z) * candidate));
    }
}

static void run_unit(const struct gru_args *t, void *const *buf, int64_t index, float *scratch) {
    unit u = unit_of(index, t->sequence, t->batch, t->reverse, buf[GRU_SEQUENCE_LENS]);
    int64_t n = t->hidden, panels = (3 * n + PANEL - 1) / PANEL, columns = panels * PANEL, pitch = n + PANEL;
    int64_t d = u.direction;
    const float *w = (const float *)buf[GRU_W] + d * panels * PANEL * t->inputs;
    const float *r = (const float *)buf[GRU_R] + d * panels * PANEL * n;
    const float *b = buf[GRU_B] ? (const float *)buf[GRU_B] + d * 6 * n : NULL;
    float *y = buf[GRU_Y] ? (float *)buf[GRU_Y] + d * t->y_direction + u.row0 * t->y_row : NULL;
    float *inputs = scratch, *recurrent = inputs + POINTS * columns;
    float *candidates = recurrent + ROWS * columns, *h = candidates + ROWS * columns;
    float *reset = h + ROWS * pitch, *input_bias = reset + ROWS * pitch,
          *recurrent_bias = input_bias + 3 * n + PANEL;
    copy_row(input_bias, b, 3 * n);
    copy_row(recurrent_bias, b ? b + 3 * n : NULL, 3 * n);
    const float *states[ROWS], *resets[ROWS];
    for (int64_t i = 0; i < u.rows; i++) {
        states[i] = h + i * pitch;
        resets[i] = reset + i * pitch;
    }
    /* The candidate's columns may share a panel with the gates': it is computed twice then, into another
       place. */
    int64_t gate_panels = t->linear_before_reset ? panels : (2 * n + PANEL - 1) / PANEL;
    load_states(&u, buf[GRU_INITIAL_H], t->h0_direction, t->h0_row, n, h);
    for (int64_t step = 0; step < u.longest; step++) {
        if (step % u.steps == 0)
            project_inputs(&u, step, buf[GRU_X], t->x_time, t->x_row, t->inputs, w, panels, inputs);
        project(u.rows, n, states, r, 0, gate_panels, step % 2, recurrent, columns);
        gru_row rows[ROWS];
        for (int64_t i = 0; i < u.rows; i++)
            rows[i] = (gru_row){inputs + (step % u.steps * u.rows + i) * columns,
                                input_bias,
                                recurrent + i * columns,
                                recurrent_bias,
                                candidates + i * columns,
                                h + i * pitch,
                                reset + i * pitch};
        if (!t->linear_before_reset) {
            for (int64_t i = 0; i < u.rows; i++)
                reset_state(t, t->f[d], &rows[i]);
            project(u.rows, n, resets, r, 2 * n / PANEL, panels, step % 2, candidates, columns);
        }
        for (int64_t i = 0; i < u.rows; i++) {
            if (step >= u.length[i])
                continue;
            update_state(t, t->f[d], &rows[i]);
            if (y)
                copy_row(y + time_of(&u, i, step) * t->y_time + i * t->y_row, h + i * pitch, n);
        }
    }
    clear_ended(&u, y, t->y_time, t->y_row, n);
    store_states(&u, h, n, buf[GRU_Y_H], t->hn_direction, t->hn_row);
}

GW_KERNEL(gw_gru_f32) {
    struct gru_args t;
    memcpy(&t, arg, sizeof t);
    if (t.hidden == 0)
        return 0;
    for (int64_t index = begin; index < end; index++)
        run_unit(&t, buf, index, scratch);
    return 0;
}
