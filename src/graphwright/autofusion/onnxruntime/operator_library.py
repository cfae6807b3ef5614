"""The library: the operators of a model for ONNX Runtime, in one file.

The file begins with ``adapter.c`` as a shared object. Its parts (``library_parts.py``) are programs and lists
of their kernels, shared objects of kernels, packed weights, all for each ISA.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, Final

from graphwright.autofusion.library_parts import text_part, write_library
from graphwright.autofusion.onnxruntime.compiled import LIBRARY, CompiledPrograms
from graphwright.config import Options
from graphwright.kernel_sources import standalone_files
from graphwright.package.hashes import Piece
from graphwright.records import dataclass
from graphwright.runtime.devices.kernel_library import LIBRARY_FOLDER
from graphwright.targets.cpu.isa import ISAS
from graphwright.targets.cpu.toolchain import BUILD_SCRIPT, build_script, find_toolchain

_ADAPTER: Final = LIBRARY_FOLDER / "libgraphwright_onnxruntime.so"
Files = dict[str, str | bytes | memoryview]
"""The parts by name."""


@dataclass(frozen=True)
class Operator:
    """The operator called ``name``. ``inputs``: the ONNX number of the type of each input of its node, and
    which input of the program it is, -1 for none; ``outputs``: numbers of types.
    """

    name: str
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]

    def lines(self) -> Iterator[str]:
        """The lines that ``operators.c`` reads."""
        yield f"operator {self.name}"
        yield from (f"input {type} {fed}" for type, fed in self.inputs)
        yield from (f"output {type}" for type in self.outputs)


@dataclass(frozen=True)
class Library:
    """The operators of one model, and their programs for each ISA, in the same order."""

    operators: Sequence[Operator]
    compiled: Sequence[CompiledPrograms]
    refused: Mapping[str, str]
    """The functions without an operator, with the reason for each."""
    outside: Mapping[str, str]
    """The ops that are in no function of a program, with the reason for each."""
    needs_bf16: bool
    """Whether code for AVX-512 requires the bf16 instructions of AVX-512."""
    whole: bool
    """Whether the operators run all nodes of the model."""
    likely_sizes: Sequence[str] = ()
    """The conditions on sizes under which one program runs the whole model; for other sizes, several programs
    run it.
    """

    def parts(self) -> dict[str, Piece]:
        """The parts after the code, by name."""
        lines = [line for operator in self.operators for line in operator.lines()]
        parts: dict[str, Piece] = {"operators": text_part(lines)}
        if self.whole:
            parts["whole"] = b"\n"
        for each in self.compiled:
            parts |= {f"{each.isa}/{name}": data for name, data in self._parts_of(each).items()}
        return parts

    def write(self, file: BinaryIO) -> None:
        """Writes the library to ``file``."""
        write_library(file, _ADAPTER.read_bytes(), self.parts())

    def sources(self, options: Options) -> Files:
        """The C of the generated kernels, the other parts of the library, and ``build.sh``, which builds the
        library from them. The folder ``kernels`` has a program for each kernel, which checks and times the
        kernel. Raises ToolchainError.
        """
        toolchain = find_toolchain(options)
        files: Files = {"adapter.so": _ADAPTER.read_bytes()}
        commands = []
        for each in self.compiled:
            flags = toolchain.flags(ISAS[each.isa])
            for name in each.objects:
                stem = f"{each.isa}/{name}"
                files[f"{stem}.c"] = each.sources[f"{name}.c"]
                commands.append([*toolchain.command, *flags, f"{stem}.c", "-lm", "-o", f"{stem}.so"])
        parts = self.parts()
        files |= {name: data for name, data in parts.items() if f"{name.removesuffix('.so')}.c" not in files}
        targets = [(each.isa, program) for each in self.compiled for program in each.programs]
        files |= {f"kernels/{name}": text for name, text in standalone_files(targets).items()}
        files[BUILD_SCRIPT] = build_script(commands) + _JOIN.format(parts=shlex.join(parts))
        return files

    def _parts_of(self, compiled: CompiledPrograms) -> dict[str, Piece]:
        parts: dict[str, Piece] = {"weights": compiled.weights.data}
        if self.needs_bf16 and compiled.isa != "v3":
            parts["bf16"] = b"\n"
        for number, operator in enumerate(self.operators):
            parts[f"{operator.name}.program"] = compiled.programs[number].stored.words
            parts[f"{operator.name}.kernels"] = text_part(" ".join(pair) for pair in compiled.kernels(number))
        parts |= {f"{name}.so": data for name, data in compiled.objects.items()}
        parts[f"{LIBRARY}.so"] = (LIBRARY_FOLDER / f"libgraphwright_kernels_{compiled.isa}.so").read_bytes()
        return parts


_JOIN: Final = """cp adapter.so library.so
: > index
for part in {parts}; do
    truncate -s %4096 library.so
    echo "$(stat -c %s library.so) $(stat -c %s "$part") $part" >> index
    cat "$part" >> library.so
done
start=$(stat -c %s library.so)
cat index >> library.so
printf 'graphwright %019d\\n' "$start" >> library.so
"""
