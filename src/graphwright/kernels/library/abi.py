"""What a kernel is called with, defined once: Python builds launches by it, and C reads them by what
:meth:`Abi.c_text` writes.
"""

from __future__ import annotations

from typing import TypeVar

from graphwright.ir.symbols import Dim
from graphwright.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Abi:
    """The operands (``buf``) and the arguments (``arg``) of a kernel by name, in the order of the call.

    ``fields``: the arguments, of a kernel whose arguments are a record its ``_fields``; ``"n[8]"`` stands for
    ``n0`` to ``n7``. A kernel that takes an epilogue finds the hook behind its operands, and the hook's own
    operands and arguments behind that.
    """

    name: str
    operands: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()

    @property
    def args(self) -> tuple[str, ...]:
        """The names of all arguments."""
        return tuple(name for field in self.fields for name in _names(field))

    def ordered(self, **operands: T) -> tuple[T, ...]:
        """What is given for each operand, in the order of the call. Raises ValueError where one is missing
        or unknown."""
        if operands.keys() != set(self.operands):
            wrong = sorted(operands.keys() ^ set(self.operands))
            raise ValueError(f"{self.name} takes {', '.join(self.operands)}: wrong or missing {wrong}")
        return tuple(operands[name] for name in self.operands)

    def values(self, **fields: Dim | tuple[Dim, ...]) -> tuple[Dim, ...]:
        """All arguments, in the order of the call; an array's as a tuple of its length. Raises ValueError
        where one is missing or unknown."""
        lengths = {field.partition("[")[0]: len(_names(field)) for field in self.fields}
        given = {name: value if isinstance(value, tuple) else (value,) for name, value in fields.items()}
        wrong = {
            name for name in lengths.keys() | given.keys() if lengths.get(name) != len(given.get(name, ()))
        }
        if wrong:
            raise ValueError(f"{self.name} takes {', '.join(self.fields)}: wrong or missing {sorted(wrong)}")
        return tuple(value for name in lengths for value in given[name])

    def c_text(self) -> str:
        """For ``gemm``: the operands' positions in ``buf``, ``GEMM_A`` and so on, of which there are
        ``GEMM_OPERANDS``; ``struct gemm_args``, as which ``gemm_args(arg)`` reads the arguments, of
        which there are ``GEMM_ARGS``.
        """
        name, upper = self.name, self.name.upper()
        text = ""
        if self.operands:
            positions = (f"{upper}_{operand.upper()}" for operand in self.operands)
            text += f"enum {{ {', '.join(positions)}, {upper}_OPERANDS }};\n"
        if self.fields:
            struct = f"struct {name}_args"
            text += f"{struct} {{\n    int64_t {', '.join(self.fields)};\n}};\n"
            text += f"enum {{ {upper}_ARGS = {len(self.args)} }};\n"
            text += f"GW_INLINE const {struct} *{name}_args(const int64_t *arg) {{\n"
            text += f"    return (const {struct} *)arg;\n}}\n"
        return text


def _names(field: str) -> list[str]:
    name, bracket, count = field.partition("[")
    return [f"{name}{k}" for k in range(int(count[:-1]))] if bracket else [name]
