"""A branch is taken by one bool: conditions of more or fewer elements are refused, never read."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import graphwright as gw
from tests.robustness.cases import BOOL, info, model, node

DEVICES = ("cpu", "reference")


def branching(shape: list[Any] | None, other: onnx.NodeProto | None = None) -> bytes:
    """``-x`` where the condition ``c`` holds, else what ``other`` gives: ``|x|``."""
    branches = [
        helper.make_graph([made], made.name, [], [info(made.output[0], None)])
        for made in (node("Neg", "x", "then"), other or node("Abs", "x", "other"))
    ]
    either = node("If", "c", "y", then_branch=branches[0], else_branch=branches[1])
    return model([either], [], [info("x", [2]), info("c", shape, BOOL)])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [[], [1], ["n"], ["n", 1, "m"], None], ids=str)
def test_one_element_of_any_rank_decides(device: str, shape: list[Any] | None) -> None:
    compiled = gw.compile(branching(shape), options=gw.CompileOptions(device=device))
    x = np.array([1, -2], np.float32)
    for holds, expected in ((True, [-1, 2]), (False, [1, 2])):
        condition = np.full([1] * len(shape or [1]) if shape != [] else [], holds)
        np.testing.assert_array_equal(compiled.run({"x": x, "c": condition})["y"], expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [0, 2, 3])
def test_conditions_of_several_elements_are_rejected(device: str, size: int) -> None:
    feeds = {"x": np.ones(2, np.float32), "c": np.ones(size, np.bool_)}
    for shape in (["n"], None):
        compiled = gw.compile(branching(shape), options=gw.CompileOptions(device=device))
        with pytest.raises(gw.GraphwrightError, match=r"axis 0.*(must be 1, but is|cannot be)|y"):
            compiled.run(feeds)


def test_a_static_condition_of_several_elements_is_rejected() -> None:
    with pytest.raises(gw.ModelError, match=r"y.*elements of the condition: 3 and 1 differ"):
        gw.compile(branching([3]))


@pytest.mark.parametrize("size", [0, 3])
def test_the_host_rejects_conditions_of_several_elements(size: int) -> None:
    compiled = gw.compile(branching(None, node("Concat", "x x", "other", axis=0)))
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(compiled.run({"x": x, "c": np.array([[True]])})["y"], -x)
    assert compiled.run({"x": x, "c": np.array(False)})["y"].shape == (4,)
    with pytest.raises(gw.GraphwrightError, match=rf"y: .*is bool\[{size}\]; it must have one element"):
        compiled.run({"x": x, "c": np.ones(size, np.bool_)})
