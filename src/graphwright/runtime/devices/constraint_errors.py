"""Explains violated shape constraints: the sizes that were fed, sizes that would fit, and what the node
needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphwright.errors import Diagnostic
from graphwright.executable.specs import TensorSpec
from graphwright.ir.sizes import scaled_symbol
from graphwright.ir.symbols import Constraint, parse_constraint, parse_dim

SEARCHED = 4096
"""How far from the given size the search for a size that fits goes."""
Shapes = Sequence[Sequence[int]]


def constraint_errors(
    constraints: Sequence[str], inputs: Sequence[TensorSpec], shapes: Shapes
) -> list[Diagnostic]:
    """The errors for inputs of ``shapes``, which violate the first of ``constraints`` and perhaps others.

    ``constraints`` are texts as in the shape program.
    """
    sizes = sizes_of(inputs, shapes)
    values = {name: value for name, (value, _) in sizes.items()}
    first, *others = map(parse_constraint, constraints)
    broken = [first, *(other for other in others if other.broken_by(values))]
    return [constraint_error(each, sizes) for each in dict.fromkeys(broken)]


def constraint_error(needed: Constraint, sizes: Mapping[str, tuple[int, str]]) -> Diagnostic:
    """The error for ``sizes`` that violate ``needed``; each size comes with the axis that binds it."""
    names = sorted(needed.names & sizes.keys())
    values = {name: value for name, (value, _) in sizes.items()}
    have = " and ".join(f"{name} is {values[name]} ({sizes[name][1]})" for name in names)
    remedies = " or ".join(_remedies(needed, names, values))
    message = ": ".join(filter(None, ("these inputs do not fit the model", have, remedies)))
    return Diagnostic("constraint", message, needed.node, f"the node needs {needed}")


def sizes_of(inputs: Sequence[TensorSpec], shapes: Shapes) -> dict[str, tuple[int, str]]:
    """The value of each symbol for inputs of ``shapes``, and a text that names the axis that binds it."""
    sizes: dict[str, tuple[int, str]] = {}
    for spec, shape in zip(inputs, shapes, strict=True):
        for axis, (dim, size) in enumerate(zip(spec.shape or (), shape, strict=False)):
            scaled = scaled_symbol(parse_dim(dim)) if isinstance(dim, str) else None
            if scaled is not None:
                sizes.setdefault(scaled[0], (size // scaled[1], f"axis {axis} of {spec.name!r}"))
    return sizes


def _remedies(needed: Constraint, names: Sequence[str], values: Mapping[str, int]) -> Iterator[str]:
    """For each size, the values that would fit if only it changed; never 0, which fits most products."""
    for name in names:
        nearby = range(max(values[name] - SEARCHED, 1), values[name] + SEARCHED)
        fits = [n for n in nearby if needed.broken_by({**values, name: n}) is None]
        below = [n for n in fits if n < values[name]][-1:]
        above = [n for n in fits if n > values[name]][:1]
        if above and nearby.start == 1 and fits == list(range(above[0], nearby.stop)):
            yield f"{name} must be at least {above[0]}"
        elif below and fits == list(range(nearby.start, below[0] + 1)):
            yield f"{name} must be at most {below[0]}"
        elif fits:
            yield f"{name} = {' or '.join(map(str, below + above))} fits"
