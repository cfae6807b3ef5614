"""Why the shapes of a feed do not fit a model, in words: its sizes, what would fit, what a node needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphwright.errors import Diagnostic
from graphwright.executable.specs import TensorSpec
from graphwright.ir.sizes import scaled_symbol
from graphwright.ir.symbols import Constraint, parse_constraint, parse_dim

TRIED = 4096
"""Sizes that far from a size are tried when one that fits is looked for."""
Shapes = Sequence[Sequence[int]]


def misfits(constraints: Sequence[str], inputs: Sequence[TensorSpec], shapes: Shapes) -> list[Diagnostic]:
    """What inputs of ``shapes`` break: the first of ``constraints``, as programs have them, and more."""
    sizes = sizes_of(inputs, shapes)
    values = {name: value for name, (value, _) in sizes.items()}
    first, *others = map(parse_constraint, constraints)
    broken = [first, *(other for other in others if other.broken_by(values))]
    return [misfit(each, sizes) for each in dict.fromkeys(broken)]


def misfit(needed: Constraint, sizes: Mapping[str, tuple[int, str]]) -> Diagnostic:
    """That ``sizes``, each with the axis that says so, break what a node needs."""
    names = sorted(needed.names & sizes.keys())
    values = {name: value for name, (value, _) in sizes.items()}
    have = " and ".join(f"{name} is {values[name]} ({sizes[name][1]})" for name in names)
    remedies = " or ".join(_remedies(needed, names, values))
    message = ": ".join(filter(None, ("these inputs do not fit the model", have, remedies)))
    return Diagnostic("constraint", message, needed.node, f"the node needs {needed}")


def sizes_of(inputs: Sequence[TensorSpec], shapes: Shapes) -> dict[str, tuple[int, str]]:
    """What each symbol is where the inputs have ``shapes``, and the axis that says so."""
    sizes: dict[str, tuple[int, str]] = {}
    for spec, shape in zip(inputs, shapes, strict=True):
        for axis, (dim, size) in enumerate(zip(spec.shape or (), shape, strict=False)):
            scaled = scaled_symbol(parse_dim(dim)) if isinstance(dim, str) else None
            if scaled is not None:
                sizes.setdefault(scaled[0], (size // scaled[1], f"axis {axis} of input {spec.name!r}"))
    return sizes


def _remedies(needed: Constraint, names: Sequence[str], values: Mapping[str, int]) -> Iterator[str]:
    """What each size alone would have to be."""
    for name in names:
        nearby = range(max(values[name] - TRIED, 0), values[name] + TRIED)
        fits = [n for n in nearby if needed.broken_by({**values, name: n}) is None]
        below = [n for n in fits if n < values[name]][-1:]
        above = [n for n in fits if n > values[name]][:1]
        if above and nearby.start == 0 and fits == list(range(above[0], nearby.stop)):
            yield f"{name} must be at least {above[0]}"
        elif below and fits == list(range(nearby.start, below[0] + 1)):
            yield f"{name} must be at most {below[0]}"
        elif fits:
            yield f"{name} = {' or '.join(map(str, below + above))} fits"
