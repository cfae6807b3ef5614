"""LSTM over a whole sequence, as ONNX defines it (layout 0), in one launch.

Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997; peepholes after Gers and Schmidhuber, 2000.
"""

from __future__ import annotations

import math
from typing import Final

from graphwright.ir.symbols import Dim
from graphwright.kernels.library import rnn
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.library.extent import Extent
from graphwright.kernels.library.rnn import SIGMOID, TANH, Activation
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa, prelude

SYMBOL: Final = "gw_lstm_f32"
OPERANDS: Final = ("x", "w", "r", "b", "sequence_lens", "initial_h", "initial_c", "p", "y", "y_h", "y_c")
"""x [sequence, batch, input]; w and r packed as ``rnn.WEIGHTS_LAYOUT``; b [directions, 8 * hidden] and p
[directions, 3 * hidden], dense; sequence_lens int32, dense; y [sequence, directions, batch, hidden];
the states [directions, batch, hidden]. All but x, w and r may be absent. The inmost axis of each is
contiguous."""

Pair = tuple[Dim, Dim]


@dataclass(frozen=True)
class Lstm:
    """Sizes and strides (in elements) of one call. ``activations``: f, g, h of each direction."""

    sequence: Dim
    batch: Dim
    inputs: Dim
    hidden: Dim
    directions: int
    x_strides: Pair
    """Of sequence and batch."""
    y_strides: tuple[Dim, Dim, Dim]
    """Of sequence, direction and batch."""
    initial_h_strides: Pair
    """Of direction and batch, as the other states'."""
    initial_c_strides: Pair
    y_h_strides: Pair
    y_c_strides: Pair
    reverse: bool = False
    """One direction, backwards."""
    input_forget: bool = False
    clip: float = math.inf
    activations: tuple[Activation, ...] = (SIGMOID, TANH, TANH) * 2

    @property
    def args(self) -> tuple[Dim, ...]:
        return (
            *(self.sequence, self.batch, self.inputs, self.hidden),
            *(int(self.reverse), int(self.input_forget), double_bits(self.clip)),
            *(*self.x_strides, *self.y_strides, *self.initial_h_strides, *self.initial_c_strides),
            *(*self.y_h_strides, *self.y_c_strides),
            *(word for f in self.activations for word in f.words),
        )

    @property
    def grid(self) -> Dim:
        return rnn.grid(self.directions, self.batch)

    @property
    def scratch_bytes(self) -> Dim:
        return rnn.scratch_bytes(4, self.hidden)

    @property
    def work_ns(self) -> Dim:
        return rnn.work_ns(4, self.directions, self.sequence, self.batch, self.inputs, self.hidden)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far :data:`SYMBOL` reaches."""
    return (rnn.extent(SYMBOL, 4, ("reverse", "input_forget"), 3, ("h", "c")),)


def source(isa: Isa) -> str:
    """One C file with ``gw_lstm_f32``."""
    return "\n".join([prelude(isa), rnn.c_text(isa), _LSTM])


_LSTM: Final = """
typedef struct {
    int64_t sequence, batch, input, hidden, reverse, input_forget;
    double clip;
    int64_t x_time, x_row, y_time, y_direction, y_row;
    int64_t h0_direction, h0_row, c0_direction, c0_row, yh_direction, yh_row, yc_direction, yc_row;
    activation f[2][3];
} lstm;

/* One row's step: gates in the order i, o, f, c are input + recurrent + bias; h and c are updated in place.
 */
GW_INLINE void cell(const lstm *t, const activation *f, const float *input, const float *recurrent,
                 const float *bias, const float *peephole, float *h, float *c) {
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
        if (peephole) gate[1] = vf_fma(vf_load(peephole + n + j), cell, gate[1]);
        vf_store(c + j, cell);
        vf_store(h + j, activate(&f[0], clamp(gate[1], clip)) * activate(&f[2], cell));
    }
}

