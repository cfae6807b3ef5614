"""Opens the models that commands receive: compiles ONNX and PyTorch models, and loads packages."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import graphwright as gw
from graphwright.config import Options
from graphwright.gears import Gears
from graphwright.runtime.model import Model
from graphwright.support.file_kinds import PACKAGE, ZIP, kind_of_file
from graphwright.support.spelling import did_you_mean, listed
from graphwright.tools.arguments import Sizes, parse_constants, parse_names, parse_states

if TYPE_CHECKING:
    from graphwright.compiler.modules import Observer


def is_package(path: Path) -> bool:
    """Whether the file is an ``.om``, or another archive that is not a model."""
    return kind_of_file(path) in (PACKAGE, ZIP)


def open_model(
    path: Path,
    options: Options,
    *,
    shapes: Sizes | None = None,
    constants: list[str] | None = None,
    outputs: str | None = None,
    gears: Gears | None = None,
    states: list[str] | None = None,
    entry: str | None = None,
    observe: Observer = lambda name, product: None,
) -> Model:
    """Loads a package, or compiles another model for ``shapes``. Raises the errors of ``load`` and
    ``compile``.
    """
    if not is_package(path):
        opened = gw.compile(
            str(path),
            shapes=shapes,
            constants=parse_constants(constants),
            outputs=parse_names(outputs),
            gears=gears,
            states=parse_states(states),
            options=options,
            observe=observe,
        )
    else:
        if constants or outputs or gears or states:
            raise typer.BadParameter(
                "a package is compiled already: --const, --outputs, --gears and --state are for .onnx models"
            )
        opened = gw.load(path, options=options)
    return opened if entry is None else opened.entries[entry_named(entry, opened.entries)]


def entry_named(name: str, entries: Collection[str]) -> str:
    """``name``, which is one of ``entries``. Raises BadParameter."""
    if name not in entries:
        hint = f"{did_you_mean([name], entries)}the entries are {listed(entries)}"
        raise typer.BadParameter(f"there is no entry {name!r}: {hint}", param_hint="--entry")
    return name
