"""Converts feeds as ONNX Runtime does: lists and Python numbers become arrays of the input's type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array, np
from graphwright.ir.dtypes import STRING
from graphwright.onnxruntime.values import OrtValue

_PLAIN = (list, tuple, bool, int, float, complex, str)
"""Python's own values, which have no type of an array's elements."""


def require(names: Sequence[str], inputs: Sequence[TensorSpec], feed: Mapping[str, Any]) -> None:
    """Raises ValueError if a required input is missing, and TypeError if the feeds are not a mapping."""
    require_mapping("input_feed", feed)
    optional = {spec.name for spec in inputs if spec.dtype.kind == "optional"}
    missing = [name for name in names if name not in feed and name not in optional]
    if missing:
        raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(feed)}).")


def require_mapping(argument: str, feed: object) -> None:
    """Raises TypeError, which names ``argument``, if the feeds are not a mapping."""
    if not isinstance(feed, Mapping):
        raise TypeError(f"{argument} must be a mapping from names to values, not {type(feed).__name__}")


def converted(inputs: Sequence[TensorSpec], feed: Mapping[str, Any]) -> dict[str, Any]:
    """``feed`` converted for a model. Raises RuntimeError for lists that cannot be converted to the type of
    the input.
    """
    known = {spec.name: spec for spec in inputs}
    values = {name: _value(known[name], given) if name in known else given for name, given in feed.items()}
    empty = {spec.name: None for spec in inputs if spec.dtype.kind == "optional"}
    return {**empty, **values}


def _value(spec: TensorSpec, given: Any) -> Any:
    if isinstance(given, OrtValue):
        return given.held()
    if spec.dtype.key is not None and isinstance(given, Mapping):
        return {_number(key): _number(value) for key, value in given.items()}
    if spec.dtype.element is not None:
        return given
    if isinstance(given, np.ndarray) and hasattr(given, "mask"):
        given = np.ma.getdata(given)  # ONNX Runtime ignores masks
    if spec.dtype is STRING:
        return _texts(given)
    return _array(spec, given) if isinstance(given, _PLAIN) else given


def _number(value: Any) -> Any:
    """A key or value of a map; ONNX Runtime takes a bool as 0 or 1."""
    return int(value) if isinstance(value, bool | np.bool_) else value


def _array(spec: TensorSpec, given: Any) -> Array:
    try:
        return np.asarray(given, spec.dtype.numpy)
    except (OverflowError, TypeError, ValueError) as error:
        hint = f"input {spec.name!r} takes {spec.dtype}"
        raise RuntimeError(f"Could not create tensor from given input list: {error} ({hint})") from error


def _texts(given: Any) -> Any:
    """Elements of lists and object arrays as texts, whatever they are."""
    dtype = getattr(given, "dtype", None)
    if dtype is not None and dtype.kind == "S":
        return np.char.decode(given, "utf-8")
    if not isinstance(given, _PLAIN) and dtype != np.dtype(object):
        return given
    array = np.asarray(given, object)
    elements = array.ravel().tolist()
    if set(map(type, elements)) <= {str}:
        return array
    return np.array([*map(str, elements), None], object)[:-1].reshape(array.shape)
