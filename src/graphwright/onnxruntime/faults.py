"""The text of ONNX Runtime's errors about feeds: some scripts search it for words and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphwright.ir.arrays import np
from graphwright.ir.dtypes import dtype_of
from graphwright.onnxruntime.signature import NodeArg, Signature
from graphwright.session import ort_type_text

_REMEDY = "Please fix either the inputs/outputs or the model."


def sentence(model: Signature, names: Sequence[str], feed: Mapping[str, Any]) -> str:
    """ONNX Runtime's message about the first fault of a run, with a line break; empty if it accepts the feed
    and the names of outputs.
    """
    known = {arg.name: arg for arg in (*model.inputs, *model.overridable)}
    found = [
        *(f"Invalid input name: {name}" for name in feed if name not in known),
        *filter(None, (_of_value(known[name], value) for name, value in feed.items() if name in known)),
        *(f"Invalid output name:{name}" for name in names if name not in {arg.name for arg in model.outputs}),
    ]
    return f"{found[0]}\n" if found else ""


def _of_value(arg: NodeArg, value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return ""
    given = _type_of(value)
    if given and given != arg.type:
        return f"Unexpected input data type. Actual: ({given}) , expected: ({arg.type})"
    if not arg.shape:
        return ""
    if value.ndim != len(arg.shape):
        return f"Invalid rank for input: {arg.name} Got: {value.ndim} Expected: {len(arg.shape)} {_REMEDY}"
    lines = [
        f" index: {axis} Got: {size} Expected: {wanted}\n"
        for axis, (size, wanted) in enumerate(zip(value.shape, arg.shape, strict=True))
        if isinstance(wanted, int) and size != wanted
    ]
    start = f"Got invalid dimensions for input: {arg.name} for the following indices\n"
    return f"{start}{''.join(lines)} {_REMEDY}" if lines else ""


def _type_of(array: Any) -> str:
    """The type of an array, or nothing for texts, whose arrays have several types, and for types that no
    model has.
    """
    if array.dtype.kind in "OSU":
        return ""
    try:
        return ort_type_text(dtype_of(array))
    except TypeError:
        return ""
