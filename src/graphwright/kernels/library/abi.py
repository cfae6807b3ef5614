"""What a kernel is called with, defined once: Python builds launches by it, and C reads them by what
:meth:`Abi.c_text` writes.
"""

from __future__ import annotations

from graphwright.records import dataclass


@dataclass(frozen=True)
class Abi:
    """The operands (``buf``) and the arguments (``arg``) of a kernel by name, in the order of the call.

    ``args``: of a kernel whose arguments are a record, its ``_fields``. A kernel that takes an epilogue finds
    the hook behind its operands, and the hook's own operands and arguments behind that.
    """

    name: str
    operands: tuple[str, ...] = ()
    args: tuple[str, ...] = ()

    def c_text(self) -> str:
        """For ``gemm``: ``struct gemm_args``, to which ``arg`` is copied, of which there are ``GEMM_ARGS``;
        and the operands' positions in ``buf``, ``GEMM_A`` and so on, of which there are ``GEMM_OPERANDS``.
        """
        upper = self.name.upper()
        positions = [f"{upper}_{operand.upper()}" for operand in self.operands]
        constants = [*positions, f"{upper}_OPERANDS"] if positions else []
        text = f"enum {{ {', '.join(constants)} }};\n" if constants else ""
        if self.args:
            text += f"struct {self.name}_args {{\n    int64_t {', '.join(self.args)};\n}};\n"
            text += f"enum {{ {upper}_ARGS = {len(self.args)} }};\n"
        return text
