"""Feeds of no gear's shapes, filled up with zeros to those of the next; what they give is cropped."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from math import prod
from typing import TYPE_CHECKING

from graphwright.errors import Collector, Diagnostic, FeedError
from graphwright.ir.arrays import Array, np
from graphwright.package.package import TensorSpec
from graphwright.runtime.devices.base import Shapes

if TYPE_CHECKING:
    from graphwright.ir.symbols import Constraint

REMEMBERED = 256
"""Shapes between whose gears are known without looking for them again."""
Shape = tuple[int, ...]
Part = tuple[int | None, ...]
"""How much of each axis, all of it where that is None: elements decide its size."""


class Fitting:
    """Finds the gear for shapes between: ``gears`` are shapes of the inputs, all of which ``constraints`` of
    the package hold for.
    """

    def __init__(
        self,
        gears: Sequence[Shapes],
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        constraints: Sequence[str],
    ) -> None:
        self._gears, self._inputs, self._outputs = gears, inputs, outputs
        self._constraints = constraints
        rows = [[size for shape in gear for size in shape] for gear in gears]
        self._varied = [len(set(sizes)) > 1 for sizes in zip(*rows, strict=True)]
        self._known = lru_cache(REMEMBERED)(self._found)

    def fit(self, shapes: Shapes) -> tuple[Shapes, list[Part]]:
        """The gear of the least product of sizes that holds ``shapes``, and which part of each output is to
        be kept. Sizes that no gear varies must be equal. Raises FeedError where no gear does, or the model
        does not take ``shapes``.
        """
        return self._known(shapes)

    def _found(self, shapes: Shapes) -> tuple[Shapes, list[Part]]:
        sizes = self._named_sizes(shapes)
        self._check_constraints(sizes)
        holding = [gear for gear in self._gears if self._holds(gear, shapes)]
        if not holding:
            raise no_gear("holds", [spec.name for spec in self._inputs], self._gears, shapes)
        kept = [
            tuple(dim if isinstance(dim, int) else _number(dim, sizes) for dim in spec.shape or ())
            for spec in self._outputs
        ]
        return min(holding, key=lambda gear: prod(map(prod, gear))), kept

    def _check_constraints(self, sizes: Mapping[str, int]) -> None:
        faults = Collector(FeedError)
        for constraint in map(_constraint, self._constraints):
            if fault := constraint.broken_by(sizes):  # what meets a size that elements decide checks it
                faults.add("constraint", fault, constraint.node)
        faults.raise_if_any()

    def _holds(self, gear: Shapes, shapes: Shapes) -> bool:
        if any(len(large) != len(small) for large, small in zip(gear, shapes, strict=True)):
            return False
        pairs = (pair for both in zip(gear, shapes, strict=True) for pair in zip(*both, strict=True))
        return all(a == b or (varied and a > b) for varied, (a, b) in zip(self._varied, pairs, strict=True))

    def _named_sizes(self, shapes: Shapes) -> dict[str, int]:
        faults = Collector(FeedError)
        sizes: dict[str, int] = {}
        for spec, shape in zip(self._inputs, shapes, strict=True):
            dims = spec.shape or ()
            if len(dims) != len(shape):
                faults.add("feed-shape", f"input {spec.name!r} has {len(shape)} axes, expected {len(dims)}")
            for axis, (dim, size) in enumerate(zip(dims, shape, strict=False)):
                known = dim if isinstance(dim, int) else sizes.setdefault(dim, size)
                if known != size:
                    faults.add("feed-shape", f"axis {axis} of input {spec.name!r} is {known}, not {size}")
        faults.raise_if_any()
        return sizes


def no_gear(what: str, names: Sequence[str], gears: Iterable[Shapes], shapes: Shapes) -> FeedError:
    """That no gear is for ``shapes`` of the inputs ``names``, or "holds" them."""
    hint = f"the gears are {'; '.join(_text(names, gear) for gear in gears)}"
    return FeedError(Diagnostic("gear", f"no gear {what} {_text(names, shapes)}", hint=hint))


def _text(names: Sequence[str], shapes: Shapes) -> str:
    """Shapes by input, as the command line takes them."""
    named = zip(names, shapes, strict=True)
    return " ".join(f"{name}:{','.join(map(str, shape))}" for name, shape in named)


def filled_up(array: Array, shape: Shape) -> Array:
    """``array`` in the first places of zeros of ``shape``."""
    if not shape or array.shape == shape:  # also a list: a scalar of its dtype
        return array
    made = np.zeros(shape, array.dtype)
    made[tuple(map(slice, array.shape))] = array
    return made


def cropped(array: Array, part: Part) -> Array:
    """The first elements along each axis, in memory of their own."""
    return array if not part or array.shape == part else np.array(array[tuple(map(slice, part))], order="C")


def _number(text: str, sizes: Mapping[str, int]) -> int | None:
    return sizes[text] if text in sizes else _evaluator(text)(sizes)


@cache
def _evaluator(text: str) -> Callable[[Mapping[str, int]], int | None]:
    """What makes a number of an expression. The IR is imported where one is needed."""
    symbols = importlib.import_module("graphwright.ir.symbols")
    dim = symbols.parse_dim(text)
    names = {atom.name for atom in symbols.atoms(dim)}
    return lambda sizes: int(symbols.evaluate(dim, sizes)) if names <= sizes.keys() else None


@cache
def _constraint(text: str) -> Constraint:
    """What ``Package.constraints`` holds."""
    made: Constraint = importlib.import_module("graphwright.ir.symbols").parse_constraint(text)
    return made
