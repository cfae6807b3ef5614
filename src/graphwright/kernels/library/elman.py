"""RNN over a whole sequence, as ONNX defines it, in one launch: ``h = f(x W' + h R' + b)``.

Elman, "Finding structure in time", 1990.
"""

from __future__ import annotations

import math
from typing import Final

from graphwright.ir.symbols import Dim
from graphwright.kernels.library import rnn
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.library.extent import Extent
from graphwright.kernels.library.rnn import TANH, Activation
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa, prelude

SYMBOL: Final = "gw_rnn_f32"
OPERANDS: Final = ("x", "w", "r", "b", "sequence_lens", "initial_h", "y", "y_h")
"""x [sequence, batch, input]; w and r packed as ``rnn.WEIGHTS_LAYOUT``; b [directions, 2 * hidden], dense;
sequence_lens int32, dense; y [sequence, directions, batch, hidden]; the states [directions, batch, hidden].
All but x, w and r may be absent. The inmost axis of each is contiguous."""


@dataclass(frozen=True)
class Rnn:
    """Sizes and strides (in elements) of one call. ``activations``: one for each direction."""

    sequence: Dim
    batch: Dim
    inputs: Dim
    hidden: Dim
    directions: int
    x_strides: tuple[Dim, Dim]
    """Of sequence and batch."""
    y_strides: tuple[Dim, Dim, Dim]
    """Of sequence, direction and batch."""
    initial_h_strides: tuple[Dim, Dim]
    """Of direction and batch."""
    y_h_strides: tuple[Dim, Dim]
    reverse: bool = False
    """One direction, backwards."""
    clip: float = math.inf
    activations: tuple[Activation, Activation] = (TANH, TANH)

    @property
    def args(self) -> tuple[Dim, ...]:
        return (
            *(self.sequence, self.batch, self.inputs, self.hidden),
            *(int(self.reverse), double_bits(self.clip)),
            *(*self.x_strides, *self.y_strides, *self.initial_h_strides, *self.y_h_strides),
            *(word for f in self.activations for word in f.words),
        )

    @property
    def grid(self) -> Dim:
        return rnn.grid(self.directions, self.batch)

    @property
    def scratch_bytes(self) -> Dim:
        return rnn.scratch_bytes(1, self.hidden)

    @property
    def work_ns(self) -> Dim:
        return rnn.work_ns(1, self.directions, self.sequence, self.batch, self.inputs, self.hidden)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far :data:`SYMBOL` reaches."""
    return (rnn.extent(SYMBOL, 1, ("reverse",), 1, ("h",)),)


def source(isa: Isa) -> str:
    """One C file with ``gw_rnn_f32``."""
    return "\n".join([prelude(isa), rnn.c_text(isa), _RNN])


_RNN: Final = """
typedef struct {
    int64_t sequence, batch, input, hidden, reverse;
    double clip;
    int64_t x_time, x_row, y_time, y_direction, y_row;
    int64_t h0_direction, h0_row, yh_direction, yh_row;
    activation f[2];
} plain_rnn;

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

static void run_unit(const plain_rnn *t, void *const *buf, int64_t index, float *scratch) {
    unit u = unit_of(index, t->sequence, t->batch, t->reverse, buf[4]);
    int64_t n = t->hidden, panels = (n + PANEL - 1) / PANEL, columns = panels * PANEL, pitch = n + PANEL;
    int64_t d = u.direction;
    const float *w = (const float *)buf[1] + d * panels * PANEL * t->input;
    const float *r = (const float *)buf[2] + d * panels * PANEL * n;
    const float *b = buf[3] ? (const float *)buf[3] + d * 2 * n : NULL;
    const float *h0 = buf[5] ? (const float *)buf[5] + d * t->h0_direction + u.row0 * t->h0_row : NULL;
    float *y = buf[6] ? (float *)buf[6] + d * t->y_direction + u.row0 * t->y_row : NULL;
    float *inputs = scratch, *recurrent = inputs + POINTS * columns, *h = recurrent + ROWS * columns;
    float *bias = h + ROWS * pitch;
    memset(bias, 0, (size_t)(n + PANEL) * sizeof *bias);
    for (int64_t j = 0; b && j < n; j++)
        bias[j] = b[j] + b[n + j];
    const float *states[ROWS];
    for (int64_t i = 0; i < u.rows; i++) {
        states[i] = h + i * pitch;
        copy_row(h + i * pitch, h0 ? h0 + i * t->h0_row : NULL, n);
    }
    for (int64_t step = 0; step < u.longest; step++) {
        if (step % u.steps == 0)
            project_inputs(&u, step, buf[0], t->x_time, t->x_row, t->input, w, panels, inputs);
        project(u.rows, n, states, r, 0, panels, step % 2, recurrent, columns);
        for (int64_t i = 0; i < u.rows; i++) {
            if (step >= u.length[i]) continue;
            any_cell(n, (float)t->clip, &t->f[d], inputs + (step % u.steps * u.rows + i) * columns,
                     recurrent + i * columns, bias, h + i * pitch);
            if (y) copy_row(y + time_of(&u, i, step) * t->y_time + i * t->y_row, h + i * pitch, n);
        }
    }
    clear_ended(&u, y, t->y_time, t->y_row, n);
    for (int64_t i = 0; buf[7] && i < u.rows; i++)
        copy_row((float *)buf[7] + d * t->yh_direction + (u.row0 + i) * t->yh_row, h + i * pitch, n);
}

/* buf: x, w, r, b, sequence_lens, initial_h, y, y_h. arg: the fields of plain_rnn. */
GW_EXPORT int32_t gw_rnn_f32(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                             void *scratch) {
    plain_rnn t;
    memcpy(&t, arg, sizeof t);
    if (t.hidden == 0) return 0;
    for (int64_t index = begin; index < end; index++)
        run_unit(&t, buf, index, scratch);
    return 0;
}
"""
