"""Parses arguments of the command line: shapes, constants, feeds, and the options of the compiler as
flags.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, TextIO

import numpy as np
import typer

import graphwright as gw
from graphwright.config import Options, variable
from graphwright.errors import Collector, Diagnostic, FeedError, OptionError
from graphwright.ir.sizes import Dim, parse_size
from graphwright.records import fields
from graphwright.support.whole_folder import new_folder_fault
from graphwright.tools.arrays import read_npy, read_npz
from graphwright.tools.console import set_verbosity

Sizes = dict[str, list[int | str | Dim | None]]


def flag(name: str, metavar: str, text: str, panel: str | None = None) -> Any:
    """A flag with a text value, without a default in the help."""
    return typer.Option(name, metavar=metavar, help=text, show_default=False, rich_help_panel=panel)


Model = Annotated[
    Path,
    typer.Argument(
        help="An .onnx model or an .om package; - reads it from standard input.",
        metavar="MODEL",
        show_default=False,
    ),
]
Shapes = Annotated[
    list[str] | None,
    flag(
        "--shape",
        "NAME:SIZES",
        "Sizes of an input, as in x:1,3,224,224. A name makes a size symbolic, ? keeps the model's own; 1..16"
        " and N=1..16 are ranges, %32 after one means multiples of 32, as in x:N=1..16,3,H=64..2048%32,?. "
        "Repeatable.",
    ),
]
Constants = Annotated[
    list[str] | None,
    flag(
        "--const",
        "NAME=VALUE",
        "Replace an input by a number, a JSON list, or an array of a .npy or .npz file, as in sr=16000. "
        "An .npz file alone gives several. Repeatable.",
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
        "Keep an input as a state between runs: an output is its next value. Repeatable.",
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
            "Repeatable. Without a name, an .npz file gives several inputs, and a folder gives all of "
            "them as input_0.pb and so on."
        ),
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the random inputs.", min=0)]


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
    """``["x:1,3,H,?"]`` as ``{"x": [1, 3, "H", None]}``, ranges as :class:`Dim`; a name may contain
    colons.
    """
    return dict(_parse_shape(text) for text in texts or ())


def _parse_shape(text: str) -> tuple[str, list[int | str | Dim | None]]:
    name, sizes = named_sizes(text, "--shape", "NAME:SIZES, such as x:1,3,224,224")
    return name, [_parse_size(size.strip(), text) for size in sizes.split(",")] if sizes.strip() else []


def named_sizes(text: str, flag: str, form: str) -> tuple[str, str]:
    """The name before the last colon, and the sizes after it."""
    name, colon, sizes = text.rpartition(":")
    if not colon or not name:
        raise typer.BadParameter(f"{text!r} is not {form}", param_hint=flag)
    return name, sizes


def _parse_size(text: str, whole: str) -> int | str | Dim | None:
    try:
        size = parse_size(text)
    except FeedError as error:
        (found,) = error.diagnostics
        message = f"in {whole!r}, {found.message}: {found.hint}"
        raise typer.BadParameter(message, param_hint="--shape") from error
    return size.name if isinstance(size, Dim) and size == Dim(size.name) and size.name else size


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


_PANEL: Final = "Options of the compiler (also GRAPHWRIGHT_NAME in the environment)"


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds a flag to ``command`` for every compiler option that is not one of its own parameters. The
    parameter ``options`` of ``command`` receives the checked options.
    """
    return _with_flags(command, fields(Options))


def with_options_of(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As :func:`with_options`, for the existing options among ``names``."""
    return lambda command: _with_flags(command, [each for each in fields(Options) if each.name in names])


def _with_flags(command: Callable[..., None], options: Sequence[Any]) -> Callable[..., None]:
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "options"]
    taken = {parameter.name for parameter in own}
    flags = [
        *_verbosity(),
        *(_flag(option) for option in options if option.name not in taken),
    ]

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> None:
        given = {flag.name: arguments.pop(flag.name) for flag in flags}
        set_verbosity(given.pop("verbose"), given.pop("quiet"))
        options = read_options(given)
        if options.plugins:
            gw.plugins.load(*options.plugins)
        with _given_model(arguments) as read:
            command(**read, options=options)

    parameters = [*own, *flags]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


STANDARD_INPUT: Final = "standard-input"
"""The name of the temporary file for a model that was read from a stream."""


@contextlib.contextmanager
def _given_model(arguments: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """``arguments``, in which a file replaces a model that can be read only once: ``-``, or a named pipe."""
    model = arguments.get("model")
    if not isinstance(model, Path) or not (model == Path("-") or model.is_fifo()):
        yield arguments
        return
    with tempfile.TemporaryDirectory(prefix="graphwright-") as folder, _stream(model) as given:
        path = Path(folder) / STANDARD_INPUT
        with open(path, "wb") as file:
            shutil.copyfileobj(given, file, 1 << 20)
        yield {**arguments, "model": path}


def _stream(model: Path) -> contextlib.AbstractContextManager[BinaryIO]:
    """Opens a named pipe, or standard input, which is not closed."""
    if model.is_fifo():
        return open(model, "rb")
    given: TextIO | None = sys.stdin
    if given is None or given.isatty():
        what = "closed" if given is None else "a terminal"
        message = f"standard input is {what}: redirect a model into it, or give its path"
        raise typer.BadParameter(message, param_hint="MODEL")
    return contextlib.nullcontext(given.buffer)


def _verbosity() -> list[inspect.Parameter]:
    """The flags ``-v`` and ``-q``."""
    more = typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        help="Log progress to stderr; -vv logs each stage and compiler command.",
    )
    less = typer.Option("--quiet", "-q", show_default=False, help="Print only results and errors.")
    return [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, flag]
        )
        for name, default, kind, flag in (("verbose", 0, int, more), ("quiet", False, bool, less))
    ]


def _flag(of: Any) -> inspect.Parameter:
    """The flag of a compiler option."""
    name, default, help_text = of.name, of.default, of.metadata["help"]
    switch = isinstance(default, bool)
    several = isinstance(default, tuple) and not of.metadata["one_text"]
    option = typer.Option(
        f"--{(name.removesuffix('s') if several else name).replace('_', '-')}",
        help=f"{help_text[0].upper()}{help_text[1:]}.{' Repeatable.' * several}",
        metavar=None if switch else "NAME" if several else "VALUE",
        show_default=False,
        rich_help_panel=_PANEL,
    )
    kind: Any = bool if switch else (list[str] | None) if several else (str | None)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if switch else None,
        annotation=Annotated[kind, option],
    )


def read_options(given: Mapping[str, str | bool | list[str] | None]) -> Options:
    """Options from texts, which override those of the environment. An OptionError lists all invalid ones."""
    faults = Collector(OptionError)
    values: dict[str, Any] = {}
    for option in fields(Options):
        value = given.get(option.name)
        if isinstance(value, bool):
            values |= {option.name: True} if value else {}
        elif isinstance(value, list):
            values |= {option.name: tuple(value)} if value else {}
        elif value is not None:
            try:
                values[option.name] = option.metadata["read"](value)
            except ValueError as error:
                hint = f"{option.metadata['help']}; also {variable(option.name)}"
                faults.add("option", f"--{option.name.replace('_', '-')} {value!r}: {error}", hint=hint)
    faults.raise_if_any()
    return Options.from_environment(**values)
