"""LSTM and GRU: one launch for the whole sequence."""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphwright.ir.graph import Node, Value
from graphwright.ir.types import F32
from graphwright.kernels.candidates.registry import Context, candidate
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.library import gru, lstm
from graphwright.kernels.library.rnn import WEIGHTS_LAYOUT, Activation, ActivationKind
from graphwright.kernels.ref import KernelRef
from graphwright.ops.gru import GRU
from graphwright.ops.lstm import LSTM
from graphwright.ops.recurrent import ACTIVATIONS, Recurrent

_KINDS = {kind.name.replace("_", "").lower(): kind for kind in ActivationKind}


@candidate(LSTM)
def long_short_term_memory(node: Node, context: Context) -> Run | str:
    op = node.op
    assert isinstance(op, LSTM)
    refusal = _refusal(node, op, context)
    if refusal is not None:
        return refusal
    sequence, batch, inputs = node.operand(0).type.dims
    hidden, directions = op.hidden, op.directions
    state = (batch * hidden, hidden)
    made = lstm.Lstm(
        sequence, batch, inputs, hidden, directions,
        x_strides=(batch * inputs, inputs),
        y_strides=(batch * (directions * hidden), batch * hidden, hidden),
        initial_h_strides=state, initial_c_strides=state, y_h_strides=state, y_c_strides=state,
        reverse=op.direction == "reverse", input_forget=op.coupled,
        clip=_clip(op), activations=_activations(op),
    )  # fmt: skip
    operands = (*_inputs(node, context, 8), *node.outputs)
    costs = made.args, made.grid, made.scratch_bytes, made.work_ns
    return Run((Launch(KernelRef(lstm.SYMBOL), operands, (8, 9, 10), *costs),))


@candidate(GRU)
def gated_recurrent_unit(node: Node, context: Context) -> Run | str:
    op = node.op
    assert isinstance(op, GRU)
    refusal = _refusal(node, op, context)
    if refusal is not None:
        return refusal
    sequence, batch, inputs = node.operand(0).type.dims
    hidden, directions = op.hidden, op.directions
    state = (batch * hidden, hidden)
    made = gru.Gru(
        sequence, batch, inputs, hidden, directions,
        x_strides=(batch * inputs, inputs),
        y_strides=(batch * (directions * hidden), batch * hidden, hidden),
        initial_h_strides=state, y_h_strides=state,
        reverse=op.direction == "reverse", linear_before_reset=op.linear_before_reset,
        clip=_clip(op), activations=_activations(op),
    )  # fmt: skip
    operands = (*_inputs(node, context, 6), *node.outputs)
    costs = made.args, made.grid, made.scratch_bytes, made.work_ns
    return Run((Launch(KernelRef(gru.SYMBOL), operands, (6, 7), *costs),))


def _refusal(node: Node, op: Recurrent, context: Context) -> str | None:
    if node.operand(0).type.dtype != F32:
        return f"no recurrent kernel for {node.operand(0).type.dtype}"
    if op.batch_first:
        return "no recurrent kernel with the batch in front of the time"
    if any(context.constant(node.operand(p)) is None for p in (1, 2)):
        return "its weights are computed at run time"
    unknown = [name for name in op.activations if name.lower() not in _KINDS]
    return f"no kernel with activation {unknown[0]}" if unknown else None


def _inputs(node: Node, context: Context, count: int) -> tuple[Value | None, ...]:
    """The operands, weights packed, absent ones at the end filled in."""
    x, w, r, *rest = node.inputs
    assert w is not None and r is not None
    packed = (context.packed(w, WEIGHTS_LAYOUT), context.packed(r, WEIGHTS_LAYOUT))
    return (x, *packed, *rest, *[None] * (count - 3 - len(rest)))


def _clip(op: Recurrent) -> float:
    return op.clip if op.clip is not None and op.clip > 0 else math.inf


def _activations(op: Recurrent) -> tuple[Activation, ...]:
    """Of both directions, also where there is one."""
    alphas, betas = iter(op.alphas), iter(op.betas)
    names = op.activations or op.defaults * op.directions
    made = tuple(_activation(name.lower(), alphas, betas) for name in names)
    return made if op.directions == 2 else made * 2


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    defaults = ACTIVATIONS[name]
    alpha = 0.0 if defaults.alpha is None else next(alphas, defaults.alpha)
    beta = 0.0 if defaults.beta is None else next(betas, defaults.beta)
    return Activation(_KINDS[name], alpha, beta)
