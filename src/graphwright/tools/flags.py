"""Adds flags to commands: those of a group, and one for each option of the compiler."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, TextIO, get_type_hints

import typer

import graphwright as gw
from graphwright.config import Options, variable
from graphwright.errors import Collector, GraphwrightError, OptionError
from graphwright.option_values import read_bytes, read_count, read_folder, read_positive
from graphwright.records import fields, replace
from graphwright.tools.console import set_verbosity

_VALUE_NAMES: Final[Mapping[Callable[[str], Any], str]] = {
    read_count: "NUMBER", read_positive: "NUMBER", read_folder: "FOLDER", read_bytes: "BYTES",
}  # fmt: skip
_PANEL: Final = "Options of the compiler (also GRAPHWRIGHT_NAME in the environment)"


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds a flag to ``command`` for every compiler option that is not one of its own parameters. The
    parameter ``options`` of ``command`` receives the checked options.
    """
    return _with_flags(command, fields(Options))


def with_options_of(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As :func:`with_options`, for the existing options among ``names``."""
    return lambda command: _with_flags(command, [each for each in fields(Options) if each.name in names])


class FlagGroup:
    """Flags that several commands have. A subclass declares each flag as a field, with the annotation and the
    default that a parameter of a command would have. A command with a parameter of the subclass has all its
    flags, and receives their values as one object.
    """

    @classmethod
    def flags(cls) -> list[inspect.Parameter]:
        """The flags as keyword parameters."""
        return [
            _parameter(name, annotation, getattr(cls, name))
            for name, annotation in get_type_hints(cls, include_extras=True).items()
        ]


def _with_flags(command: Callable[..., None], options: Sequence[Any]) -> Callable[..., None]:
    """``command`` with a flag for each of ``options``, for verbosity, and for the fields of flag groups."""
    every = inspect.signature(command, eval_str=True).parameters.values()
    own = [_parameter(p.name, p.annotation, p.default) for p in every if p.name != "options"]
    groups: dict[str, type[FlagGroup]] = {p.name: p.annotation for p in own if _is_group(p.annotation)}
    parameters = [flag for p in own for flag in (groups[p.name].flags() if p.name in groups else [p])]
    names = {parameter.name for parameter in parameters}
    added = [*_verbosity(), *(_flag(option) for option in options if option.name not in names)]

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> None:
        given = {flag.name: arguments.pop(flag.name) for flag in added}
        set_verbosity(given.pop("verbose"), given.pop("quiet"))
        options = read_options(given)
        if options.plugins:
            gw.plugins.load(*options.plugins)
        grouped = {
            name: group(**{flag.name: arguments.pop(flag.name) for flag in group.flags()})
            for name, group in groups.items()
        }
        with _given_model({**arguments, **grouped}) as read:
            command(**read, options=options)

    parameters += added
    wrapped.__doc__ = unwrapped(command.__doc__)
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def unwrapped(help_text: str | None) -> str:
    """``help_text`` with each paragraph in one line, as typer breaks lines at the width of the terminal but
    keeps line breaks. Indented lines, such as examples, stay lines.
    """
    return re.sub(r"(?<=\S)\n(?=\S)", " ", inspect.cleandoc(help_text or ""))


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, FlagGroup)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


STANDARD_INPUT: Final = "standard input"
"""The name of the temporary file for a model that was read from a stream."""


def shown_path(model: Path) -> str:
    """``model`` for users, who do not know that temporary file."""
    return STANDARD_INPUT if model.name == STANDARD_INPUT else str(model)


@contextlib.contextmanager
def _given_model(arguments: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """``arguments``, in which a file replaces a model that can be read only once: ``-``, or a named pipe.
    Errors name the stream, not the file.
    """
    model = arguments.get("model")
    if not isinstance(model, Path) or not (model == Path("-") or model.is_fifo()):
        yield arguments
        return
    with tempfile.TemporaryDirectory(prefix="graphwright-") as folder, _stream(model) as given:
        path = Path(folder) / STANDARD_INPUT
        with open(path, "wb") as file:
            shutil.copyfileobj(given, file, 1 << 20)
        try:
            yield {**arguments, "model": path}
        except GraphwrightError as error:
            name = STANDARD_INPUT if model == Path("-") else str(model)
            named = (replace(each, where=each.where.replace(str(path), name)) for each in error.diagnostics)
            error.diagnostics = tuple(named)
            raise


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
        _parameter("verbose", Annotated[int, more], default=0),
        _parameter("quiet", Annotated[bool, less], default=False),
    ]


def _flag(of: Any) -> inspect.Parameter:
    """The flag of a compiler option."""
    name, default, help_text = of.name, of.default, of.metadata["help"]
    switch = isinstance(default, bool)
    several = isinstance(default, tuple) and not of.metadata["one_text"]
    option = typer.Option(
        f"--{(name.removesuffix('s') if several else name).replace('_', '-')}",
        help=f"{help_text[0].upper()}{help_text[1:]}.{' Repeatable.' * several}",
        metavar=None if switch else "NAME" if several else _VALUE_NAMES.get(of.metadata["read"], "VALUE"),
        show_default=False,
        rich_help_panel=_PANEL,
    )
    kind: Any = bool if switch else (list[str] | None) if several else (str | None)
    return _parameter(name, Annotated[kind, option], False if switch else None)


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
