"""Gears: a model compiled for each of a few shapes of its inputs, all on one set of weights.

>>> gw.compile("model.onnx", gears={"x": [(1, 3, 224, 224), (4, 3, 224, 224)]})
>>> gw.compile("model.onnx", gears=gw.Gears(batch=(1, 2, 4, 8), between="pad"))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import Any

from graphwright.errors import Collector, Diagnostic, OptionError
from graphwright.ir.graph import Graph, Value
from graphwright.ir.symbols import Expr
from graphwright.ops.control.bucket_index import OTHERWISE
from graphwright.records import dataclass, field
from graphwright.support.spelling import did_you_mean, listed

FEWEST, MOST = 2, 100
COMBINE = ("zip", "product")
Sizes = tuple[int | None, ...]
"""Of one input; None where another choice says it, or the model."""
Row = Mapping[str, Sizes]
"""One gear, or one choice of several that make one: sizes by input."""


@dataclass(frozen=True)
class Gears:
    """Which shapes there are to be programs for, and what becomes of others.

    ``shapes`` are shapes by input, None for a size that is the model's own; those of several inputs go
    together one by one (``combine="zip"``) or each with each ("product"). ``batch`` are sizes of the open
    first axes, ``image`` heights and widths of images, inputs of four axes. Given together, each goes with
    each. ``between``: other shapes are an error, are padded to the next gear ("pad"; refused for models whose
    results padding would change), or run on a program for all shapes ("dynamic").
    """

    shapes: Mapping[str, Sequence[Sequence[int | None]]] = field(default_factory=dict)
    batch: Sequence[int] = ()
    image: Sequence[tuple[int, int]] = ()
    combine: str = "zip"
    between: str = "error"

    def __post_init__(self) -> None:
        faults = Collector(OptionError)
        for name, value, known in (("combine", self.combine, COMBINE), ("between", self.between, OTHERWISE)):
            if value not in known:
                faults.add("gears", f"{name}={value!r} is not one of {', '.join(known)}")
        faults.raise_if_any()

    def rows(self, graph: Graph) -> list[Row]:
        """The gears for the inputs of ``graph``, as far as they are said. An OptionError lists what they
        cannot be.
        """
        faults = Collector(OptionError)
        inputs = {value.name: value for value in graph.inputs}
        choices = self._given(inputs, faults)
        if self.batch:
            choices.append(_batches(self.batch, inputs, faults))
        if self.image:
            choices.append(_images(self.image, inputs, faults))
        faults.raise_if_any()
        count = prod(map(len, choices)) if choices else 0
        if not FEWEST <= count <= MOST:
            faults.add("gears", f"gears: {count} are given, there must be {FEWEST} to {MOST}")
        for one, other in combinations(choices, 2):
            for name, axis in _said(one[0]) & _said(other[0]):
                faults.add("gears", f"axis {axis} of input {name!r} is given twice", hint="give it once")
        faults.raise_if_any()
        return [_merged(rows) for rows in product(*choices)]

    def _given(self, inputs: Mapping[str, Value], faults: Collector) -> list[list[Row]]:
        columns: dict[str, list[Sizes]] = {}
        for name, shapes in self.shapes.items():
            try:
                columns[name] = [tuple(map(_plain, shape)) for shape in shapes]
            except TypeError:
                faults.add("gears", f"the gears of input {name!r} are {shapes!r}, not a list of shapes")
                continue
            faults.extend(_shape_faults(name, columns[name], inputs))
        if self.combine == "product":
            return [[{name: shape} for shape in shapes] for name, shapes in columns.items()]
        counts = {name: len(shapes) for name, shapes in columns.items()}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
            message = f"shapes of several inputs are paired in order, but there are {listed}"
            hint = "give the same number for each input, or set combine to product"
            faults.add("gears", message, hint=hint)
            return []
        rows = zip(*columns.values(), strict=True)
        return [[dict(zip(columns, row, strict=True)) for row in rows]] if columns else []


def _plain(size: Any) -> Any:
    """A NumPy integer as a number, anything else as it is."""
    return size.item() if hasattr(size, "item") else size


def _shape_faults(name: str, shapes: Sequence[Sizes], inputs: Mapping[str, Value]) -> Iterator[Diagnostic]:
    """What is wrong with the shapes of one input."""
    if name not in inputs:
        hint = f"{did_you_mean([name], inputs)}the inputs are {listed(inputs)}"
        yield Diagnostic("gears", f"there is no input {name!r}", hint=hint)
        return
    if not shapes:
        yield Diagnostic("gears", f"input {name!r} has no gear")
    for shape in shapes:
        for size in shape:
            if size is not None and not _is_size(size):
                message = (
                    f"input {name!r}: {size!r} in {_text(shape)} is not a size: it must be a number above 0"
                )
                yield Diagnostic("gears", message)
    ranks, known = set(map(len, shapes)), inputs[name].type.rank
    if len(ranks) > 1:
        axes = " and ".join(map(str, sorted(ranks)))
        yield Diagnostic("gears", f"the gears of input {name!r} have {axes} axes")
    elif known is not None and ranks and ranks != {known}:
        yield Diagnostic("gears", f"the gears of input {name!r} have {ranks.pop()} axes, it has {known}")


def _batches(sizes: Sequence[int], inputs: Mapping[str, Value], faults: Collector) -> list[Row]:
    """A choice for each size of all first axes that are open."""
    faults.extend(
        Diagnostic("gears", f"{size!r} is no batch size: it must be a number above 0")
        for size in sizes
        if not _is_size(size)
    )
    ranks = {
        n: len(v.type.shape) for n, v in inputs.items() if v.type.shape and isinstance(v.type.shape[0], Expr)
    }
    if not ranks:
        faults.add("gears", "batch sizes are given, and no input has an open first axis", "", _listed(inputs))
    return [{name: (size, *(None,) * (rank - 1)) for name, rank in ranks.items()} for size in sizes]


def _images(sizes: Sequence[tuple[int, int]], inputs: Mapping[str, Value], faults: Collector) -> list[Row]:
    """A choice for each height and width, of all inputs that are images."""
    for size in sizes:
        if len(size) != 2 or not all(map(_is_size, size)):
            faults.add("gears", f"{size!r} is not a height and width: numbers above 0")
    places = {name: found for name, value in inputs.items() if (found := _image_axes(value))}
    if not places:
        message = "image sizes are given, and no input of four axes has an open height or width"
        faults.add("gears", message, "", _listed(inputs))
    return [
        {
            n: tuple(dict(zip(axes, size, strict=False)).get(axis) for axis in range(4))
            for n, axes in places.items()
        }
        for size in sizes
    ]


def _image_axes(value: Value) -> tuple[int, int] | None:
    """Height and width of an image: the last two axes, or those in the middle if they alone are open."""
    if value.type.rank != 4:
        return None
    is_open = [isinstance(dim, Expr) for dim in value.type.dims]
    if is_open[1] and is_open[2] and not is_open[3]:
        return 1, 2
    return (2, 3) if is_open[2] or is_open[3] else None


def _said(row: Row) -> set[tuple[str, int]]:
    return {(name, k) for name, sizes in row.items() for k, size in enumerate(sizes) if size is not None}


def _merged(rows: Sequence[Row]) -> Row:
    """One gear of choices that say different sizes."""
    merged: dict[str, Sizes] = {}
    for row in rows:
        for name, sizes in row.items():
            known = merged.get(name, (None,) * len(sizes))
            merged[name] = tuple(b if a is None else a for a, b in zip(known, sizes, strict=True))
    return merged


def _is_size(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size > 0


def _text(sizes: Sequence[object]) -> str:
    return ",".join("?" if size is None else str(size) for size in sizes)


def _listed(inputs: Mapping[str, Value]) -> str:
    return f"the inputs are {', '.join(map(str, inputs.values()))}"


def row_text(row: Mapping[str, Sequence[object]]) -> str:
    """A gear on one line, as the command line takes it: ``x:4,3,224,224``."""
    return " ".join(f"{name}:{_text(sizes)}" for name, sizes in row.items())
