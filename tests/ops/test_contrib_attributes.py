"""Attributes of ONNX Runtime's own ops: those that its schemas list are known, others are rejected."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as theirs

from graphwright import ops
from graphwright.ir.op import registered_ops
from graphwright.ops.contrib.attribute_names import attribute_names

from .contrib import DOMAIN, normal, refused

ops.load()
SCHEMAS = {each.name: each for each in theirs.get_all_operator_schema() if each.domain == DOMAIN}
IMPORTED = sorted(
    {key[0] for op in registered_ops().values() for key in op.onnx if len(key) > 2 and key[2] == DOMAIN}
)


@pytest.mark.skipif(not onnxruntime.__version__.startswith("1.32."), reason="other versions have others")
@pytest.mark.parametrize("op_type", [name for name in IMPORTED if name in SCHEMAS])
def test_names_are_those_of_onnx_runtime(op_type: str) -> None:
    assert attribute_names(op_type) == {*SCHEMAS[op_type].attributes}


def test_the_table_is_not_empty() -> None:
    assert len(IMPORTED) > 70


def test_unknown_attributes_are_rejected_and_known_ones_are_listed() -> None:
    message = refused("CDist", [normal(2, 3), normal(2, 3)], metric="euclidean", p=3.0)
    assert "CDist: there is no attribute 'p'" in message
    assert "its attributes are: metric" in message
    message = refused("FastGelu", [np.ones((2, 3), np.float32)], first=1, second=2)
    assert "FastGelu: there is no attribute 'first', 'second'" in message
    assert "its attributes are: none" in message
