"""The name of a compiled kernel."""

from __future__ import annotations

from typing import Final

from graphwright.records import dataclass

PLUGIN_PREFIX: Final = "plugin_"
"""The prefix of the names of modules compiled from the C code of plugins."""


@dataclass(frozen=True)
class KernelRef:
    """A kernel: its ``symbol`` in the generated shared object ``module``, or in the kernel library if
    ``module`` is empty.
    """

    symbol: str
    module: str = ""

    @property
    def is_plugin(self) -> bool:
        """Whether it was compiled from the C code of a plugin."""
        return self.module.startswith(PLUGIN_PREFIX)

    @property
    def plugin(self) -> str:
        """The name of the plugin's C file in a package."""
        return f"{self.module}.c"
