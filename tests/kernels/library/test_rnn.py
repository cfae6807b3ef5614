"""LSTM, GRU and RNN against the equations in NumPy (float64) and against onnxruntime."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from graphwright.kernels.recurrent import elman, gru, lstm, rnn
from graphwright.kernels.recurrent.rnn import Activation, ActivationKind
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, element_strides, guard
from tests.kernels.library.harness import call, load
from tests.kernels.library.packing import gemm_panels

F32 = npt.NDArray[np.float32]
GATES: dict[ModuleType, int] = {lstm: 4, gru: 3, elman: 1}
NAMES = {lstm: "LSTM", gru: "GRU", elman: "RNN"}
each_layer = pytest.mark.parametrize("module", list(GATES), ids=NAMES.get)


def sigmoid(x: AnyArray) -> AnyArray:
    return np.exp(-np.logaddexp(0, -x))


def apply(f: Activation, x: AnyArray) -> AnyArray:
    a, b = f.alpha, f.beta
    return {
        ActivationKind.SIGMOID: sigmoid,
        ActivationKind.TANH: np.tanh,
        ActivationKind.RELU: lambda x: np.maximum(x, 0),
        ActivationKind.HARD_SIGMOID: lambda x: np.clip(a * x + b, 0, 1),
        ActivationKind.AFFINE: lambda x: a * x + b,
        ActivationKind.LEAKY_RELU: lambda x: np.where(x < 0, a * x, x),
        ActivationKind.THRESHOLDED_RELU: lambda x: np.where(x > a, x, 0),
        ActivationKind.SCALED_TANH: lambda x: a * np.tanh(b * x),
        ActivationKind.ELU: lambda x: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x),
        ActivationKind.SOFTSIGN: lambda x: x / (1 + np.abs(x)),
    }[f.kind](x)


class Problem:
    """Random operands of one call; ``optional`` names those that are present."""

    def __init__(
        self,
        module: ModuleType,
        sizes: tuple[int, int, int, int],
        directions: int,
        optional: set[str],
        scale: float = 0.5,
    ) -> None:
        self.module, self.optional = module, optional
        self.sequence, self.batch, self.inputs, self.hidden = sizes
        self.directions, gates = directions, GATES[module]
        rng = np.random.default_rng(sum(sizes) + 7 * directions)

        def draw(*shape: int) -> F32:
            return (scale * rng.standard_normal(shape)).astype(np.float32)

        h, d = self.hidden, directions
        self.x = draw(self.sequence, self.batch, self.inputs)
        self.w, self.r = draw(d, gates * h, self.inputs), draw(d, gates * h, h)
        self.b = draw(d, 2 * gates * h)
        self.p = draw(d, 3 * h)
        self.initial_h, self.initial_c = draw(d, self.batch, h), draw(d, self.batch, h)
        self.sequence_lens = rng.integers(0, self.sequence + 1, self.batch).astype(np.int32)

    def given(self, name: str) -> AnyArray | None:
        value: AnyArray = getattr(self, name)
        return value if name in self.optional else None

    def or_zeros(self, name: str) -> AnyArray:
        value: AnyArray = getattr(self, name)
        return value.astype(np.float64) if name in self.optional else np.zeros(value.shape)

    def run(self, isa: Isa, options: dict[str, Any]) -> dict[str, AnyArray]:
        """Outputs under every chunking, which must not differ in a bit."""
        state = (self.directions, self.batch, self.hidden)
        y = guard(np.empty((self.sequence, *state), np.float32))
        outputs = [y, guard(np.empty(state, np.float32)), guard(np.empty(state, np.float32))]
        h_strides = (self.batch * self.hidden, self.hidden)
        sizes = (self.sequence, self.batch, self.inputs, self.hidden, self.directions)
        strides = (element_strides(self.x)[:2], element_strides(y)[:3])
        packed = [guard(gemm_panels(m.swapaxes(1, 2), rnn.PANEL)) for m in (self.w, self.r)]
        names = ["b", "sequence_lens", "initial_h", *(["initial_c", "p"] if self.module is lstm else [])]
        values = [self.given(name) for name in names]
        inputs = [guard(self.x), *packed, *(None if v is None else guard(v) for v in values)]
        if self.module is lstm:
            spec: Any = lstm.Lstm(*sizes, *strides, *(h_strides,) * 4, **options)
        else:
            made = gru.Gru if self.module is gru else elman.Rnn
            spec = made(*sizes, *strides, *(h_strides,) * 2, **options)
            outputs.pop()
        kernel = getattr(load(self.module, isa), self.module.SYMBOL)
        results = []
        for chunks in chunkings(spec.grid):
            for output in outputs:
                output[...] = 99
            assert (
                call(kernel, inputs + outputs, spec.args, spec.grid, spec.scratch_bytes(isa), chunks=chunks)
                == 0
            )
            results.append([o.copy() for o in outputs])
        for result in results[1:]:
            for a, b in zip(result, results[0], strict=True):
                np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))
        return dict(zip(("y", "y_h", "y_c"), results[0], strict=False))

    def expected(self, options: dict[str, Any]) -> dict[str, AnyArray]:
        h, c = self.or_zeros("initial_h").copy(), self.or_zeros("initial_c").copy()
        y = np.zeros((self.sequence, self.directions, self.batch, self.hidden))
        lengths = (
            self.sequence_lens if "sequence_lens" in self.optional else np.full(self.batch, self.sequence)
        )
        step = {lstm: self.lstm_step, gru: self.gru_step, elman: self.elman_step}[self.module]
        for d in range(self.directions):
            for row, length in enumerate(lengths):
                times = range(length)
                for t in reversed(times) if options.get("reverse") or d == 1 else times:
                    h[d, row], c[d, row] = step(
                        d, self.x[t, row].astype(np.float64), h[d, row], c[d, row], options
                    )
                    y[t, d, row] = h[d, row]
        return {"y": y, "y_h": h, "y_c": c}

    def lstm_step(
        self, d: int, x: AnyArray, h: AnyArray, c: AnyArray, options: dict[str, Any]
    ) -> tuple[AnyArray, AnyArray]:
        f, g, out = options.get("activations", (rnn.SIGMOID, rnn.TANH, rnn.TANH) * 2)[3 * d : 3 * d + 3]
        bound = options.get("clip", math.inf)
        wb, rb = np.split(self.or_zeros("b")[d], 2)
        i, o, forget, cell = np.split(self.w[d] @ x + self.r[d] @ h + wb + rb, 4)
        pi, po, pf = np.split(self.or_zeros("p")[d], 3)
        i = apply(f, np.clip(i + pi * c, -bound, bound))
        forget = 1 - i if options.get("input_forget") else apply(f, np.clip(forget + pf * c, -bound, bound))
        c = forget * c + i * apply(g, np.clip(cell, -bound, bound))
        return apply(f, np.clip(o + po * c, -bound, bound)) * apply(out, c), c

    def elman_step(
        self, d: int, x: AnyArray, h: AnyArray, c: AnyArray, options: dict[str, Any]
    ) -> tuple[AnyArray, AnyArray]:
        f, bound = options.get("activations", (rnn.TANH,) * 2)[d], options.get("clip", math.inf)
        wb, rb = np.split(self.or_zeros("b")[d], 2)
        return apply(f, np.clip(self.w[d] @ x + self.r[d] @ h + wb + rb, -bound, bound)), c

    def gru_step(
        self, d: int, x: AnyArray, h: AnyArray, c: AnyArray, options: dict[str, Any]
    ) -> tuple[AnyArray, AnyArray]:
        f, g = options.get("activations", (rnn.SIGMOID, rnn.TANH) * 2)[2 * d : 2 * d + 2]
        bound = options.get("clip", math.inf)
        wz, wr, wh = np.split(self.w[d] @ x + self.or_zeros("b")[d, : 3 * self.hidden], 3)
        rz, rr, rh = np.split(self.r[d], 3)
        bz, br, bh = np.split(self.or_zeros("b")[d, 3 * self.hidden :], 3)
        z = apply(f, np.clip(wz + rz @ h + bz, -bound, bound))
        r = apply(f, np.clip(wr + rr @ h + br, -bound, bound))
        recurrent = r * (rh @ h + bh) if options.get("linear_before_reset") else rh @ (r * h) + bh
        candidate = apply(g, np.clip(wh + recurrent, -bound, bound))
        return (1 - z) * candidate + z * h, c


SIZES = st.tuples(
    st.sampled_from([0, 1, 2, 5, 9]),
    st.sampled_from([1, 2, 7]),
    st.sampled_from([1, 3, 16, 65]),
    st.sampled_from([1, 5, 16, 37, 64]),
)
OPTIONAL = st.sets(st.sampled_from(["b", "sequence_lens", "initial_h", "initial_c", "p"]))


@each_isa
@given(
    sizes=SIZES,
    directions=st.sampled_from([1, 2]),
    optional=OPTIONAL,
    flag=st.booleans(),
    reverse=st.booleans(),
)
@settings(deadline=None, max_examples=40)
@each_layer
def test_sequence_follows_the_equations(
    isa: Isa, module: ModuleType, sizes: Any, directions: int, optional: set[str], flag: bool, reverse: bool
) -> None:
    flags = {lstm: {"input_forget": flag}, gru: {"linear_before_reset": flag}}
    options = flags.get(module, {}) | {"reverse": reverse and directions == 1}
    scale = 0.1 if module is elman else 0.5  # without gates, large weights make errors grow step by step
    problem = Problem(module, sizes, directions, optional, scale)
    expected = problem.expected(options)
    for key, result in problem.run(isa, options).items():
        np.testing.assert_allclose(result, expected[key], rtol=2e-5, atol=5e-6)


@each_isa
@pytest.mark.parametrize("kind", ActivationKind)
@each_layer
def test_every_activation_and_clip(isa: Isa, module: ModuleType, kind: ActivationKind) -> None:
    count = {lstm: 3, gru: 2, elman: 1}[module]
    changed = (Activation(kind, 0.3, 0.7), rnn.TANH, rnn.TANH)[:count]
    for activations in (changed + changed[::-1], changed[::-1] + changed):
        options = {"activations": activations, "clip": 1.5}
        problem = Problem(module, (4, 2, 8, 9), 2, {"b", "initial_h"}, 0.4)
        expected = problem.expected(options)
        for key, result in problem.run(isa, options).items():
            np.testing.assert_allclose(result, expected[key], rtol=3e-5, atol=1e-5)


@each_isa
@each_layer
def test_onnxruntime_agrees(isa: Isa, module: ModuleType) -> None:
    problem = Problem(module, (6, 3, 20, 24), 2, {"b", "sequence_lens", "initial_h", "initial_c"})
    problem.sequence_lens = np.array([6, 1, 4], np.int32)
    names = ["x", "w", "r", "b", "sequence_lens", "initial_h", *(["initial_c"] if module is lstm else [])]
    feeds = {name: getattr(problem, name) for name in names}
    outputs = ["y", "y_h", *(["y_c"] if module is lstm else [])]
    node = helper.make_node(NAMES[module], names, outputs, hidden_size=24, direction="bidirectional")
    graph = helper.make_graph(
        [node],
        "sequence",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in feeds.items()
        ],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = dict(zip(outputs, session.run(None, feeds), strict=True))
    for key, result in problem.run(isa, {}).items():
        np.testing.assert_allclose(result, expected[key], rtol=2e-5, atol=5e-6)


@each_isa
@pytest.mark.parametrize(
    ("kind", "exact"), [(rnn.SIGMOID, sigmoid), (rnn.TANH, np.tanh)], ids=["sigmoid", "tanh"]
)
def test_activations_are_accurate_to_three_ulp_and_keep_nan(isa: Isa, kind: Activation, exact: Any) -> None:
    special = [0, -0.0, 1e-30, -1e-30, 88, -88, 103, -103, np.inf, -np.inf, np.nan, 0.625, -0.625]
    values = np.array([*special, *np.linspace(-20, 20, 2001)], np.float32)
    pieces = []
    for piece in np.array_split(values, 32):
        problem = Problem(gru, (1, 1, 1, len(piece)), 1, {"b"}, scale=0.0)
        problem.b[0, : len(piece)] = -np.inf  # z = 0: h becomes the candidate
        problem.b[0, 2 * len(piece) : 3 * len(piece)] = piece
        pieces.append(problem.run(isa, {"activations": (rnn.SIGMOID, kind) * 2})["y"].ravel())
    result = np.concatenate(pieces)
    fine = ~np.isnan(values)
    expected = exact(values[fine].astype(np.float64))
    np.testing.assert_array_equal(np.isnan(result), ~fine)
    spacing = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    assert (np.abs(result[fine] - expected) / spacing).max() <= 3
