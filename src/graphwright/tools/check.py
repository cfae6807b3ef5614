"""Compares results with an evaluation of the model in f64 on the NumPy references of its ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np

from graphwright.errors import Diagnostic, GraphwrightError
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module
from graphwright.ir.op import Trait
from graphwright.ir.types import DType
from graphwright.records import dataclass
from graphwright.support.message_text import listed
from graphwright.tools.arguments import as_array
from graphwright.tools.measuring.engines import first_line

Array = np.ndarray[Any, Any]

_TOLERANCE: Final = 1e-4
_ROUNDINGS: Final = 8
"""The tolerance of models with 16-bit floats, in epsilons."""


class EvaluationError(GraphwrightError):
    """The model cannot be evaluated in NumPy."""


@dataclass(frozen=True)
class Distance:
    """The distance of an array from the expected one."""

    most: float
    """The largest difference, relative to the largest expected magnitude."""
    rms: float
    """The root mean square of the differences, relative to that of the expected values."""


def rounding_tolerance(module: Module) -> float:
    """The error, relative to the maximum magnitude of an output, that rounding may cause: more for models
    with 16-bit floats, as each op rounds its result.
    """
    dtypes = {value.type.dtype for node in module.walk() for value in node.outputs}
    return max([_TOLERANCE, *(_ROUNDINGS * _epsilon(dtype) for dtype in dtypes if dtype.is_float)])


def _epsilon(dtype: DType) -> float:
    """The distance from 1 to the next number."""
    return float(ml_dtypes.finfo(dtype.numpy).eps)  # type: ignore[no-untyped-call]  # it has no annotations


def random_hint(module: Module) -> str:
    """What to do about nodes that draw other numbers in each run, with which results differ; or empty."""
    drawn = [n for n in module.walk() if Trait.EFFECT in n.op.traits and getattr(n.op, "seed", 0) is None]
    if not drawn:
        return ""
    nodes = listed([node.location for node in drawn])
    return f"each run draws other random numbers: {nodes}; give these nodes the attribute seed"


def reference_outputs(module: Module, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of the entry, computed with f64 in place of f32. Raises EvaluationError."""
    arrays = [feeds[value.name] for value in module.main.inputs]
    try:
        with np.errstate(all="ignore"):
            results = evaluate_module(module, arrays, wide=True)
    except (ArithmeticError, LookupError, NotImplementedError, TypeError, ValueError, MemoryError) as error:
        message = f"the reference cannot run on these inputs: {first_line(error)}"
        raise EvaluationError(Diagnostic("reference", message)) from error
    return dict(zip(module.main.output_names, results, strict=True))


def all_feeds(module: Module, feeds: Mapping[str, Array], constants: Mapping[str, Any]) -> dict[str, Array]:
    """The feeds for all inputs of ``module``, including inputs that ``constants`` replaced."""
    types = {value.name: value.type.dtype.numpy for value in module.main.inputs}
    fixed = {n: as_array(value, types[n], n) for n, value in constants.items() if n in types}
    return {**feeds, **fixed}


def distance(array: Any, expected: Any) -> Distance:
    """The distance of two values; infinite if shapes differ, or if only one of two elements is finite. NaN
    equals NaN. For lists and dicts, it is the largest distance of two items.
    """
    if not isinstance(array, np.ndarray) or not isinstance(expected, np.ndarray):
        return _farthest(array, expected)
    if array.shape != expected.shape:
        return Distance(np.inf, np.inf)
    if array.dtype == object or expected.dtype == object:
        return Distance(0.0, 0.0) if array.tolist() == expected.tolist() else Distance(np.inf, np.inf)
    kind = np.complex128 if array.dtype.kind == "c" else np.float64
    got, wanted = array.astype(kind), expected.astype(kind)
    with np.errstate(all="ignore"):
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        apart = np.where(same, 0.0, np.abs(got - wanted))
        apart = np.where(np.isnan(apart), np.inf, apart)
        finite = np.abs(wanted[np.isfinite(wanted)])
    if not apart.any():
        return Distance(0.0, 0.0)
    scale = float(finite.max(initial=0.0)) or 1.0
    size = _rms(finite / scale) or 1.0
    return Distance(float(apart.max()) / scale, _rms(apart / scale) / size)


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(x**2))) if x.size else 0.0


def _farthest(value: Any, expected: Any) -> Distance:
    if isinstance(value, dict) and isinstance(expected, dict) and list(value) == list(expected):
        return _farthest([*value.values()], [*expected.values()])
    if not isinstance(value, list) or not isinstance(expected, list) or len(value) != len(expected):
        return Distance(0.0, 0.0) if value is expected else Distance(np.inf, np.inf)
    each = [distance(*map(_array_of_number, pair)) for pair in zip(value, expected, strict=True)]
    return Distance(max((d.most for d in each), default=0.0), max((d.rms for d in each), default=0.0))


def _array_of_number(value: Any) -> Any:
    return value if value is None or isinstance(value, list | dict | np.ndarray) else np.asarray(value)
