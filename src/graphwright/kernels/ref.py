"""The name of a compiled kernel."""

from __future__ import annotations

from typing import Final

from graphwright.records import dataclass

FOREIGN: Final = "plugin_"
"""How the module names of users' own C begin."""


@dataclass(frozen=True)
class KernelRef:
    """``symbol`` in the kernel library of this ISA (``module`` empty) or in a generated shared object (its
    name).
    """

    symbol: str
    module: str = ""

    @property
    def is_plugin(self) -> bool:
        """Whether it was compiled from a user's own C."""
        return self.module.startswith(FOREIGN)

    @property
    def plugin(self) -> str:
        """The name of that C, as its file in a package has it."""
        return f"{self.module}.c"
