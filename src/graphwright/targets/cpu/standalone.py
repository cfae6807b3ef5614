"""Writes a kernel as a standalone C file, for reading and for experiments: a program that checks and times
it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from graphwright.ir.loops.hook import HOOK_SIZES
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.loops.text import print_kernel
from graphwright.support.escaping import c_comment
from graphwright.targets.cpu.emit import emit_file
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.toolchain import CODE_FLAGS

_LINE: Final = 500
"""The longest line of a comment, in characters."""


def standalone_source(kernel: Kernel, nodes: Iterable[str], isa: Isa) -> str:
    """The text of the file ``KERNEL.c``. ``nodes`` are the nodes of the model that each launch of the kernel
    computes; they may be untrusted text.
    """
    build, run = (shlex.join(command) for command in standalone_commands(kernel.name, isa))
    sizes = "".join(f" {size}" for size in kernel.sizes if size not in HOOK_SIZES)
    lines = [
        f"{kernel.name}, for {isa.name}",
        "",
        "Nodes of the model:",
        *(f"  {place}" for place in dict.fromkeys(nodes)),
        "",
        "Loops:",
        *(f"  {line}" for line in print_kernel(kernel).splitlines()),
        "",
        "A program that compares it with plain loops and times it:",
        f"  {build}",
        f"  {run}{sizes}",
    ]
    head = "".join(f" * {c_comment(line, _LINE)}".rstrip() + "\n" for line in lines)
    return f"/*\n{head} */\n{emit_file([(kernel, '')], isa)}"


def standalone_commands(name: str, isa: Isa) -> Sequence[Sequence[str]]:
    """The commands that compile the file ``NAME.c`` and run the program."""
    build = ["cc", *isa.flags, *CODE_FLAGS, "-DGRAPHWRIGHT_MAIN", f"{name}.c", "-lm", "-o", name]
    return build, [f"./{name}"]
