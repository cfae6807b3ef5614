"""GRU over a whole sequence, as ONNX defines it (layout 0), in one launch.

Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014; ``linear_before_reset`` is the
form of cuDNN.
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

SYMBOL: Final = "gw_gru_f32"
OPERANDS: Final = ("x", "w", "r", "b", "sequence_lens", "initial_h", "y", "y_h")
"""x [sequence, batch, input]; w and r packed as ``rnn.WEIGHTS_LAYOUT``; b [directions, 6 * hidden], dense;
sequence_lens int32, dense; y [sequence, directions, batch, hidden]; the states [directions, batch,
hidden]. All but x, w and r may be absent. The inmost axis of each is contiguous."""

Pair = tuple[Dim, Dim]


@dataclass(frozen=True)
class Gru:
    """Sizes and strides (in elements) of one call. ``activations``: f, g of each direction."""

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
    """Of direction and batch."""
    y_h_strides: Pair
    reverse: bool = False
    """One direction, backwards."""
    linear_before_reset: bool = False
    clip: float = math.inf
    activations: tuple[Activation, ...] = (SIGMOID, TANH) * 2

    @property
    def args(self) -> tuple[Dim, ...]:
        return (
            *(self.sequence, self.batch, self.inputs, self.hidden),
            *(int(self.reverse), int(self.linear_before_reset), double_bits(self.clip)),
            *(*self.x_strides, *self.y_strides, *self.initial_h_strides, *self.y_h_strides),
            *(word for f in self.activations for word in f.words),
        )

    @property
    def grid(self) -> Dim:
        return rnn.grid(self.directions, self.batch)

    @property
    def scratch_bytes(self) -> Dim:
        return rnn.scratch_bytes(3, self.hidden)

    @property
    def work_ns(self) -> Dim:
        return rnn.work_ns(3, self.directions, self.sequence, self.batch, self.inputs, self.hidden)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far :data:`SYMBOL` reaches."""
    return (rnn.extent(SYMBOL, 3, ("reverse", "linear_before_reset"), 2, ("h",)),)


def source(isa: Isa) -> str:
    """One C file with ``gw_gru_f32``."""
    return "\n".join([prelude(isa), rnn.c_text(isa), _GRU])


_GRU: Final = """
typedef struct {
    int64_t sequence, batch, input, hidden, reverse, linear_before_reset;
    double clip;
    int64_t x_time, x_row, y_time, y_direction, y_row, h0_direction, h0_row, yh_direction, yh_row;
    activation f[2][2];
} gru;

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

static vf gate(const gru *t, const activation *f, const gru_row *row, int64_t at) {
    return activate(f, clamp(input_part(row, at) + recurrent_part(row, row->recurrent, at), (float)t->clip));
}

/* reset = r * h, what the candidate's product takes unless linear_before_reset. */
static void reset_state(const gru *t, const activation *f, const gru_row *row) {
    for (int64_t j = 0; j < t->hidden; j += VL)
        vf_store(row->reset + j, gate(t, &f[0], row, t->hidden + j) * vf_load(row->h + j));
}

static void update_state(const gru *t, const activation *f, const gru_row *row) {
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

static void run_unit(const gru *t, void *const *buf, int64_t index, float *scratch) {
    unit u = unit_of(index, t->sequence, t->batch, t->reverse, buf[4]);
    int64_t n = t->hidden, panels = (3 * n + PANEL - 1) / PANEL, columns = panels * PANEL, pitch = n + PANEL;
    int64_t d = u.direction;
    const float *w = (const float *)buf[1] + d * panels * PANEL * t->input;
    const float *r = (const float *)buf[2] + d * panels * PANEL * n;
    const float *b = buf[3] ? (const float *)buf[3] + d * 6 * n : NULL;
    const float *h0 = buf[5] ? (const float *)buf[5] + d * t->h0_direction + u.row0 * t->h0_row : NULL;
    float *y = buf[6] ? (float *)buf[6] + d * t->y_direction + u.row0 * t->y_row : NULL;
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
        copy_row(h + i * pitch, h0 ? h0 + i * t->h0_row : NULL, n);
    }
    /* The candidate's columns may share a panel with the gates': it is computed twice then, into another
       place. */
    int64_t gate_panels = t->linear_before_reset ? panels : (2 * n + PANEL - 1) / PANEL;
    for (int64_t step = 0; step < u.longest; step++) {
        if (step % u.steps == 0)
            project_inputs(&u, step, buf[0], t->x_time, t->x_row, t->input, w, panels, inputs);
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
            if (step >= u.length[i]) continue;
            update_state(t, t->f[d], &rows[i]);
            if (y) copy_row(y + time_of(&u, i, step) * t->y_time + i * t->y_row, h + i * pitch, n);
        }
    }
    clear_ended(&u, y, t->y_time, t->y_row, n);
    for (int64_t i = 0; i < u.rows && buf[7]; i++)
        copy_row((float *)buf[7] + d * t->yh_direction + (u.row0 + i) * t->yh_row, h + i * pitch, n);
}

/* buf: x, w, r, b, sequence_lens, initial_h, y, y_h. arg: the fields of gru. */
GW_EXPORT int32_t gw_gru_f32(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                             void *scratch) {
    gru t;
    memcpy(&t, arg, sizeof t);
    if (t.hidden == 0) return 0;
    for (int64_t index = begin; index < end; index++)
        run_unit(&t, buf, index, scratch);
    return 0;
}
"""
