"""Tokenizer, compared with ONNX Runtime, and regular expressions, compared with Python's."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnxruntime
import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.ops.text.patterns import compiled
from graphwright.ops.text.tokenizer import Tokenizer

TEXTS = np.array(
    [["the cat, sat"], ["a-b  c;d"], [""], ["one1 two22 é é"], ["  lead and trail  "], ["aaa;;a"]], object
)


@pytest.mark.parametrize(
    "attributes",
    [
        {"tokenexp": "[a-zA-Z0-9_]+", "mark": 0, "mincharnum": 1},
        {"tokenexp": "[a-z]+|[0-9]", "mark": 1, "mincharnum": 1},
        {"tokenexp": "a|aa|ab", "mark": 0, "mincharnum": 1},
        {"tokenexp": "[a-z]+", "mark": 0, "mincharnum": 2},
        {"separators": [" "], "mark": 0, "mincharnum": 1},
        {"separators": [" +", "[,;]"], "mark": 1, "mincharnum": 2},
        {"separators": [""], "mark": 0, "mincharnum": 1},
        {"separators": [""], "mark": 1, "mincharnum": 1},
    ],
)
@pytest.mark.parametrize("rows", [slice(0, 6), slice(2, 3), slice(0, 1)])
def test_tokens_are_those_of_onnx_runtime(attributes: dict[str, Any], rows: slice) -> None:
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", pad_value="#", **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.STRING, ["N", 1])
    y = helper.make_tensor_value_info("y", TensorProto.STRING, ["N", 1, None])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    (wanted,) = onnxruntime.InferenceSession(model).run(None, {"x": TEXTS[rows]})
    (made,) = gw.compile(model)(TEXTS[rows])
    assert made.shape == wanted.shape
    assert made.tolist() == wanted.tolist()


@settings(deadline=None, max_examples=100)
@given(
    pattern=st.sampled_from(["a+", "[ab]c?", "b*", "(ab)+c", r"\bab*", "c$", "^a", "a{2,3}"]),
    text=st.text("abc ", max_size=12),
)
def test_matches_are_those_of_python(pattern: str, text: str) -> None:
    """With these patterns, Python's first match is also the longest one, which RE2 finds."""
    wanted = [m.group() for m in re.finditer(pattern, text) if m.group()]
    (row,) = Tokenizer("#", pattern).reference(np.array([text], object)).tolist()
    assert [token for token in row if token != "#"] == wanted


@settings(deadline=None, max_examples=100)
@given(
    pattern=st.sampled_from(
        ["[a-zA-Z0-9_]+", ".", ".+", "[a-c]", " ", "a+", "[A-z]", "[,.;/ ]+", "[a-a'é]+"]
    ),
    text=st.text("abzA_ 09,.;/'\n\té漢^[", max_size=12),
)
def test_patterns_of_one_class_are_those_of_re2(pattern: str, text: str) -> None:
    """Python's re module runs most of these patterns."""
    options = re2.Options()
    options.longest_match = True
    wanted = [m.span() for m in re2.compile(pattern, options).finditer(text)]
    assert [m.span() for m in compiled(pattern, longest=True).finditer(text)] == wanted
    assert bool(compiled(pattern).fullmatch(text)) == bool(re2.fullmatch(pattern, text))


def test_python_compiles_patterns_of_one_class() -> None:
    for pattern in ("[a-zA-Z0-9_]+", ".", " ", "[,.;/ ]+"):
        assert isinstance(compiled(pattern, longest=True), re.Pattern)
    for pattern in (r"\w+", "[^a]", "[a-c-e]", "[[]", "a|b", "[a&&b]", "é"):
        assert not isinstance(compiled(pattern, longest=True), re.Pattern)
