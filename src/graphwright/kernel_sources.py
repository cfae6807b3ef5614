"""Writes the generated kernels of a model as standalone C files, to read, change and run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from graphwright.errors import Diagnostic, OptionError
from graphwright.executable.target_code import TargetCode
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.loops.text import parse_kernels
from graphwright.kernels.candidates.generated import GENERATED
from graphwright.kernels.ref import KernelRef
from graphwright.low_ir.tasks import FunctionOperand, TaskGraph, TaskKind
from graphwright.package.package import Package
from graphwright.records import replace
from graphwright.runtime.model import Model
from graphwright.support.unique_names import UniqueNames
from graphwright.support.whole_folder import new_folder_fault, write_folder
from graphwright.targets.cpu.isa import ISAS
from graphwright.targets.cpu.standalone import standalone_commands, standalone_source
from graphwright.targets.cpu.toolchain import BUILD_SCRIPT, build_script


def emit_sources(model: Model, folder: str | os.PathLike[str]) -> list[Path]:
    """Writes each generated kernel of ``model`` to a C file in ``folder``, with the nodes that it computes,
    its loops, and a main function that checks and times it. ``build.sh`` builds and runs all of them. Returns
    the files.

    The folder is written completely or not at all. Raises OptionError for a folder that is not empty or
    cannot be made, or if ``model`` is not compiled, and OSError.
    """
    if not isinstance(model, Model):
        message = f"emit_sources takes a compiled model, not {type(model).__name__}"
        raise OptionError(Diagnostic("model", message, hint="compile or load it first"))
    path = Path(folder)
    fault = new_folder_fault(path)
    if fault is not None:
        raise OptionError(Diagnostic("folder", fault, hint="name a new folder"))
    texts = kernel_sources(model.package)
    write_folder(path, texts)
    return [path / name for name in texts]


def kernel_sources(package: Package) -> dict[str, str]:
    """The files of all generated kernels of ``package`` by name."""
    return standalone_files([pair for program in package.programs() for pair in program.targets.items()])


def standalone_files(targets: Sequence[tuple[str, TargetCode]]) -> dict[str, str]:
    """The files of all generated kernels of ``targets``, given with the ISA of each, by name; with several
    ISAs, names contain the ISA.
    """
    several, names = len({isa for isa, _ in targets}) > 1, UniqueNames()
    sources: dict[str, str] = {}
    commands: list[Sequence[str]] = []
    for (isa, kernel), nodes in _launched(targets).items():
        name = names.take(f"{kernel.name}_{isa}" if several else kernel.name)
        sources[f"{name}.c"] = standalone_source(replace(kernel, name=name), nodes, ISAS[isa])
        commands += standalone_commands(name, ISAS[isa])
    return {**sources, BUILD_SCRIPT: build_script(commands)}


def _launched(targets: Sequence[tuple[str, TargetCode]]) -> dict[tuple[str, Kernel], dict[str, None]]:
    """Generated kernels by ISA, each with the nodes that its launches compute."""
    found: dict[tuple[str, Kernel], dict[str, None]] = {}
    for isa, target in targets:
        if isa not in ISAS:
            continue
        nodes = _nodes(target.task_graph)
        for kernel in _kernels(target):
            at = nodes.get(KernelRef(kernel.name, GENERATED), {})
            found.setdefault((isa, kernel), {}).update(at)
    return {key: nodes for key, nodes in found.items() if nodes}


def _kernels(target: TargetCode) -> Iterator[Kernel]:
    """The generated kernels of a target, from all translation units."""
    for name, text in target.sources.items():
        if name.endswith(".loops"):
            yield from parse_kernels(text)


def _nodes(tasks: TaskGraph) -> Mapping[KernelRef, dict[str, None]]:
    """The nodes that the launches of each kernel compute, including epilogues that a library kernel calls."""
    found: dict[KernelRef, dict[str, None]] = {}
    for task in tasks.tasks:
        if task.kind is TaskKind.LAUNCH:
            hooks = [o.kernel for o in task.operands if isinstance(o, FunctionOperand)]
            for number in (task.kernel, *hooks):
                found.setdefault(tasks.kernels[number], {})[task.name] = None
    return found
