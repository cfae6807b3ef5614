"""C code of users: kernels with the kernel ABI, which are compiled together with the model's kernels."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from graphwright.errors import Diagnostic, ToolchainError
from graphwright.records import dataclass
from graphwright.support.escaping import c_comment, identifier
from graphwright.targets.cpu.isa import Isa, vector_header

_DOUBLE = """\
/* A double among the args, as double_bits put it there. */
GW_INLINE double gw_double(int64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
"""
SIGNATURE = "(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch)"


@dataclass(frozen=True)
class CSource:
    """C11 code that defines functions with the kernel ABI; ``text`` begins at ``line`` of ``file``.

    It is compiled after ``vector.h``, which includes ``stdint.h`` and ``string.h`` and defines
    vectors of ``VL`` floats (``vf``, ``vf_load``, ``vf_load_n``, ``vf_fma``, ...). It must be complete: it
    cannot include headers of its own.
    """

    text: str
    file: str = "kernel.c"
    line: int = 1

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> CSource:
        """Reads a C file: ``CSource.read(Path(__file__).with_name("norm.c"))``. Raises OSError."""
        return cls(Path(path).read_text(encoding="utf-8-sig"), os.fspath(path))

    @classmethod
    def inside(cls, file: str | os.PathLike[str], text: str) -> CSource:
        """C code that is a string literal in the Python ``file``, so that messages can name its lines."""
        before, found, _ = Path(file).read_text(encoding="utf-8").partition(text)
        return cls(text, os.fspath(file), 1 + before.count("\n") if found else 1)

    @property
    def stem(self) -> str:
        """The stem of names of files made from it."""
        return identifier(Path(self.file).stem, "source")

    def unit(self, isa: Isa, symbols: Iterable[str]) -> str:
        """The translation unit that exports ``symbols``."""
        exported = "".join(f"GW_EXPORT int32_t {symbol}{SIGNATURE};\n" for symbol in symbols)
        head = (
            f"/* {c_comment(Path(self.file).name)}, after the code that all kernels for {isa.name} share */\n"
        )
        return f'{head}{vector_header()}\n{_DOUBLE}{exported}#line {self.line} "{self._shown}"\n{self.text}\n'

    def refused(self, error: ToolchainError) -> Diagnostic:
        """The compiler's message, located at the line of the user's file."""
        message = "\n".join(fault.message for fault in error.diagnostics)
        found = re.search(
            rf"^{re.escape(self._shown)}:(\d+):(?:\d+:)? (?:fatal )?error: ", message, re.MULTILINE
        )
        if found is None:
            return Diagnostic("plugin-source", message, self.file)
        line = int(found[1])
        lines = self.text.splitlines()
        if f"{line} | " not in message and 0 <= line - self.line < len(lines):  # clang shows it by itself
            message += f"\n    {line} | {lines[line - self.line].strip()}"
        return Diagnostic("plugin-source", message, f"{self.file}:{line}")

    @property
    def _shown(self) -> str:
        """The name of the file in messages of the compiler."""
        return re.sub(r"[^A-Za-z0-9_.-]", "_", Path(self.file).name)
