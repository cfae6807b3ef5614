"""The base class of LSTM, GRU and RNN: attributes, shapes, activations, and the loop over time steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from graphwright.ir.graph import Node
from graphwright.ir.interfaces.arithmetic import Arithmetic
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, family
from graphwright.ir.symbols import Dim, product
from graphwright.ir.types import I32, TensorType
from graphwright.ops.core.checks import FLOATS, need_dtype, same_dtype
from graphwright.ops.nn.spatial import accumulator
from graphwright.records import dataclass

Function = Callable[[Array], Array]
DIRECTIONS = ("forward", "reverse", "bidirectional")


@dataclass(frozen=True)
class Activation:
    """The function ``numpy(x, alpha, beta)``, and the defaults of its parameters; None for a parameter that
    it does not have.
    """

    numpy: Callable[[Array, float, float], Any]
    alpha: float | None = None
    beta: float | None = None


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(lambda x, a, b: np.maximum(x, 0)),
    "tanh": Activation(lambda x, a, b: np.tanh(x)),
    "sigmoid": Activation(lambda x, a, b: FUNCTIONS["sigmoid"].numpy(x)),
    "affine": Activation(lambda x, a, b: a * x + b, 1.0, 0.0),
    "leakyrelu": Activation(lambda x, a, b: np.where(x >= 0, x, a * x), 0.01),
    "thresholdedrelu": Activation(lambda x, a, b: np.where(x >= a, x, 0), 1.0),
    "scaledtanh": Activation(lambda x, a, b: a * np.tanh(b * x), 1.0, 1.0),
    "hardsigmoid": Activation(lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5),
    "elu": Activation(lambda x, a, b: np.where(x >= 0, x, a * np.expm1(x)), 1.0),
    "softsign": Activation(lambda x, a, b: x / (1 + np.abs(x))),
    "softplus": Activation(lambda x, a, b: np.logaddexp(x, 0)),
}
"""The activations by lower-case name; ONNX ignores case."""


@family
class Recurrent(Arithmetic, PaddingRule, Op):
    """Base class of recurrent layers, with the operands and results of ONNX's ops.

    Operands: x[time, batch, features], weights, recurrent weights, and optionally biases, sequence lengths,
    the initial hidden state, and for an LSTM the initial cell state and peepholes. Results: the hidden states
    of all steps [time, directions, batch, hidden], the last hidden state, and for an LSTM the last cell
    state. With ``batch_first``, the batch axis of x, states and results is the first one (ONNX: ``layout``
    1). ``alphas`` and ``betas`` are, in order, the parameters of the activations that have them.
    """

    hidden: int
    direction: str = "forward"
    activations: tuple[str, ...] = ()
    alphas: tuple[float, ...] = ()
    betas: tuple[float, ...] = ()
    clip: float | None = None
    batch_first: bool = False
    gates: ClassVar[int]
    defaults: ClassVar[tuple[str, ...]]
    outputs = 2
    optional_inputs = frozenset({3, 4, 5})

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    def operations(self, node: Node) -> Dim:
        steps, batch, _ = node.operand(0).type.dims
        weights = product(node.operand(1).type.dims) + product(node.operand(2).type.dims)
        return 2 * steps * batch * weights

    def verify(self) -> None:
        if self.direction not in DIRECTIONS:
            raise InferError(f"direction {self.direction!r} is not one of {', '.join(DIRECTIONS)}")
        wanted = len(self.defaults) * self.directions
        if len(self.activations) not in (0, wanted):
            raise InferError(f"{len(self.activations)} activations; there must be {wanted}")
        unknown = [name for name in self.activations if name.lower() not in ACTIVATIONS]
        if unknown:
            raise InferError(f"activation {unknown[0]!r} is not one of {', '.join(ACTIVATIONS)}")

    def infer(self, at: Inference, x: Fact, w: Fact, r: Fact, *rest: Fact | None) -> tuple[TensorType, ...]:
        need_dtype(at, x, FLOATS)
        bias, lengths, states, peepholes = self._optional(rest)
        same_dtype(at, x, w, r, *(f for f in (bias, *states, peepholes) if f is not None))
        if x.rank != 3:
            raise at.fail(f"the input is {x.type}; it must be [time, batch, features]")
        first, second, features = x.shape
        batch, time = (first, second) if self.batch_first else (second, first)
        count, rows = self.directions, self.gates * self.hidden
        state = (batch, count, self.hidden) if self.batch_first else (count, batch, self.hidden)
        for name, fact, shape in (
            ("weights", w, (count, rows, features)),
            ("recurrent weights", r, (count, rows, self.hidden)),
            ("biases", bias, (count, 2 * rows)),
            ("sequence lengths", lengths, (batch,)),
            *(("initial state", fact, state) for fact in states),
            ("peepholes", peepholes, (count, 3 * self.hidden)),
        ):
            _need_shape(at, name, fact, shape)
        if lengths is not None:
            need_dtype(at, lengths, {I32}, "the sequence lengths")
        every = (batch, time, count, self.hidden) if self.batch_first else (time, count, batch, self.hidden)
        last = TensorType(x.dtype, state)
        return (TensorType(x.dtype, every), *[last] * (self.outputs - 1))

    def _optional(self, rest: Sequence[Any]) -> tuple[Any, Any, Sequence[Any], Any]:
        """The biases, sequence lengths, initial states and peepholes; None if absent."""
        bias, lengths, hidden, cell, peepholes = (*rest, *[None] * 5)[:5]
        return bias, lengths, (hidden, cell)[: self.outputs - 1], peepholes

    def functions(self, direction: int) -> list[Function]:
        """The activations of one direction. ``clip`` applies to the input of the gates' activations, as in
        ONNX Runtime.
        """
        alphas, betas = iter(self.alphas), iter(self.betas)
        names = self.activations or self.defaults * self.directions
        count = len(self.defaults)
        functions = [
            self._function(ACTIVATIONS[name.lower()], alphas, betas, of_gate=k % count < 2)
            for k, name in enumerate(names)
        ]
        return functions[direction * count :][:count]

    def _function(
        self, activation: Activation, alphas: Iterator[float], betas: Iterator[float], of_gate: bool
    ) -> Function:
        alpha = 0.0 if activation.alpha is None else next(alphas, activation.alpha)
        beta = 0.0 if activation.beta is None else next(betas, activation.beta)
        limit = self.clip if of_gate and self.clip is not None and self.clip > 0 else np.inf
        return lambda x: np.asarray(activation.numpy(np.clip(x, -limit, limit), alpha, beta))

    def padding_leak(self, node: Node, padded: Padded) -> str:
        """The sequences of a batch are independent of each other."""
        x, batch = node.operand(0), 0 if self.batch_first else 1
        weights = any(padded.axes(value) for value in node.inputs[1:4])
        return "" if padded.axes(x) <= {batch} and not weights else "it runs along a padded axis"

    def reference(self, x: Array, w: Array, r: Array, *rest: Array | None) -> tuple[Array, ...]:
        bias, lengths, states, peepholes = self._optional(rest)
        wide = accumulator(x)
        data = np.asarray(x.swapaxes(0, 1) if self.batch_first else x).astype(wide)
        time, batch, _ = data.shape
        ends = np.full(batch, time) if lengths is None else np.asarray(lengths)
        parts = []
        for d in range(self.directions):
            start = [self._initial(s, d, batch, wide) for s in states]
            params = [w[d], r[d], np.zeros(2 * len(w[d])) if bias is None else bias[d]]
            weights = [np.asarray(p).astype(wide) for p in params]
            extra = None if peepholes is None else peepholes[d].astype(wide)
            backward = self.direction == "reverse" or d == 1
            step = self.stepper(self.functions(d), weights[1], weights[2], extra)
            parts.append(_run_steps(data @ weights[0].T, start, ends, backward, step))
        every = np.stack([p[0] for p in parts], 1)
        lasts = [np.stack([p[1][k] for p in parts]) for k in range(len(states))]
        if self.batch_first:
            every, lasts = every.transpose(2, 0, 1, 3), [last.swapaxes(0, 1) for last in lasts]
        return tuple(np.array(a, dtype=x.dtype, order="C") for a in (every, *lasts))

    def _initial(self, state: Array | None, direction: int, batch: int, wide: np.dtype[Any]) -> Array:
        if state is None:
            return np.zeros((batch, self.hidden), wide)
        return np.asarray(state[:, direction] if self.batch_first else state[direction]).astype(wide)

    def stepper(
        self, functions: Sequence[Function], r: Array, bias: Array, peepholes: Array | None
    ) -> CellStep:
        """The function ``step(x @ w.T, states) -> states`` of one direction; the first state is the hidden
        state.
        """
        raise NotImplementedError(self.name)


CellStep = Callable[[Array, list[Array]], list[Array]]


def _run_steps(
    projected: Array, states: list[Array], ends: Array, backward: bool, step: CellStep
) -> tuple[Array, list[Array]]:
    """The hidden states of all time steps, 0 after the end of a sequence, and the final states."""
    time = len(projected)
    every = np.zeros((time, *states[0].shape), states[0].dtype)
    for t in reversed(range(time)) if backward else range(time):
        inside = (t < ends)[:, None]
        states = [
            np.where(inside, new, old) for new, old in zip(step(projected[t], states), states, strict=True)
        ]
        every[t] = np.where(inside, states[0], 0)
    return every, states


def _need_shape(at: Inference, name: str, fact: Fact | None, shape: tuple[Dim, ...]) -> None:
    if fact is None:
        return
    if fact.rank != len(shape):
        raise at.fail(f"the {name} are {fact.type}; they must have {len(shape)} axes")
    for axis, (a, b) in enumerate(zip(fact.shape, shape, strict=True)):
        at.equal(a, b, f"axis {axis} of the {name}")


RECURRENT_ATTRIBUTES = {
    "hidden_size": "hidden",
    "direction": "direction",
    "activations": "activations",
    "activation_alpha": "alphas",
    "activation_beta": "betas",
    "clip": "clip",
    "layout": "batch_first",
}
"""The attributes of ONNX's recurrent ops, and the corresponding fields of :class:`Recurrent`."""


def import_recurrent(i: Importer, cls: Callable[..., Recurrent], inputs: int, **more: Any) -> Any:
    """Imports a node with up to ``inputs`` inputs as ``cls``; ``more`` are further fields of the op."""
    op = cls(
        i.attr("hidden_size") or _hidden_size(i),
        direction=i.attr("direction", "forward"),
        activations=tuple(i.attr("activations", ())),
        alphas=tuple(i.attr("activation_alpha", ())),
        betas=tuple(i.attr("activation_beta", ())),
        clip=i.attr("clip"),
        batch_first=bool(i.attr("layout", 0)),
        **more,
    )
    return i.emit(op, *(i.input(k) if k < 3 else i.optional(k) for k in range(inputs)))


def _hidden_size(i: Importer) -> int:
    """The hidden size from the shape of the recurrent weights."""
    shape = i.input(2).type.shape
    if shape is None or len(shape) != 3 or not isinstance(shape[2], int):
        raise i.fail(
            "the attribute hidden_size is missing, and the shape of the recurrent weights is not static",
            hint="set hidden_size, or make the recurrent weights constant",
        )
    return shape[2]
