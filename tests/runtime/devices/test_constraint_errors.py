"""Feeds that do not fit a model: the error says which size is wrong, and which would be right."""

from __future__ import annotations

import numpy as np
import pytest

import graphwright as gw
from graphwright.errors import FeedError
from graphwright.executable.specs import TensorSpec
from graphwright.ir.dtypes import dtype_named
from graphwright.runtime.devices.constraint_errors import constraint_errors

SPEC = TensorSpec("x", dtype_named("f32"), ("N", 3, "2*H"))


@pytest.mark.parametrize(
    "constraint, expected",
    [
        ("5 <= H (node conv)", "H is 4 (axis 2 of 'x'): H must be at least 5"),
        ("floordiv(H, 2) <= 1 (node crop)", "H is 4 (axis 2 of 'x'): H must be at most 3"),
        ("floordiv(H, 5)*5 == H (node fold)", "H is 4 (axis 2 of 'x'): H = 5 fits"),
        (
            "16*N*H == 112*N (node heads)",
            "H is 4 (axis 2 of 'x') and N is 2 (axis 0 of 'x'): H = 7 fits",
        ),
        (
            "N == H (node add)",
            "H is 4 (axis 2 of 'x') and N is 2 (axis 0 of 'x'): H = 2 fits or N = 4 fits",
        ),
        ("N*H == 2*N*H + 1 (node odd)", "H is 4 (axis 2 of 'x') and N is 2 (axis 0 of 'x')"),
    ],
)
def test_errors_explain_a_constraint_in_words(constraint: str, expected: str) -> None:
    (found,) = constraint_errors([constraint], [SPEC], [(2, 3, 8)])
    assert (found.code, found.where) == ("constraint", constraint.partition("(node ")[2].rstrip(")"))
    assert found.message == f"these inputs do not fit the model: {expected}"
    assert found.hint.startswith("the node needs ")


def test_each_violated_constraint_is_listed_once() -> None:
    notes = ["9 <= H (node a)", "N <= 2 (node b)", "N <= 1 (node c)", "9 <= H (node d)"]
    assert [each.where for each in constraint_errors(notes, [SPEC], [(2, 3, 8)])] == ["a", "c"]


def test_bounds_far_from_zero_are_found_only_nearby() -> None:
    wide = TensorSpec("x", dtype_named("f32"), ("N",))
    (near,) = constraint_errors(["N <= 1048576 (node a)"], [wide], [(1_050_000,)])
    assert near.message.endswith("N must be at most 1048576")
    (far,) = constraint_errors(["N <= 1048576 (node a)"], [wide], [(3_000_000,)])
    assert far.message.endswith("N is 3000000 (axis 0 of 'x')")


def test_sizes_of_a_run_that_do_not_fit() -> None:
    builder = gw.GraphBuilder()
    a, b = builder.input("a", "f32", ("N", "K")), builder.input("b", "f32", ("L", 5))
    builder.output("y", builder.matmul(a, b))
    model = builder.compile()
    assert model(np.ones((2, 3), np.float32), np.ones((3, 5), np.float32))[0].tolist() == [[3.0] * 5] * 2
    with pytest.raises(FeedError, match=r"K is 3 \(axis 1 of 'a'\) and L is 4 \(axis 0 of 'b'\)"):
        model(np.ones((2, 3), np.float32), np.ones((4, 5), np.float32))
