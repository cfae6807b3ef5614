"""Axes whose size of 1 follows only from constraints of the model, or from the elements of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import graphwright as gw
from graphwright.errors import GraphwrightError

DEVICES = ("cpu", "reference")
FIVE = np.arange(1, 6, dtype=np.float32)
WEIGHTS = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] seven = {7}, float[5] five = {1, 2, 3, 4, 5}"


def model(body: str, inputs: str = "float[N] x") -> onnx.ModelProto:
    header = '<ir_version: 8, opset_import: ["": 17]>'
    return parser.parse_model(f"{header} g ({inputs}) => (float[M] y) <{WEIGHTS}> {{ {body} }}")


def counted(size: int) -> Any:
    return np.arange(1, size + 1, dtype=np.float32)


HEAD = "head = Slice (x, zero, one)"
CASES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "Add": (f"{HEAD} y = Add (five, head)", lambda x: FIVE + x[:1]),
    "Expand": (f"{HEAD} y = Expand (head, seven)", lambda x: np.repeat(x[:1], 7)),
    "Where": (
        f"{HEAD} more = Greater (five, head) y = Where (more, five, head)",
        lambda x: np.maximum(FIVE, x[:1]),
    ),
    "Max": (f"{HEAD} y = Max (five, head)", lambda x: np.maximum(FIVE, x[:1])),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_a_slice_of_one_element_is_broadcast(name: str, device: str) -> None:
    """Its size is min(1, N); the op that broadcasts it requires that this is 1."""
    body, wanted = CASES[name]
    compiled = gw.compile(model(body), options=gw.CompileOptions(device=device))
    for size in (1, 2, 5, 9):
        np.testing.assert_array_equal(compiled(counted(size))[0], wanted(counted(size)))
    with pytest.raises(GraphwrightError):
        compiled(counted(0))


@pytest.mark.parametrize("taken", [True, False])
def test_so_it_is_in_a_branch(taken: bool) -> None:
    branches = (
        f"then_branch = then () => (float[P] a) {{ {HEAD} a = Add (five, head) }}, "
        "else_branch = otherwise () => (float[Q] b) { b = Neg (x) }"
    )
    compiled = gw.compile(model(f"y = If (c) <{branches}>", "bool c, float[N] x"))
    for size in (1, 3, 5):
        x = counted(size)
        np.testing.assert_array_equal(compiled(np.array(taken), x)[0], FIVE + x[:1] if taken else -x)


def test_elements_decide_whether_an_axis_is_stretched() -> None:
    """The size of NonZero may be 5 or 1, and changes from run to run."""
    compiled = gw.compile(
        model(
            "places = NonZero (x) row = Squeeze (places, zero) "
            "indices = Cast <to: int = 1> (row) y = Add (five, indices)"
        )
    )
    feeds: Sequence[list[float]] = ([1, 1, 1, 1, 1], [0, 1], [1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 7], [0, 1])
    for feed in feeds:
        x = np.array(feed, np.float32)
        np.testing.assert_array_equal(compiled(x)[0], FIVE + np.flatnonzero(x))
    with pytest.raises(GraphwrightError, match="5 and 2 differ"):
        compiled(np.ones(2, np.float32))
