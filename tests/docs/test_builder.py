"""The page about models built by hand: its code runs, its fault is the fault, its list is complete."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from docs.op_table import PAGE, filled

CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_list_of_ops_is_complete() -> None:
    text = PAGE.read_text()
    assert filled(text) == text, "python -m docs.op_table"
    assert "| `clip` | x, [low], [high] | low=`None`, high=`None` |" in text


def test_the_pages_code_runs() -> None:
    names: dict[str, Any] = {}
    for snippet in CODE.findall(PAGE.read_text()):
        exec(compile(snippet, str(PAGE), "exec"), names)
    np.testing.assert_allclose(names["y"], np.full((3, 32), 1 / 32), rtol=1e-6)
    x = np.float32([1, -2])
    for flag in (True, False):
        np.testing.assert_array_equal(names["branched"](x, flag)[0], np.maximum(x, 0) if flag else -x)
    total, maxima = names["looped"](np.float32([3, 1]), np.int64(9))
    np.testing.assert_array_equal(total, [12, 4])
    np.testing.assert_array_equal(maxima, [3, 6, 9, 12])


def test_the_page_shows_the_real_error() -> None:
    b = gw.GraphBuilder()
    with pytest.raises(gw.ModelError) as caught:
        b.matmul(b.input("x", "f32", ("N", 64)), np.ones((32, 8), np.float32))
    assert str(caught.value).partition(": ")[2] in PAGE.read_text()
