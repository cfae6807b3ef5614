"""Declares the flags that several commands have, and parses their texts: shapes, constants, states, names."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from graphwright.errors import Diagnostic, FeedError
from graphwright.ir.sizes import SizeRange, parse_size
from graphwright.support.whole_folder import new_folder_fault
from graphwright.tools.arrays import read_npy, read_npz
from graphwright.tools.console import say
from graphwright.tools.machine import versions

Sizes = dict[str, list[int | str | SizeRange | None]]


def show_version(wanted: bool) -> None:
    """Shows the version and exits, if ``wanted``."""
    if wanted:
        say(versions(["graphwright"])["graphwright"])
        raise typer.Exit()


def flag(name: str, metavar: str, text: str, panel: str | None = None) -> Any:
    """A flag with a text value, without a default in the help."""
    return typer.Option(name, metavar=metavar, help=text, show_default=False, rich_help_panel=panel)


Model = Annotated[
    Path,
    typer.Argument(
        help="An .onnx model, a PyTorch program (.pt2) or an .om package; - is standard input.",
        metavar="MODEL",
        show_default=False,
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        help=(
            "Maximum error relative to the maximum magnitude of a value; default: 1e-4, more for models with "
            "16-bit floats."
        ),
        min=0,
        show_default=False,
    ),
]
Shapes = Annotated[
    list[str] | None,
    flag(
        "--shape",
        "NAME:SIZES",
        "Sizes of an input, as in x:1,3,224,224. A name makes a size symbolic, and ? keeps the model's own. "
        "1..16 and N=1..16 are ranges; %32 after a range or a name means multiples of 32, as in "
        "x:N=1..16,3,64..512%32,?. Repeatable.",
    ),
]
Constants = Annotated[
    list[str] | None,
    flag(
        "--const",
        "NAME=VALUE",
        "Replace an input by a number, a JSON list, or an array of a .npy or .npz file, as in sr=16000. "
        "Without NAME, an .npz file replaces the inputs that it has arrays of. Repeatable.",
    ),
]
Outputs = Annotated[
    str | None,
    flag("--outputs", "NAMES", "The outputs to keep, as in a,b; intermediate values can be named too."),
]
States = Annotated[
    list[str] | None,
    flag(
        "--state",
        "INPUT=OUTPUT",
        "Keep INPUT between runs as a state, with OUTPUT as its next value. Repeatable.",
    ),
]
EntryName = Annotated[
    str | None,
    flag("--entry", "NAME", "The entry of a package that has several; default: the first."),
]
Feeds = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="NAME=VALUE",
        help=(
            "An input: an .npy file, a .pb file as in ONNX's test data, or JSON (a number or list; an "
            "object for a map, null for an empty optional). A sequence is a list or an .npz file. "
            "Without NAME, an .npz file gives several inputs by name, and a folder gives all inputs: "
            "input_0.pb, input_1.pb and so on. Repeatable."
        ),
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the random inputs.", min=0)]
NewModel = Annotated[
    Path | None,
    typer.Argument(help="With --diff: the model to compare with.", metavar="[NEW]", show_default=False),
]
Version = Annotated[
    bool,
    typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON with stable keys.")]


def parse_states(texts: Sequence[str] | None) -> dict[str, str]:
    """``["h=h_next"]`` as ``{"h": "h_next"}``."""
    states = {}
    for text in texts or ():
        name, separator, following = text.partition("=")
        if not (name and separator and following):
            raise typer.BadParameter(f"{text!r} is not INPUT=OUTPUT", param_hint="--state")
        states[name] = following
    return states


def parse_shapes(texts: Sequence[str] | None) -> Sizes:
    """``["x:1,3,H,?"]`` as ``{"x": [1, 3, "H", None]}``, ranges as :class:`SizeRange`; a name may contain
    colons.
    """
    return dict(_parse_shape(text) for text in texts or ())


def _parse_shape(text: str) -> tuple[str, list[int | str | SizeRange | None]]:
    name, sizes = named_sizes(text, "--shape", "NAME:SIZES, such as x:1,3,224,224")
    return name, [_parse_size(size.strip(), text) for size in sizes.split(",")] if sizes.strip() else []


def named_sizes(text: str, flag: str, form: str) -> tuple[str, str]:
    """The name before the last colon, and the sizes after it."""
    name, colon, sizes = text.rpartition(":")
    if not colon or not name:
        raise typer.BadParameter(f"{text!r} is not {form}", param_hint=flag)
    return name, sizes


def _parse_size(text: str, whole: str) -> int | str | SizeRange | None:
    try:
        size = parse_size(text)
    except FeedError as error:
        (found,) = error.diagnostics
        message = f"in {whole!r}, {found.message}: {found.hint}"
        raise typer.BadParameter(message, param_hint="--shape") from error
    return size.name if isinstance(size, SizeRange) and size == SizeRange(size.name) and size.name else size


def parse_constants(texts: Sequence[str] | None) -> dict[str, Any]:
    """``["sr=16000", "w=w.npy", "more.npz"]`` as values by name; a FeedError names an unreadable file."""
    values: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals and text.endswith(".npz"):
            found = dict(read_npz(Path(text)))
        elif name and equals:
            found = {name: _read_constant(name, value)}
        else:
            raise typer.BadParameter(f"{text!r} is neither NAME=VALUE nor an .npz file", param_hint="--const")
        if again := values.keys() & found.keys():
            raise typer.BadParameter(f"{min(again)!r} is given twice", param_hint="--const")
        values |= found
    return values


def _read_constant(name: str, text: str) -> Any:
    """The value of one constant; of an ``.npz`` file, the array with the name of the constant, or the only
    array.
    """
    if not text.endswith(".npz"):
        return read_value(text, "--const")
    arrays = read_npz(Path(text))
    if name in arrays:
        return arrays[name]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    message = f"has no array {name!r}, only {', '.join(map(repr, arrays)) or 'none'}"
    raise FeedError(Diagnostic("array-file", message, text))


def read_value(text: str, flag: str) -> Any:
    """The array in a ``.npy`` file, or the number, bool or list that ``text`` contains as JSON."""
    value = read_npy(Path(text)) if text.endswith(".npy") else read_json(text)
    if not isinstance(value, bool | int | float | list | np.ndarray):
        raise typer.BadParameter(f"{text!r} is not a .npy file, a number or a JSON list", param_hint=flag)
    return value


NO_JSON: Final = object()
"""The result for a text that is not JSON; None is the value null."""


def read_json(text: str) -> Any:
    """``text`` decoded as JSON, or NO_JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return NO_JSON


