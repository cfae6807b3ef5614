"""Normalizes and validates the arguments of ``compile``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from graphwright.config import Options
from graphwright.errors import Collector, Diagnostic, OptionError
from graphwright.gears import Gears
from graphwright.ir.sizes import Size
from graphwright.package.package import MAIN
from graphwright.package.zip_directory import is_plain
from graphwright.passes.bind_sizes import Shapes
from graphwright.records import dataclass
from graphwright.support.message_text import did_you_mean, listed

AnyShapes: TypeAlias = Mapping[str, Sequence[Size] | str] | Sequence[Size] | Sequence[Sequence[Size]]
"""Sizes by input; the sizes of the only input; or those of each input, in the order of the model."""


@dataclass(frozen=True)
class Examples:
    """The arguments with which a PyTorch module is exported, and its dynamic shapes."""

    inputs: tuple[Any, ...] | None = None
    kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Any = None

    @property
    def are_given(self) -> bool:
        """Whether any are given."""
        return self != Examples()


@dataclass(frozen=True)
class EntryArguments:
    """The source of one entry, and the arguments that change its inputs and outputs."""

    source: Any
    shapes: AnyShapes | None
    constants: Mapping[str, Any]
    outputs: Sequence[str] | None
    gears: Gears | None
    states: Mapping[str, str]
    examples: Examples

    def read(self) -> list[str] | None:
        """The values of an ONNX model that must be read to compute its outputs; None for all."""
        return None if self.outputs is None else list(dict.fromkeys([*self.outputs, *self.states.values()]))


def read_entries(source: Any, **arguments: Any) -> dict[str, EntryArguments]:
    """The arguments of ``compile`` by entry. There is one entry, or one for each key of ``source`` if this is
    a dict; then each argument is also a dict by entry. Raises OptionError.
    """
    if not isinstance(source, Mapping) or not source:
        return {MAIN: _entry(source, **arguments)}
    faults = Collector(OptionError)
    for name in source:
        if not isinstance(name, str) or "/" in name or not is_plain(name):
            faults.add(
                "entries",
                f"{name!r:.100} is not a valid name of an entry",
                hint="use letters, digits and '_', with '-' or '.' between them",
            )
    by_entry = {}
    for what, given in arguments.items():
        by_entry[what] = read_mapping(
            what, given, f"{what}={{'decode': ...}}, as there are several entries", of="entry"
        )
        for name in by_entry[what].keys() - source.keys():
            hint = f"{did_you_mean([name], source)}the entries are {listed(source)}"
            faults.add("entries", f"{what} names an entry {name!r} that does not exist", hint=hint)
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
    """The examples from the arguments of ``compile``: a single argument need not be in a tuple, and a dict
    has arguments by name.
    """
    if isinstance(inputs, Options):
        raise _fault("example_inputs are options", "pass options by name: compile(model, options=...)")
    if isinstance(inputs, Mapping) and kwargs is None:
        inputs, kwargs = (), inputs
    if inputs is not None and not isinstance(inputs, tuple):
        inputs = tuple(inputs) if isinstance(inputs, list) else (inputs,)
    kwargs = None if kwargs is None else read_mapping("example_kwargs", kwargs, "{'mask': mask}", "argument")
    return Examples(inputs, kwargs, dynamic_shapes)


def read_outputs(outputs: Sequence[str] | str | None) -> list[str] | None:
    """The names of outputs, given as one name or several. Raises OptionError."""
    if outputs is None:
        return None
    if isinstance(outputs, str):
        return [outputs]
    if isinstance(outputs, Mapping) or not all(isinstance(name, str) for name in _items("outputs", outputs)):
        raise _fault(f"outputs must be names of values, not {outputs!r:.100}", "as in outputs=['scores']")
    if not outputs:
        raise _fault("outputs is empty: name the values to keep", "None keeps all outputs of the model")
    return list(outputs)


def read_mapping(what: str, given: Any, example: str, of: str = "input") -> Mapping[str, Any]:
    """``given`` if it is a mapping by name; an empty one for None. Raises OptionError."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise _fault(f"{what} must be a dict by name of {of}, not {given!r:.100}", f"as in {example}")
    return given


def read_shapes(shapes: AnyShapes | None, inputs: Sequence[str]) -> Shapes:
    """``shapes`` as a dict by input, for a model with these ``inputs``. Raises OptionError."""
    if shapes is None:
        return {}
    named = shapes if isinstance(shapes, Mapping) else _by_position(shapes, inputs)
    faults = Collector(OptionError)
    checked = {}
    for name, sizes in named.items():
        if isinstance(sizes, str):
            sizes = [size.strip() for size in sizes.split(",")] if sizes.strip() else []
        if isinstance(sizes, bytes | Mapping) or not isinstance(sizes, Sequence | range):
            message = f"the sizes of input {name!r} must be a tuple of sizes, not {sizes!r:.100}"
            faults.add("shapes", message, hint=f"as in shapes={{{name!r}: (1, 3, 224, 224)}}")
            continue
        checked[name] = tuple(sizes)
    faults.raise_if_any()
    return checked


def _by_position(shapes: Any, inputs: Sequence[str]) -> Mapping[str, Any]:
    """Shapes by input, given as one shape for each input, or as the sizes of the only input."""
    given = list(_items("shapes", shapes))
    is_one = not any(isinstance(each, list | tuple) for each in given)
    rows = [given] if is_one and (given or len(inputs) == 1) else given
    if len(rows) != len(inputs):
        count = "one shape" if len(rows) == 1 else f"{len(rows)} shapes"
        example = "give a dict, as in shapes={'x': (1, 3, 224, 224)}"
        hint = f"the inputs are {', '.join(inputs) or 'none'}; {example}"
        raise _fault(f"shapes has {count}, but the model has {len(inputs)} inputs", hint)
    return dict(zip(inputs, rows, strict=True))


def _items(what: str, given: Any) -> Sequence[Any]:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise _fault(f"{what} is {given!r:.100}, not a list", "see help(graphwright.compile)")
    return given


def _fault(message: str, hint: str) -> OptionError:
    return OptionError(Diagnostic("argument", message, hint=hint))