/* With the usual activations there is nothing to choose between in the loop. */
static void usual_cell(const lstm *t, const float *input, const float *recurrent, const float *bias,
                       const float *peephole, float *h, float *c) {
    static const activation usual[3] = {{SIGMOID, 0, 0}, {TANH, 0, 0}, {TANH, 0, 0}};
    cell(t, usual, input, recurrent, bias, peephole, h, c);
}
static void any_cell(const lstm *t, const activation *f, const float *input, const float *recurrent,
                     const float *bias, const float *peephole, float *h, float *c) {
    if (f[0].kind == SIGMOID && f[1].kind == TANH && f[2].kind == TANH)
        usual_cell(t, input, recurrent, bias, peephole, h, c);
    else
        cell(t, f, input, recurrent, bias, peephole, h, c);
}

static void run_unit(const lstm *t, void *const *buf, int64_t index, float *scratch) {
    unit u = unit_of(index, t->sequence, t->batch, t->reverse, buf[4]);
    int64_t n = t->hidden, panels = (4 * n + PANEL - 1) / PANEL, columns = panels * PANEL, pitch = n + PANEL;
    int64_t d = u.direction;
    const float *w = (const float *)buf[1] + d * panels * PANEL * t->input;
    const float *r = (const float *)buf[2] + d * panels * PANEL * n;
    const float *b = buf[3] ? (const float *)buf[3] + d * 8 * n : NULL;
    const float *h0 = buf[5] ? (const float *)buf[5] + d * t->h0_direction + u.row0 * t->h0_row : NULL;
    const float *c0 = buf[6] ? (const float *)buf[6] + d * t->c0_direction + u.row0 * t->c0_row : NULL;
    float *y = buf[8] ? (float *)buf[8] + d * t->y_direction + u.row0 * t->y_row : NULL;
    float *inputs = scratch, *recurrent = inputs + POINTS * columns, *h = recurrent + ROWS * columns;
    float *c = h + ROWS * pitch, *bias = c + ROWS * pitch, *peephole = bias + 4 * n + PANEL;
    memset(bias, 0, (size_t)(4 * n + PANEL) * sizeof *bias);
    for (int64_t j = 0; b && j < 4 * n; j++)
        bias[j] = b[j] + b[4 * n + j];
    if (buf[7])
        copy_row(peephole, (const float *)buf[7] + d * 3 * n, 3 * n);
    else
        peephole = NULL;
    const float *states[ROWS];
    for (int64_t i = 0; i < u.rows; i++) {
        states[i] = h + i * pitch;
        copy_row(h + i * pitch, h0 ? h0 + i * t->h0_row : NULL, n);
        copy_row(c + i * pitch, c0 ? c0 + i * t->c0_row : NULL, n);
    }
    for (int64_t step = 0; step < u.longest; step++) {
        if (step % u.steps == 0)
            project_inputs(&u, step, buf[0], t->x_time, t->x_row, t->input, w, panels, inputs);
        project(u.rows, n, states, r, 0, panels, step % 2, recurrent, columns);
        for (int64_t i = 0; i < u.rows; i++) {
            if (step >= u.length[i]) continue;
            any_cell(t, t->f[d], inputs + (step % u.steps * u.rows + i) * columns, recurrent + i * columns,
                     bias, peephole, h + i * pitch, c + i * pitch);
            if (y) copy_row(y + time_of(&u, i, step) * t->y_time + i * t->y_row, h + i * pitch, n);
        }
    }
    clear_ended(&u, y, t->y_time, t->y_row, n);
    for (int64_t i = 0; i < u.rows; i++) {
        if (buf[9])
            copy_row((float *)buf[9] + d * t->yh_direction + (u.row0 + i) * t->yh_row, h + i * pitch, n);
        if (buf[10])
            copy_row((float *)buf[10] + d * t->yc_direction + (u.row0 + i) * t->yc_row, c + i * pitch, n);
    }
}

/* buf: x, w, r, b, sequence_lens, initial_h, initial_c, p, y, y_h, y_c. arg: the fields of lstm. */
GW_EXPORT int32_t gw_lstm_f32(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                              void *scratch) {
    lstm t;
    memcpy(&t, arg, sizeof t);
    if (t.hidden == 0) return 0;
    for (int64_t index = begin; index < end; index++)
        run_unit(&t, buf, index, scratch);
    return 0;
}
"""
