"""Writes the C sources of the kernel library for one ISA.

The wheel's build runs ``python -m graphwright.kernels.library.write FOLDER ISA``. A module of this package
takes part by defining ``source(isa) -> str``, a whole C file, and ``extents(isa)``, what each of its kernels
may touch; a kernel that has no extent is not built.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from graphwright.kernels.library.extent import Extent, c_text
from graphwright.targets.cpu.isa import ISAS, Isa

_KERNEL = re.compile(r"^GW_EXPORT int32_t (\w+)\(void \*const \*buf", re.MULTILINE)
_USAGE = f"usage: python -m graphwright.kernels.library.write FOLDER {'|'.join(ISAS)}"


def source_modules() -> list[str]:
    """Names of the modules of this package that define ``source`` at their top level."""
    return [path.stem for path in sorted(Path(__file__).parent.glob("*.py")) if _defines_source(path)]


def _defines_source(path: Path) -> bool:
    """Read, not imported: the other modules may need what a build does not have."""
    body = ast.parse(path.read_text(encoding="utf-8"), str(path)).body
    return any(isinstance(statement, ast.FunctionDef) and statement.name == "source" for statement in body)


def write_sources(folder: Path, isa: Isa) -> list[Path]:
    """Write ``MODULE_ISA.c`` for every module, remove what none writes any more, and ``flags.txt``."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {f"{name}_{isa.name}.c": kernel_text(_module(name), isa) for name in source_modules()}
    texts[f"names_{isa.name}.c"] = _names_source(isa, texts)
    for stale in {path.name for path in folder.glob("*.c")} - texts.keys():
        (folder / stale).unlink()
    for name, text in {**texts, "flags.txt": "\n".join(isa.flags) + "\n"}.items():
        _write_if_changed(folder / name, text)
    return [folder / name for name in texts]


class KernelModule(Protocol):
    """A module of this package that has kernels."""

    __name__: str
    source: Callable[[Isa], str]
    extents: Callable[[Isa], tuple[Extent, ...]]


def _module(name: str) -> KernelModule:
    return cast(KernelModule, import_module(f"graphwright.kernels.library.{name}"))


def kernel_text(module: KernelModule, isa: Isa) -> str:
    """The C file of ``module``. Raises ValueError unless each kernel has one extent."""
    text, extents = module.source(isa), module.extents(isa)
    kernels, declared = _KERNEL.findall(text), [extent.symbol for extent in extents]
    if sorted(kernels) != sorted(declared):
        raise ValueError(f"{module.__name__} has kernels {kernels}, but extents of {declared}")
    return text + "\n" + c_text(extents)


def _names_source(isa: Isa, texts: Mapping[str, str]) -> str:
    """What a loader checks: the library's ISA, and a digest of its kernels. What was compiled for others may
    take other arguments and packed weights.
    """
    digest = hashlib.sha256("\0".join((*isa.flags, *texts.values())).encode()).hexdigest()
    names = {"gw_kernels_isa": isa.name, "gw_kernels_digest": digest}
    return "".join(
        f'__attribute__((visibility("default"))) extern const char {name}[];\n'
        f'const char {name}[] = "{text}";\n'
        for name, text in names.items()
    )


def _write_if_changed(path: Path, text: str) -> None:
    """An unchanged file keeps its time stamp, so that the build does not compile it again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    if len(arguments) != 2 or arguments[1] not in ISAS:
        print(_USAGE, file=sys.stderr)
        return 2
    write_sources(Path(arguments[0]), ISAS[arguments[1]])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
