"""The arguments of ``compile`` in the forms that users write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from graphwright.errors import Collector, Diagnostic, OptionError
from graphwright.ir.sizes import Size
from graphwright.passes.bind_sizes import Shapes

AnyShapes: TypeAlias = Mapping[str, Sequence[Size] | str] | Sequence[Size] | Sequence[Sequence[Size]]
"""Sizes by input; the sizes of the only input; or those of each input, in the order of the model."""


def read_outputs(outputs: Sequence[str] | str | None) -> list[str] | None:
    """One name, or several. Raises OptionError."""
    if outputs is None:
        return None
    if isinstance(outputs, str):
        return [outputs]
    if isinstance(outputs, Mapping) or not all(isinstance(name, str) for name in _items("outputs", outputs)):
        raise _fault(f"outputs are names of values, not {outputs!r:.100}", "as in outputs=['scores']")
    return list(outputs)


def read_mapping(what: str, given: Any, example: str) -> Mapping[str, Any]:
    """``given`` if it is a mapping by name; nothing for None. Raises OptionError."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise _fault(f"{what} is a dict by name of input, not {given!r:.100}", f"as in {example}")
    return given


def read_shapes(shapes: AnyShapes | None, inputs: Sequence[str]) -> Shapes:
    """``shapes`` by name of input, for a model with these ``inputs``. Raises OptionError."""
    if shapes is None:
        return {}
    named = shapes if isinstance(shapes, Mapping) else _by_position(shapes, inputs)
    faults = Collector(OptionError)
    made = {}
    for name, sizes in named.items():
        if isinstance(sizes, str):
            sizes = [size.strip() for size in sizes.split(",")] if sizes.strip() else []
        if isinstance(sizes, bytes | Mapping) or not isinstance(sizes, Sequence | range):
            message = f"the sizes of input {name!r} are {sizes!r:.100}, not a tuple of sizes"
            faults.add("shapes", message, hint=f"as in shapes={{{name!r}: (1, 3, 224, 224)}}")
            continue
        made[name] = tuple(sizes)
    faults.raise_if_any()
    return made


def _by_position(shapes: Any, inputs: Sequence[str]) -> Mapping[str, Any]:
    """A shape for each input; of a model with one input, its sizes as well."""
    given = list(_items("shapes", shapes))
    is_one = not any(isinstance(each, list | tuple) for each in given)
    rows = [given] if is_one and (given or len(inputs) == 1) else given
    if len(rows) != len(inputs):
        count = "one shape" if len(rows) == 1 else f"{len(rows)} shapes"
        example = "give a dict, as in shapes={'x': (1, 3, 224, 224)}"
        hint = f"the inputs are {', '.join(inputs) or 'none'}; {example}"
        raise _fault(f"shapes holds {count}, the model has {len(inputs)} inputs", hint)
    return dict(zip(inputs, rows, strict=True))


def _items(what: str, given: Any) -> Sequence[Any]:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise _fault(f"{what} is {given!r:.100}, not a list", "see help(graphwright.compile)")
    return given


def _fault(message: str, hint: str) -> OptionError:
    return OptionError(Diagnostic("argument", message, hint=hint))