def as_array(value: Any, dtype: np.dtype[Any], name: str) -> np.ndarray[Any, Any]:
    """``value`` as an array; an array keeps its dtype."""
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.asarray(value, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise FeedError(Diagnostic("feed-dtype", f"input {name!r} is {dtype}: {error}")) from error


def require_folder(file: Path | None, flag: str) -> None:
    """Raises an error for a path that cannot be written, before any work is done."""
    if file is not None and not file.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {str(file.parent)!r}", param_hint=flag)
    if file is not None and (file.is_file() or not file.exists()) and not os.access(file.parent, os.W_OK):
        raise typer.BadParameter(f"the folder {str(file.parent)!r} cannot be written", param_hint=flag)
    if file is not None and file.is_dir():
        raise typer.BadParameter(f"{str(file)!r} is a folder: name a file in it", param_hint=flag)


def require_new_folder(folder: Path | None, flag: str) -> None:
    """Raises an error for a folder that cannot be made or is not empty, before any work is done."""
    fault = None if folder is None else new_folder_fault(folder)
    if fault is not None:
        raise typer.BadParameter(f"{fault}: name a new folder", param_hint=flag)


def parse_names(text: str | None) -> list[str] | None:
    """``"a,b"`` as a list."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise typer.BadParameter(f"{text!r} has an empty name", param_hint="--outputs")
    return names
