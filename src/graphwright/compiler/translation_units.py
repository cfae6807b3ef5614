"""Sources of generated kernels, in translation units of about equal size, and their compilation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from graphwright.errors import Collector, PluginError, ToolchainError
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.loops.text import print_kernel
from graphwright.kernels.candidates.generated import GENERATED, GeneratedKernels
from graphwright.runtime.devices.kernel_library import export_faults
from graphwright.targets.base import Compiler, Target
from graphwright.targets.cpu.isa import ISAS
from graphwright.targets.cpu.toolchain import discard
from graphwright.targets.cpu.user_code import SIGNATURE

UNIT_TEXT = 2000
"""Characters of loop IR that justify another compiler process: about 0.2 s of compilation."""
MOST_UNITS = 16
_LOOPS: Final = ".loops"
"""Suffix of loop IR files."""


def sources_of(generated: GeneratedKernels, target: Target, debug: bool = False) -> dict[str, str]:
    """The generated kernels as files: target code, and the loop IR that it was made from. ``debug``: the code
    names its file (``#line``) for debuggers.
    """
    files: dict[str, str] = {}
    for name, unit in _units(generated.kernels()).items():
        file = f"{name}{target.source_suffix}"
        head = f'#line 2 "{file}"\n' if debug else ""
        files[file] = head + target.emit([(kernel, comment) for kernel, comment, _ in unit])
        files[f"{name}{_LOOPS}"] = "\n".join(text for _, _, text in unit)
    for source, name in generated.units.items():
        files[f"{name}.c"] = source.unit(ISAS[target.library], generated.functions[source])
    return files


def _units(kernels: list[tuple[Kernel, str]]) -> dict[str, list[tuple[Kernel, str, str]]]:
    """Kernels with comment and loop IR, by translation unit. The units have about equal size and do not
    depend on the machine.

    Longest processing time first: the largest remaining kernel goes to the smallest unit
    (Graham, 1969).
    """
    texts = [print_kernel(kernel) for kernel, _ in kernels]
    count = min(-(-sum(map(len, texts)) // UNIT_TEXT), MOST_UNITS, len(kernels))
    if not count:
        return {}
    members: list[list[int]] = [[] for _ in range(count)]
    sizes = [0] * count
    for number in sorted(range(len(kernels)), key=lambda k: -len(texts[k])):
        unit = sizes.index(min(sizes))
        members[unit].append(number)
        sizes[unit] += len(texts[number])
    names = [GENERATED] if count == 1 else [f"{GENERATED}_{unit}" for unit in range(count)]
    return {
        name: [(*kernels[k], texts[k]) for k in sorted(numbers)]
        for name, numbers in zip(names, members, strict=True)
    }


def compile_files(
    sources: Mapping[str, str], generated: GeneratedKernels, compiler: Compiler
) -> dict[str, bytes]:
    """Compiles the files of :func:`sources_of`; binaries by file name without suffix.

    Raises ToolchainError, PluginError.
    """
    files = {PurePath(name).stem: text for name, text in sources.items() if not name.endswith(_LOOPS)}
    if not files:
        return {}
    own = {name: files.pop(name) for name in generated.units.values()}
    binaries = _compile_plugins(own, generated, compiler)
    objects = compiler.compile(list(files.values()))
    return {**dict(zip(files, objects, strict=True)), **binaries}


def _compile_plugins(
    sources: Mapping[str, str], generated: GeneratedKernels, compiler: Compiler
) -> dict[str, bytes]:
    """Compiles users' C sources one by one, so that compiler messages point at lines of their files."""
    faults = Collector(PluginError)
    binaries: dict[str, bytes] = {}
    for source, name in generated.units.items():
        try:
            (binaries[name],) = compiler.compile([sources[name]])
        except ToolchainError as error:
            faults.diagnostics.append(source.refused(error))
            discard(error)
            continue
        for fault in export_faults(binaries[name], generated.functions[source]):
            faults.add("plugin-source", fault, source.file, f"a kernel is int32_t NAME{SIGNATURE}")
    faults.raise_if_any()
    return binaries
