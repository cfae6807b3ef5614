"""The code of a model's own kernels: sources in units of about the same size, and binaries of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from graphwright.errors import Collector, PluginError, ToolchainError
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.loops.text import print_kernel
from graphwright.kernels.candidates.generated import GENERATED, GeneratedKernels
from graphwright.runtime.target import export_faults
from graphwright.targets.base import Compiler, Target
from graphwright.targets.cpu.isa import ISAS
from graphwright.targets.cpu.source import SIGNATURE
from graphwright.targets.cpu.toolchain import discard

UNIT_TEXT = 2000
"""Characters of loop IR that make a translation unit worth a compiler of its own: about 0.2 s of its time."""
MOST_UNITS = 16
_LOOPS: Final = ".loops"
"""The ending of files of loop IR."""


def sources_of(generated: GeneratedKernels, target: Target, debug: bool = False) -> dict[str, str]:
    """The model's own kernels as files: the target's code, and the loops that it was made from. ``debug``:
    the code says what its file is called, for debuggers.
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
    """Kernels, comments and loops by translation unit: units of about the same size, whatever the machine.

    The largest kernel that is left goes where least is so far (Graham, 1969).
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


def compile_sources(
    sources: Mapping[str, str], generated: GeneratedKernels, compiler: Compiler
) -> dict[str, bytes]:
    """Binaries of what :func:`sources_of` gave, by name without ending.

    Raises ToolchainError, PluginError.
    """
    files = {PurePath(name).stem: text for name, text in sources.items() if not name.endswith(_LOOPS)}
    if not files:
        return {}
    own = {name: files.pop(name) for name in generated.units.values()}
    binaries = _compile_plugins(own, generated, compiler)
    made = compiler.compile(list(files.values()))
    return {**dict(zip(files, made, strict=True)), **binaries}


def _compile_plugins(
    sources: Mapping[str, str], generated: GeneratedKernels, compiler: Compiler
) -> dict[str, bytes]:
    """Those of users' own C, each by itself: what the compiler says of one is said at its lines."""
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
