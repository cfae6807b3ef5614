"""Opens the models that commands receive: compiles ONNX and PyTorch models, and loads packages."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import graphwright as gw
from graphwright.config import Options
from graphwright.gears import Gears
from graphwright.package.package import Package
from graphwright.package.read import read_package
from graphwright.package.sign import known_keys
from graphwright.records import dataclass
from graphwright.runtime.model import Model
from graphwright.support.file_kinds import PACKAGE, ZIP, kind_of_file
from graphwright.support.message_text import did_you_mean, listed
from graphwright.tools.arguments import (
    Constants,
    EntryName,
    Outputs,
    Shapes,
    Sizes,
    parse_constants,
    parse_names,
    parse_shapes,
    parse_states,
)
from graphwright.tools.flags import FlagGroup
from graphwright.tools.progress import StageTimer, stages

if TYPE_CHECKING:
    from graphwright.compiler.run_passes import Observer


def is_package(path: Path) -> bool:
    """Whether the file is an ``.om``, or another archive that is not a model."""
    return kind_of_file(path) in (PACKAGE, ZIP)


@dataclass(frozen=True)
class CompileFlags(FlagGroup):
    """The flags that say which outputs of a model are compiled, and for which sizes and constants."""

    shape: Shapes = None
    const: Constants = None
    outputs: Outputs = None

    @property
    def sizes(self) -> Sizes:
        """The sizes of --shape."""
        return parse_shapes(self.shape)

    def open(
        self,
        path: Path,
        options: Options,
        *,
        gears: Gears | None = None,
        states: list[str] | None = None,
        observe: Observer | None = None,
    ) -> Model:
        """The model in a file, ready to run: a package is loaded, another model is compiled. Compilation
        calls ``observe``, or shows its progress. Raises the exceptions of ``load`` and ``compile``.
        """
        if is_package(path):
            if self.const or self.outputs or gears or states:
                message = "a package is compiled already: --const, --outputs, --gears and --state are for "
                raise typer.BadParameter(f"{message}.onnx models")
            return gw.load(path, options=options)
        with contextlib.nullcontext(observe) if observe else stages(StageTimer()) as observer:
            return gw.compile(
                str(path),
                shapes=self.sizes,
                constants=parse_constants(self.const),
                outputs=parse_names(self.outputs),
                gears=gears,
                states=parse_states(states),
                options=options,
                observe=observer,
            )


@dataclass(frozen=True)
class ModelFlags(CompileFlags):
    """As :class:`CompileFlags`, for commands that also take an entry of a package."""

    entry: EntryName = None

    def open_entry(
        self,
        path: Path,
        options: Options,
        *,
        gears: Gears | None = None,
        observe: Observer | None = None,
    ) -> Model:
        """As :meth:`open`, the entry of --entry."""
        return entry_of(self.open(path, options, gears=gears, observe=observe), self.entry)

    def read_package(self, path: Path, options: Options) -> Package | None:
        """The package in a file, without loading its kernels; None if the flags or the file require a
        compilation.
        """
        if not is_package(path) or self.shape or self.const or self.outputs:
            return None
        package = read_package(path, trust=options.trust, keys=known_keys(options), use_mmap=True)
        return package if self.entry is None else package.only(entry_named(self.entry, package.entries))


def entry_of(model: Model, name: str | None) -> Model:
    """The entry ``name`` of a model; ``model`` itself for None."""
    return model if name is None else model.entries[entry_named(name, model.entries)]


def entry_named(name: str, entries: Collection[str]) -> str:
    """``name``, which is one of ``entries``. Raises BadParameter."""
    if name not in entries:
        hint = f"{did_you_mean([name], entries)}the entries are {listed(entries)}"
        raise typer.BadParameter(f"there is no entry {name!r}: {hint}", param_hint="--entry")
    return name
