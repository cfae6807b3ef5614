"""The standalone library of a model: it runs the whole model by itself, through the functions of
``graphwright.h``.

The file begins with ``libgraphwright_standalone.so``, which is ``libgraphwright.so`` without a SONAME. Its
parts (:mod:`graphwright.autofusion.library_parts`) are a package with code for each ISA, and the kernel
libraries that this code calls. ``c_api/embedded.c`` reads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, Final

from graphwright.autofusion.library_parts import Part, write_library
from graphwright.compiler.driver import compile_module
from graphwright.compiler.join_targets import compile_targets
from graphwright.config import Options
from graphwright.errors import Diagnostic, ModelError
from graphwright.executable.nodes import (
    COMPILE,
    Dispatch,
    Executable,
    Program,
    children_of,
    map_programs,
)
from graphwright.executable.python_needs import python_needs
from graphwright.frontends.onnx import Opened, load
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Module
from graphwright.ir.nesting import regions_of
from graphwright.package.pack_weights import no_weights
from graphwright.package.package import Entry, Package
from graphwright.package.write import write_package
from graphwright.records import dataclass, replace
from graphwright.runtime.devices.kernel_library import LIBRARY_FOLDER
from graphwright.runtime.devices.this_cpu import for_this_cpu
from graphwright.support.escaping import identifier, terminal
from graphwright.targets.cpu.isa import ISAS

_CODE: Final = LIBRARY_FOLDER / "libgraphwright_standalone.so"


@dataclass(frozen=True)
class Standalone:
    """The library of one model. ``package`` has what a run needs, and nothing to compile it again."""

    package: Package

    @property
    def assumed(self) -> list[str]:
        """Conditions on the sizes of inputs. Sizes that violate them have no program in the library. Empty if
        it runs all sizes that the model allows.
        """
        executable = self.package.main.executable
        return [] if executable is None else list(dict.fromkeys(_assumed(executable)))

    def parts(self) -> dict[str, Part]:
        """The parts after the code, by name."""
        parts: dict[str, Part] = {}
        for isa in self.package.isas() or ISAS:
            code = (LIBRARY_FOLDER / f"libgraphwright_kernels_{isa}.so").read_bytes()
            parts[f"{isa}/kernels.so"] = code
            parts[f"{isa}/kernels.sha256"] = hashlib.sha256(code).hexdigest().encode()
        parts["model.om"] = partial(write_package, self.package)
        return parts

    def write(self, file: BinaryIO) -> None:
        """Writes the library to a new file."""
        write_library(file, _CODE.read_bytes(), self.parts())


def library_name(stem: str) -> str:
    """The file name of the library of a model: ``-lNAME`` links it, where NAME is ``stem`` as an
    identifier.
    """
    return f"lib{identifier(stem, 'model')}.so"


def build_standalone(opened: Opened, options: Options) -> Standalone:
    """Compiles a model for the ISA of the option ``isa``, or for all ISAs. The package stores weights as this
    CPU's kernels read them. Raises ModelError, with all nodes that need Python; ToolchainError.
    """
    here = for_this_cpu(options).isa
    others = [isa for isa in ISAS if isa != here] if options.isa == "auto" else []
    wanted = replace(options, targets=(here, *others), device="cpu")
    module = load(replace(opened, module=Module()))
    with regions_of(module):
        package = compile_targets(wanted, lambda each: compile_module(clone_module(module), each))
    _require_native(package)
    return Standalone(_for_running(package))


def _require_native(package: Package) -> None:
    """Raises ModelError for each part of the model that needs Python."""
    executable = package.main.executable
    needs = [] if executable is None else python_needs(executable)
    if needs:
        faults = [Diagnostic("standalone", terminal(each.what), terminal(each.where)) for each in needs]
        hint = "leave out --standalone: graphwright compile writes a package that Python runs"
        raise ModelError(*faults[:-1], replace(faults[-1], hint=hint))


def _for_running(package: Package) -> Package:
    """``package`` without what only compiling and inspecting it need."""
    entries = {name: _entry_for_running(entry) for name, entry in package.entries.items()}
    reduced: Package = replace(package, entries=entries, spare=no_weights)
    return reduced


def _entry_for_running(entry: Entry) -> Entry:
    executable = entry.executable
    bare = None if executable is None else map_programs(executable, _without_sources)
    reduced: Entry = replace(
        entry, executable=bare, graph="", general="", report="", decisions="", remarks=""
    )
    return reduced


def _without_sources(program: Program) -> Program:
    targets = {isa: replace(target, sources={}) for isa, target in program.targets.items()}
    reduced: Program = replace(program, targets=targets)
    return reduced


def _assumed(executable: Executable) -> Iterator[str]:
    if isinstance(executable, Dispatch) and executable.otherwise == COMPILE:
        for case in executable.cases:
            yield from case.guards or [", ".join(map(str, case.inputs))]
    for child in children_of(executable):
        yield from _assumed(child)
