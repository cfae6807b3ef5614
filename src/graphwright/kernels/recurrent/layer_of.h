/* A recurrent layer over a whole sequence. Included by lstm.c, gru.c and elman.c, which define KERNEL, the
 * type ARGS of the arguments, GATES, OPERAND(X) (the position of x), and the parts that differ between cells.
 * struct cell has the weights r and the states h of the unit's rows, with PANEL elements of padding after
 * each. make_cell() lays it out in scratch and loads the initial states. multiply() computes the recurrent
 * products of all rows of a step, whose projected inputs begin at `inputs`. update() computes the new state
 * of a row. store_cell() stores the last states. */

static void run_unit(const struct ARGS *t, void *const *buf, int64_t index, float *scratch) {
    const unit u = unit_of(index, t->sequence, t->batch, t->reverse, buf[OPERAND(SEQUENCE_LENS)]);
    const int64_t n = t->hidden, panels = panels_of(GATES * n), columns = panels * PANEL, d = u.direction;
    const weights w = {
        .w = (const float *)buf[OPERAND(W)] + d * columns * t->inputs,
        .depth = t->inputs,
        .panels = panels,
        .last = panels,
    };
    const series x = {buf[OPERAND(X)], t->x_time, t->x_row};
    float *y = buf[OPERAND(Y)] ? (float *)buf[OPERAND(Y)] + d * t->y_direction + u.row0 * t->y_row : NULL;
    float *projected = scratch;
    struct cell cell = make_cell(t, buf, &u, projected + POINTS * columns);
    for (int64_t step = 0; step < u.longest; step++) {
        if (step % u.steps == 0)
            project_inputs(&u, step, &x, &w, projected);
        const float *inputs = projected + step % u.steps * u.rows * columns;
        multiply(&cell, &u, inputs, step % 2);
        for (int64_t i = 0; i < u.rows; i++) {
            if (step >= u.length[i])
                continue;
            update(&cell, inputs + i * columns, i);
            if (y)
                copy_row(y + time_of(&u, i, step) * t->y_time + i * t->y_row, cell.h + i * (n + PANEL), n);
        }
    }
    clear_ended(&u, y, t->y_time, t->y_row, n);
    store_cell(&cell, buf, &u);
}

GW_KERNEL(KERNEL) {
    struct ARGS t;
    memcpy(&t, arg, sizeof t);
    if (t.hidden == 0)
        return 0;
    for (int64_t index = begin; index < end; index++)
        run_unit(&t, buf, index, scratch);
    return 0;
}
