"""Writes the generated C code that the kernel library of one ISA is built from.

The build runs ``python -m graphwright.kernels.library.write FOLDER ISA``; for an editable install it adds
``--record``, and the library then records which modules wrote it. A kernel is two files in the folder of its
family. ``FAMILY/NAME.c`` is compiled as it is. ``FAMILY/NAME.py`` defines ``header(isa) -> str`` (arguments,
positions of operands, block sizes, and unrolled code) and ``extents(isa)``, the memory that each kernel of
the file accesses. The C file includes the header as ``"FAMILY/NAME.gen.h"``. A kernel without an extent is
not built.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import graphwright.kernels as kernels
from graphwright.kernels.library.extent import Extent, c_text
from graphwright.support.source_record import record_of
from graphwright.targets.cpu.isa import ISAS, Isa

PACKAGE = Path(__file__).parents[2]
TARGETS = PACKAGE / "targets"
"""The folder that contains ``vector.h``."""
_KERNEL = re.compile(r"^(?:GW_KERNEL\(|#define KERNEL )(\w+)", re.MULTILINE)
"""Matches the definition of a kernel in a C file, also in one that is included several times."""
_RECORD = "--record"
_USAGE = f"usage: python -m graphwright.kernels.library.write FOLDER {'|'.join(ISAS)} [{_RECORD}]"


class KernelModule(Protocol):
    """The interface of the Python module next to the C file of kernels."""

    __name__: str
    __file__: str | None
    header: Callable[[Isa], str]
    extents: Callable[[Isa], tuple[Extent, ...]]


def source_modules() -> list[str]:
    """The names of all modules with kernels, which have a C file of the same name next to them. Raises
    ValueError for a C file without a module.
    """
    found = sorted((path.relative_to(root), path) for root in _roots() for path in root.rglob("*.c"))
    alone = [str(path) for _, path in found if not path.with_suffix(".py").exists()]
    if alone:
        raise ValueError(f"C files without a Python module of the same name: {', '.join(alone)}")
    return [".".join((kernels.__name__, *name.with_suffix("").parts)) for name, _ in found]


def kernel_modules() -> list[KernelModule]:
    """All modules with kernels."""
    return [cast(KernelModule, import_module(name)) for name in source_modules()]


def argument_names(isa: Isa) -> dict[str, tuple[str, ...]]:
    """The names of the arguments of each kernel of the library."""
    return {extent.symbol: extent.args for module in kernel_modules() for extent in module.extents(isa)}


def _roots() -> list[Path]:
    """The folders that contain families of kernels."""
    return [Path(root) for root in kernels.__path__]


def write_sources(folder: Path, isa: Isa, *, is_recorded: bool = False) -> list[Path]:
    """Writes the generated files of all modules, ``flags.txt`` and ``sources.txt``, and removes files of
    earlier runs that are no longer written. Returns the files to compile, which ``sources.txt`` lists as
    well. With ``is_recorded``, the library contains a record of the modules that wrote it.
    """
    modules = kernel_modules()
    sources = [path for module in modules for path in write_module(module, isa, folder)]
    names = folder / f"names_{isa.name}.c"
    listed = [*sources, names]
    written = {path for path in listed if path.is_relative_to(folder)}
    written |= {_generated(folder, module) for module in modules}
    texts = {
        "gw_kernels_isa": isa.name,
        "gw_kernels_digest": _digest(isa, [*sorted(written - {names}), *_shared()]),
        **({"gw_kernels_sources": record_of(PACKAGE, _writers())} if is_recorded else {}),
    }
    _write_if_changed(names, "".join(map(_text_source, texts, texts.values())))
    _write_if_changed(folder / "flags.txt", "\n".join(isa.flags) + "\n")
    _write_if_changed(folder / "sources.txt", "\n".join(map(str, listed)) + "\n")
    for stale in {*folder.rglob("*.c"), *folder.rglob("*.gen.h")} - written:
        stale.unlink()
    return listed


def write_module(module: KernelModule, isa: Isa, folder: Path) -> list[Path]:
    """Writes the generated files of ``module``; returns the files to compile with :func:`include_flags`.
    Raises ValueError unless each kernel has exactly one extent.
    """
    path = _path(module).with_suffix(".c")
    _check_extents(module, path.read_text(encoding="utf-8"), isa)
    header = _generated(folder, module)
    reaches = header.with_name(f"{path.stem}_extents.c")
    by = f"{path.parent.name}/{path.stem}.py"
    head = f'/* Written by {by} for {isa.name}. */\n\n#pragma once\n#include "cpu/vector.h"\n\n'
    _write_if_changed(header, head + module.header(isa))
    text = f'/* What the kernels of {by} touch. */\n\n#include "cpu/vector.h"\n\n'
    _write_if_changed(reaches, text + c_text(module.extents(isa)))
    return [path, reaches]


def include_flags(folder: Path) -> tuple[str, ...]:
    """The compiler options that add the include folders: those of the library, and ``folder``."""
    return tuple(f"-I{path}" for path in (folder, *_roots(), TARGETS))


def _shared() -> list[Path]:
    """All C files that are not generated."""
    return sorted(path for root in (*_roots(), TARGETS) for path in root.rglob("*.[ch]"))


def _path(module: KernelModule) -> Path:
    if module.__file__ is None:
        raise ValueError(f"{module.__name__} is not a file")
    return Path(module.__file__)


def _generated(folder: Path, module: KernelModule) -> Path:
    path = _path(module)
    return folder / path.parent.name / f"{path.stem}.gen.h"


def _check_extents(module: KernelModule, text: str, isa: Isa) -> None:
    kernels = _KERNEL.findall(text)
    declared = [extent.symbol for extent in module.extents(isa)]
    if sorted(kernels) != sorted(declared):
        raise ValueError(f"{module.__name__} has kernels {kernels}, but extents of {declared}")


def _writers() -> list[Path]:
    """The loaded modules of the folders that generate C code."""
    folders = (*_roots(), TARGETS)
    files = (getattr(module, "__file__", None) for module in sys.modules.values())
    return [path for path in map(Path, filter(None, files)) if any(map(path.is_relative_to, folders))]


def _digest(isa: Isa, files: Iterable[Path]) -> str:
    """Identifies the kernels: programs that were compiled for others may have other arguments and packed
    weights.
    """
    texts = (path.read_text(encoding="utf-8") for path in files if path.exists())
    return hashlib.sha256("\0".join((*isa.flags, *texts)).encode()).hexdigest()


def _text_source(name: str, text: str) -> str:
    """Defines a C string that a loader reads."""
    lines = '\\n"\n    "'.join(text.split("\n"))
    declaration = f'__attribute__((visibility("default"))) extern const char {name}[];\n'
    return f'{declaration}const char {name}[] = "{lines}";\n'


def _write_if_changed(path: Path, text: str) -> None:
    """Writes a file only if its text changes: the build compiles files with newer time stamps again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    is_recorded = arguments[2:] == [_RECORD]
    if len(arguments) != 2 + is_recorded or arguments[1] not in ISAS:
        print(_USAGE, file=sys.stderr)
        return 2
    write_sources(Path(arguments[0]), ISAS[arguments[1]], is_recorded=is_recorded)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
