"""Import and export of ONNX's Constant. The op class is in :mod:`graphwright.ir.builtin.constant`."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.builtin.constant import Constant
from graphwright.ir.op import Importer
from graphwright.ir.op.exporter import Exporter

_SCALARS = {
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_string": object,
    "value_strings": object,
}


def _import(i: Importer) -> Any:
    for name in ("value", "sparse_value"):
        value = i.attr(name)
        if value is not None:
            return i.const(value)
    for name, dtype in _SCALARS.items():
        plain = i.attr(name)
        if plain is not None:
            return i.const(np.array(plain, dtype=dtype))
    raise i.fail("the constant has no value", hint="export the model again")


def _export(e: Exporter, op: Constant) -> str:
    return e.weight(op.value)


Constant.onnx = {("Constant", 1): _import}
Constant.to_onnx = _export
