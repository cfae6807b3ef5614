"""Completes the shapes of all inputs from the shapes that the caller gives and those that the model
declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphwright.errors import Collector, FeedError
from graphwright.executable.specs import TensorSpec
from graphwright.ir.symbols import SymbolError, evaluate, parse_dim
from graphwright.support.spelling import did_you_mean


def input_shapes(
    specs: Sequence[TensorSpec], shapes: Mapping[str, Sequence[int | str | None]]
) -> dict[str, tuple[int, ...]]:
    """The shape of every input, by name. ``shapes`` take precedence over the shapes that the model declares,
    and dimensions of the same name get the same size.

    Raises FeedError, which lists all sizes that are unknown or conflict.
    """
    faults = Collector(FeedError)
    for name in shapes.keys() - {spec.name for spec in specs}:
        names = [spec.name for spec in specs]
        hint = f"{did_you_mean([name], names)}the inputs are {', '.join(map(repr, names)) or 'none'}"
        faults.add("feed-name", f"there is no input {name!r}", hint=hint)
    bound = _bound_names(specs, shapes, faults)
    sizes = {}
    for spec in specs:
        wanted = shapes.get(spec.name)
        dims = spec.shape if wanted is None or spec.shape is not None else tuple(wanted)
        shown = "any rank" if dims is None else ", ".join("?" if d is None else str(d) for d in dims)
        shape = None if dims is None else [_number(d, bound) for d in dims]
        if shape is None or None in shape:
            example = "SIZES" if dims is None else ",".join(str(s or 1) for s in shape or ())
            python = f"shapes={{{spec.name!r}: ({example},)}}"
            hint = f"pass them, for example --shape {spec.name}:{example}, in Python {python}"
            faults.add(
                "feed-size",
                f"input {spec.name!r} has the sizes [{shown}], which are not all known",
                hint=hint,
            )
        else:
            sizes[spec.name] = tuple(size for size in shape if size is not None)
    faults.raise_if_any()
    return sizes


def _bound_names(
    specs: Sequence[TensorSpec], shapes: Mapping[str, Sequence[int | str | None]], faults: Collector
) -> dict[str, int]:
    """The values of the dynamic dimensions that ``shapes`` bind."""
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
