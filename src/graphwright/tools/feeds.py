"""Arrays for a model's inputs: from what the user gives, and seeded random ones for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphwright.errors import Collector, Diagnostic, FeedError
from graphwright.ir.sizes import Dim
from graphwright.ir.symbols import SymbolError, evaluate, parse_dim
from graphwright.ir.types import DType
from graphwright.package.package import TensorSpec
from graphwright.tools.arguments import Sizes, as_array, read_value
from graphwright.tools.arrays import read_npz

Array = np.ndarray[Any, Any]
MAX_ELEMENTS = 2**31
"""Elements of one random input."""


def make_feeds(
    specs: Sequence[TensorSpec], given: Sequence[str] | None, shapes: Sizes, seed: int = 0
) -> dict[str, Array]:
    """Feeds for ``specs``: those of ``given`` (``name=file.npy``, ``name=1.5``, ``all.npz``), else random.

    Random ones need sizes: of the model, of ``shapes``, or of a size that another input shares. A FeedError
    lists every input that is not known, or has a size that nothing says.
    """
    _refuse_containers(specs)
    arrays = _given_feeds(specs, given or ())
    known = {name: list(array.shape) for name, array in arrays.items()}
    sizes = input_sizes(specs, {**shapes, **known})
    for index, spec in enumerate(specs):
        if spec.name not in arrays:
            arrays[spec.name] = random_array(
                spec.dtype, sizes[spec.name], np.random.default_rng([seed, index])
            )
    return {spec.name: arrays[spec.name] for spec in specs}


def _refuse_containers(specs: Sequence[TensorSpec]) -> None:
    faults = Collector(FeedError)
    for spec in specs:
        if spec.dtype.element is not None:
            message = f"input {spec.name!r} is {spec.dtype}, and no file or text holds one"
            faults.add("feed-dtype", message, hint="run the model from Python, with a list or None")
    faults.raise_if_any()


def _given_feeds(specs: Sequence[TensorSpec], given: Sequence[str]) -> dict[str, Array]:
    faults = Collector(FeedError)
    by_name = {spec.name: spec for spec in specs}
    listed = f"the inputs are {', '.join(map(repr, by_name)) or 'none'}"
    values: dict[str, Any] = {}
    for text in given:
        named = [name for name in by_name if text.startswith(f"{name}=")]
        if named:
            name = max(named, key=len)
            values[name] = read_value(text[len(name) + 1 :], "--input")
        elif text.endswith(".npz"):
            values |= read_npz(Path(text))
        else:
            faults.add(
                "feed-name", f"{text!r} is no input=value of this model, and no .npz file", hint=listed
            )
    for name in values.keys() - by_name.keys():
        faults.add("feed-name", f"there is no input {name!r}", hint=listed)
    faults.raise_if_any()
    return {
        name: _typed(as_array(value, by_name[name].dtype.numpy, name), by_name[name])
        for name, value in values.items()
    }


def _typed(array: Array, spec: TensorSpec) -> Array:
    """Types that the file format does not know come back as raw bytes, strings as fixed-width text."""
    wanted = spec.dtype.numpy
    if array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:
        return array.view(wanted)
    return array.astype(object) if array.dtype.kind in "SU" and wanted.kind == "O" else array


def input_sizes(
    specs: Sequence[TensorSpec], shapes: Mapping[str, Sequence[int | str | Dim | None]]
) -> dict[str, tuple[int, ...]]:
    """The shape of every input: ``shapes`` above the model's own; sizes of one name are equal. Of a range it
    is the smallest size that holds something.
    """
    return _input_sizes(specs, {name: list(map(_smallest, sizes)) for name, sizes in shapes.items()})


def _smallest(size: int | str | Dim | None) -> int | str | None:
    if not isinstance(size, Dim):
        return size
    return size.smallest if (size.low, size.high) != (0, None) else None


def _input_sizes(
    specs: Sequence[TensorSpec], shapes: Mapping[str, Sequence[int | str | None]]
) -> dict[str, tuple[int, ...]]:
    faults = Collector(FeedError)
    for name in shapes.keys() - {spec.name for spec in specs}:
        listed = ", ".join(repr(spec.name) for spec in specs)
        faults.add("feed-name", f"there is no input {name!r}", hint=f"the inputs are {listed or 'none'}")
    bound = _bound_names(specs, shapes, faults)
    sizes = {}
    for spec in specs:
        wanted = shapes.get(spec.name)
        dims = spec.shape if wanted is None or spec.shape is not None else tuple(wanted)
        shown = "any rank" if dims is None else ", ".join("?" if d is None else str(d) for d in dims)
        shape = None if dims is None else [_number(d, bound) for d in dims]
        if shape is None or None in shape:
            example = "SIZES" if dims is None else ",".join(str(s or 1) for s in shape or ())
            hint = f"say which, for instance --shape {spec.name}:{example}"
            faults.add(
                "feed-size",
                f"input {spec.name!r} has the sizes [{shown}], not all of them numbers",
                hint=hint,
            )
        else:
            sizes[spec.name] = tuple(size for size in shape if size is not None)
    faults.raise_if_any()
    return sizes


def _bound_names(
    specs: Sequence[TensorSpec], shapes: Mapping[str, Sequence[int | str | None]], faults: Collector
) -> dict[str, int]:
    """Numbers of the named sizes that ``shapes`` decides."""
    bound: dict[str, int] = {}
    for spec in specs:
        wanted = shapes.get(spec.name)
        if wanted is None or spec.shape is None:
            continue
        if len(wanted) != len(spec.shape):
            faults.add(
                "feed-size", f"{len(wanted)} sizes for input {spec.name!r}, which has {len(spec.shape)}"
            )
            continue
        for axis, (dim, size) in enumerate(zip(spec.shape, wanted, strict=True)):
            if not isinstance(size, int):
                continue
            fixed = dim if isinstance(dim, int) else bound.setdefault(dim, size)
            if fixed != size:
                faults.add("feed-size", f"axis {axis} of input {spec.name!r} is {fixed}, not {size}")
    return bound


def _number(dim: int | str | None, bound: Mapping[str, int]) -> int | None:
    if not isinstance(dim, str):
        return dim
    try:
        return bound[dim] if dim in bound else evaluate(parse_dim(dim), bound)
    except (SymbolError, KeyError):
        return None


def random_array(dtype: DType, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Standard normal numbers; 0 and 1 for integers, which may be indices of something small."""
    if np.prod(shape, dtype=object) > MAX_ELEMENTS:
        raise FeedError(Diagnostic("feed-size", f"{shape} is too large for a random input"))
    if dtype.is_float or dtype.kind == "complex":
        return generator.standard_normal(shape, np.float32).astype(dtype.numpy)
    if dtype.kind == "string":
        return np.full(shape, "text", object)
    return generator.integers(0, 2, shape).astype(dtype.numpy)
