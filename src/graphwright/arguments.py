"""The arguments of ``compile`` in the forms that users write."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from graphwright.errors import Collector, Diagnostic, OptionError
from graphwright.gears import Gears
from graphwright.ir.sizes import Size
from graphwright.package.package import MAIN
from graphwright.passes.bind_sizes import Shapes
from graphwright.records import dataclass
from graphwright.support.spelling import did_you_mean, listed

AnyShapes: TypeAlias = Mapping[str, Sequence[Size] | str] | Sequence[Size] | Sequence[Sequence[Size]]
"""Sizes by input; the sizes of the only input; or those of each input, in the order of the model."""
_ENTRY: Final = re.compile(r"[\w.-]+", re.ASCII)


@dataclass(frozen=True)
class Examples:
    """What a PyTorch module is exported with: arguments of its ``forward``, and which of their sizes vary."""

    inputs: tuple[Any, ...] | None = None
    kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Any = None

    @property
    def are_given(self) -> bool:
        """Whether there are any."""
        return self != Examples()


@dataclass(frozen=True)
class EntryArguments:
    """What one entry is compiled from, and how its inputs and outputs are changed."""

    source: Any
    shapes: AnyShapes | None
    constants: Mapping[str, Any]
    outputs: Sequence[str] | None
    gears: Gears | None
    states: Mapping[str, str]
    examples: Examples

    def read(self) -> list[str] | None:
        """The values of an ONNX model that must be read for its outputs; None for all."""
        return None if self.outputs is None else list(dict.fromkeys([*self.outputs, *self.states.values()]))


def read_entries(source: Any, **arguments: Any) -> dict[str, EntryArguments]:
    """The arguments of ``compile`` by entry: one, or as many as ``source`` is a dict of, where each argument
    is a dict by entry as well. Raises OptionError.
    """
    if not isinstance(source, Mapping) or not source:
        return {MAIN: _entry(source, **arguments)}
    faults = Collector(OptionError)
    for name in source:
        if not isinstance(name, str) or not _ENTRY.fullmatch(name):
            faults.add(
                "entries", f"{name!r:.100} names no entry", hint="use letters, digits, '.', '-' and '_'"
            )
    by_entry = {}
    for what, given in arguments.items():
        by_entry[what] = read_mapping(
            what, given, f"{what}={{'decode': ...}}, as there are several entries", of="entry"
        )
        for name in by_entry[what].keys() - source.keys():
            hint = f"{did_you_mean([name], source)}the entries are {listed(source)}"
            faults.add("entries", f"{what} names an entry {name!r} that is not there", hint=hint)
    faults.raise_if_any()
    return {
        name: _entry(each, **{what: given.get(name) for what, given in by_entry.items()})
        for name, each in source.items()
    }


def _entry(
    source: Any,
    shapes: Any,
    constants: Any,
    outputs: Any,
    gears: Any,
    states: Any,
    example_inputs: Any,
    example_kwargs: Any,
    dynamic_shapes: Any,
) -> EntryArguments:
    if gears is not None and not isinstance(gears, Gears):
        gears = Gears(read_mapping("gears", gears, "gears={'x': [(1, 64), (8, 64)]}"))
    constants = read_mapping("constants", constants, "constants={'sr': 16000}")
    states = read_mapping("states", states, "states={'h': 'h_next'}")
    examples = _examples(example_inputs, example_kwargs, dynamic_shapes)
    return EntryArguments(source, shapes, constants, read_outputs(outputs), gears, states, examples)


def _examples(inputs: Any, kwargs: Any, dynamic_shapes: Any) -> Examples:
    """One argument may be given as it is; a dict alone has arguments by name."""
    if isinstance(inputs, Mapping) and kwargs is None:
        inputs, kwargs = (), inputs
    if inputs is not None and not isinstance(inputs, tuple):
        inputs = tuple(inputs) if isinstance(inputs, list) else (inputs,)
    kwargs = None if kwargs is None else read_mapping("example_kwargs", kwargs, "{'mask': mask}", "argument")
    return Examples(inputs, kwargs, dynamic_shapes)


def read_outputs(outputs: Sequence[str] | str | None) -> list[str] | None:
    """One name, or several. Raises OptionError."""
    if outputs is None:
        return None
    if isinstance(outputs, str):
        return [outputs]
    if isinstance(outputs, Mapping) or not all(isinstance(name, str) for name in _items("outputs", outputs)):
        raise _fault(f"outputs are names of values, not {outputs!r:.100}", "as in outputs=['scores']")
    if not outputs:
        raise _fault("outputs is empty: name the values to keep", "None keeps all outputs of the model")
    return list(outputs)


def read_mapping(what: str, given: Any, example: str, of: str = "input") -> Mapping[str, Any]:
    """``given`` if it is a mapping by name; nothing for None. Raises OptionError."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise _fault(f"{what} is a dict by name of {of}, not {given!r:.100}", f"as in {example}")
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
