"""Completes the shapes of all inputs from the shapes that the caller gives and those that the model
declares.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from graphwright.errors import Collector, FeedError
from graphwright.executable.specs import TensorSpec
from graphwright.ir.symbols import SymbolError, evaluate, names_in, parse_constraint, parse_dim
from graphwright.support.message_text import counted, did_you_mean

UNKNOWN_SIZE = "unknown-size"
"""The code of the error that sizes are not known."""
MAX_EXAMPLE = 1 << 12
"""The largest size that an error gives as an example."""


Dims = tuple[int | str | None, ...] | None
"""The dimensions of an input, None for each that is not known; None for any rank."""


def input_shapes(
    specs: Sequence[TensorSpec],
    shapes: Mapping[str, Sequence[int | str | None]],
    constraints: Sequence[str],
) -> dict[str, tuple[int, ...]]:
    """The shape of every input, by name. ``shapes`` take precedence over the shapes that the model declares,
    and dimensions of the same name get the same size.

    Raises FeedError, which lists all sizes that are unknown or conflict, and gives example sizes that satisfy
    ``constraints``.
    """
    faults = Collector(FeedError)
    names = [spec.name for spec in specs]
    for name in shapes.keys() - set(names):
        hint = f"{did_you_mean([name], names)}the inputs are {', '.join(map(repr, names)) or 'none'}"
        faults.add("feed-name", f"there is no input {name!r}", hint=hint)
    bound = _bound_names(specs, shapes, faults)
    sizes: dict[str, tuple[int, ...]] = {}
    unknown: dict[str, Dims] = {}
    for spec in specs:
        wanted = shapes.get(spec.name)
        dims = spec.shape if wanted is None or spec.shape is not None else tuple(wanted)
        shape = () if dims is None else tuple(_number(dim, bound) for dim in dims)
        known = tuple(size for size in shape if size is not None)
        if dims is None or len(known) < len(dims):
            unknown[spec.name] = dims
        else:
            sizes[spec.name] = known
    examples = _example_sizes(specs, bound, constraints) if unknown else {}
    for name, dims in unknown.items():
        shown = "any rank" if dims is None else ", ".join("?" if d is None else str(d) for d in dims)
        message = f"input {name!r} has the sizes [{shown}], which are not all known"
        faults.add(UNKNOWN_SIZE, message, hint=_example_hint(name, dims, examples))
    faults.raise_if_any()
    return sizes


def _example_hint(name: str, dims: Dims, examples: Mapping[str, int]) -> str:
    """How to pass sizes of the input ``name``, with ``examples`` of the dynamic dimensions."""
    fitting = [1 if (size := _number(dim, examples)) is None else size for dim in dims or ()]
    flag = "SIZES" if dims is None else ",".join(map(str, fitting))
    python = f"shapes={{{name!r}: {'SIZES' if dims is None else tuple(fitting)}}}"
    return f"pass them, for example --shape {shlex.quote(f'{name}:{flag}')}, in Python {python}"


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
            given = counted(len(wanted), "size")
            faults.add("feed-size", f"{given} for input {spec.name!r}, which has {len(spec.shape)} axes")
            continue
        for axis, (dim, size) in enumerate(zip(spec.shape, wanted, strict=True)):
            if not isinstance(size, int):
                continue
            fixed = dim if isinstance(dim, int) else bound.setdefault(dim, size)
            if fixed != size:
                faults.add("feed-size", f"axis {axis} of {spec.name!r} must be {fixed}, but is {size}")
    return bound


def _example_sizes(
    specs: Sequence[TensorSpec], bound: Mapping[str, int], constraints: Sequence[str]
) -> dict[str, int]:
    """``bound``, and for each other dynamic dimension the smallest power of two that satisfies
    ``constraints``; 1 if none up to :data:`MAX_EXAMPLE` does.
    """
    needs = [parse_constraint(text) for text in constraints]
    dims = [parse_dim(dim) for spec in specs for dim in spec.shape or () if isinstance(dim, str)]
    free = sorted(set().union(*map(names_in, dims)) - bound.keys())

    def fits(sizes: Mapping[str, int]) -> bool:
        return not any(each.broken_by(sizes) for each in needs)

    powers = [2**k for k in range(MAX_EXAMPLE.bit_length())]
    found = next((s for n in powers if fits(s := {**bound, **dict.fromkeys(free, n)})), None)
    if found is None:
        return {**bound, **dict.fromkeys(free, 1)}
    for name in free:
        found[name] = next(n for n in powers if fits({**found, name: n}))
    return found


def _number(dim: int | str | None, bound: Mapping[str, int]) -> int | None:
    if not isinstance(dim, str):
        return dim
    try:
        return bound[dim] if dim in bound else evaluate(parse_dim(dim), bound)
    except (SymbolError, KeyError):
        return None
