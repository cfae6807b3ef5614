"""Gears (shape buckets): a model compiled for each of a few sets of input shapes, all on one set of weights.

>>> gw.compile("model.onnx", gears={"x": [(1, 3, 224, 224), (4, 3, 224, 224)]})
>>> gw.compile("model.onnx", gears=gw.Gears(batch=(1, 2, 4, 8), between="pad"))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import Any

from graphwright.errors import Collector, Diagnostic, OptionError
from graphwright.ir.graph import Graph, Value
from graphwright.ir.symbols import Expr
from graphwright.ops.control.bucket_index import OTHERWISE
from graphwright.records import dataclass, field
from graphwright.support.message_text import did_you_mean, listed

FEWEST, MOST = 2, 100
COMBINE = ("zip", "product")
Sizes = tuple[int | None, ...]
"""The shape of one input; None for a size that another option or the model determines."""
Row = Mapping[str, Sizes]
"""One gear, or one of several choices that are merged into one: shapes by input."""


@dataclass(frozen=True)
class Gears:
    """The shapes to compile programs for, and what happens to other shapes.

    ``shapes``: lists of shapes by input, None for a size of the model; the lists of several inputs are paired
    in order (``combine="zip"``) or combined in all ways ("product"). ``batch``: sizes of dynamic first axes.
    ``image``: heights and widths of images, inputs of rank 4. Options given together are combined in all
    ways. ``between``: other shapes are an error, are padded to the next larger gear ("pad"; rejected if
    padding would change results), or run on a program with dynamic dimensions ("dynamic").

    Raises OptionError for values of the wrong type, and for unknown values of ``combine`` and ``between``.
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
        if not isinstance(self.shapes, Mapping):
            hint = "as in Gears({'x': [(1, 64), (8, 64)]})"
            faults.add(
                "gears", f"shapes must be a dict by name of input, not {self.shapes!r:.100}", hint=hint
            )
        for name, given in (("batch", self.batch), ("image", self.image)):
            if isinstance(given, bytes | str) or not isinstance(given, Iterable):
                faults.add("gears", f"{name} must be a list of sizes, not {given!r:.100}")
            else:
                object.__setattr__(self, name, tuple(map(_to_python, given)))
        faults.raise_if_any()

    def rows(self, graph: Graph) -> list[Row]:
        """The gears for the inputs of ``graph``, as far as they are given. Raises OptionError with all
        faults.
        """
        faults = Collector(OptionError)
        inputs = {value.name: value for value in graph.inputs}
        choices = self._shape_rows(inputs, faults)
        if self.batch:
            choices.append(_batches(self.batch, inputs, faults))
        if self.image:
            choices.append(_images(self.image, inputs, faults))
        faults.raise_if_any()
        count = prod(map(len, choices)) if choices else 0
        if not FEWEST <= count <= MOST:
            faults.add("gears", f"the number of gears is {count}, but must be {FEWEST} to {MOST}")
        for one, other in combinations(choices, 2):
            for name, axis in _given_axes(one[0]) & _given_axes(other[0]):
                faults.add("gears", f"axis {axis} of input {name!r} is given twice", hint="give it once")
        faults.raise_if_any()
        return [_merged(rows) for rows in product(*choices)]

    def _shape_rows(self, inputs: Mapping[str, Value], faults: Collector) -> list[list[Row]]:
        columns: dict[str, list[Sizes]] = {}
        for name, shapes in self.shapes.items():
            try:
                columns[name] = [tuple(map(_to_python, shape)) for shape in shapes]
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


def _to_python(size: Any) -> Any:
    """A NumPy integer as an int, an array as a list, anything else unchanged."""
    return size.tolist() if hasattr(size, "tolist") else size


def _shape_faults(name: str, shapes: Sequence[Sizes], inputs: Mapping[str, Value]) -> Iterator[Diagnostic]:
    """Faults in the shapes of one input."""
    if name not in inputs:
        hint = f"{did_you_mean([name], inputs)}the inputs are {listed(inputs)}"
        yield Diagnostic("gears", f"there is no input {name!r}", hint=hint)
        return
    if not shapes:
        yield Diagnostic("gears", f"input {name!r} has no gear", hint="list at least one shape")
    for shape in shapes:
        for size in shape:
            if size is not None and not _is_size(size):
                message = f"input {name!r}: {size!r} in {_text(shape)} is not a size > 0"
                yield Diagnostic("gears", message)
    ranks, known = set(map(len, shapes)), inputs[name].type.rank
    if len(ranks) > 1:
        axes = " and ".join(map(str, sorted(ranks)))
        yield Diagnostic("gears", f"the gears of input {name!r} have different ranks: {axes}")
    elif known is not None and ranks and ranks != {known}:
        yield Diagnostic(
            "gears", f"the gears of input {name!r} have rank {ranks.pop()}, but its rank is {known}"
        )


def _batches(sizes: Sequence[int], inputs: Mapping[str, Value], faults: Collector) -> list[Row]:
    """One choice per size, for all dynamic first axes."""
    faults.extend(
        Diagnostic("gears", f"{size!r} is not a batch size > 0") for size in sizes if not _is_size(size)
    )
    ranks = {
        n: len(v.type.shape) for n, v in inputs.items() if v.type.shape and isinstance(v.type.shape[0], Expr)
    }
    if not ranks:
        faults.add(
            "gears", "batch sizes are given, but no input has a dynamic first axis", "", _listed(inputs)
        )
    return [{name: (size, *(None,) * (rank - 1)) for name, rank in ranks.items()} for size in sizes]


def _images(sizes: Sequence[tuple[int, int]], inputs: Mapping[str, Value], faults: Collector) -> list[Row]:
    """One choice per height and width, for all inputs that are images."""
    for size in sizes:
        if not isinstance(size, Sequence) or len(size) != 2 or not all(map(_is_size, size)):
            faults.add("gears", f"{size!r} is not a height and width > 0")
    faults.raise_if_any()
    images = {name: found for name, value in inputs.items() if (found := _image_axes(value))}
    if not images:
        message = "image sizes are given, but no input of rank 4 has a dynamic height or width"
        faults.add("gears", message, "", _listed(inputs))
    return [
        {
            n: tuple(dict(zip(axes, size, strict=False)).get(axis) for axis in range(4))
            for n, axes in images.items()
        }
        for size in sizes
    ]


def _image_axes(value: Value) -> tuple[int, int] | None:
    """The height and width axes of an image: the last two, or the middle two if only these are dynamic."""
    if value.type.rank != 4:
        return None
    is_dynamic = [isinstance(dim, Expr) for dim in value.type.dims]
    if is_dynamic[1] and is_dynamic[2] and not is_dynamic[3]:
        return 1, 2
    return (2, 3) if is_dynamic[2] or is_dynamic[3] else None


def _given_axes(row: Row) -> set[tuple[str, int]]:
    return {(name, k) for name, sizes in row.items() for k, size in enumerate(sizes) if size is not None}


def _merged(rows: Sequence[Row]) -> Row:
    """One gear from choices that give different sizes."""
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
    """A gear on one line, in command line syntax: ``x:4,3,224,224``."""
    return " ".join(f"{name}:{_text(sizes)}" for name, sizes in row.items())
