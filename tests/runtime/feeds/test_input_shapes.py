"""Completion of the shapes of inputs, and the example of its errors."""

from __future__ import annotations

import re
import shlex

import pytest

from graphwright.errors import FeedError
from graphwright.executable.specs import TensorSpec
from graphwright.ir.dtypes import DTYPES
from graphwright.runtime.feeds.input_shapes import input_shapes

F32 = DTYPES["f32"]


@pytest.mark.parametrize(
    "constraints, example",
    [
        ((), "1,3,1,1"),
        (("7 <= floordiv(H + 1, 2)", "5 <= W"), "1,3,16,8"),
        (("mod(H, 32) == 0", "1 <= H", "H == W"), "1,3,32,32"),
        (("H <= 4", "5 <= H"), "1,3,1,1"),  # nothing fits
        (("5 <= unknown",), "1,3,1,1"),
    ],
)
def test_the_example_satisfies_the_constraints(constraints: tuple[str, ...], example: str) -> None:
    spec = TensorSpec("x", F32, ("N", 3, "H", "W"))
    with pytest.raises(FeedError, match=re.escape(f"--shape x:{example}, in Python")):
        input_shapes([spec], {}, constraints)


def test_the_example_keeps_sizes_that_are_known() -> None:
    specs = [TensorSpec("x", F32, ("N", "H")), TensorSpec("y", F32, ("H", "2*W"))]
    with pytest.raises(FeedError, match=r"--shape y:6,8, in Python"):
        input_shapes(specs, {"x": (2, 6)}, ("H <= 2*W",))


@pytest.mark.parametrize("name", ["input ids", "a'b", "$x", "x;y"])
def test_the_example_is_one_argument_of_a_shell(name: str) -> None:
    with pytest.raises(FeedError) as caught:
        input_shapes([TensorSpec(name, F32, ("N", 3))], {}, ())
    flag, _, _ = (
        caught.value.diagnostics[0].hint.removeprefix("pass them, for example ").partition(", in Python")
    )
    assert shlex.split(flag) == ["--shape", f"{name}:1,3"]
