"""Finds the lines of the user's source to which a node or an error belongs."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from types import TracebackType
from typing import Final

import torch
from torch import fx

_OURS: Final = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]))
"""Folders of code that is not the user's."""
_STANDARD_LIBRARY: Final = sysconfig.get_path("stdlib")
_INSTALLED: Final = sysconfig.get_path("purelib")
"""The folder of installed packages, which can be inside that of the standard library."""


def user_line(node: fx.Node) -> list[str]:
    """The innermost line outside PyTorch that created ``node``; if there is none, the innermost line."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    theirs = [frame for frame in frames if not frame[0].startswith(_OURS)]
    return [f"{file}:{line}" for file, line in (theirs or frames)[-1:]]


def user_line_of(error: BaseException) -> str:
    """The innermost line outside PyTorch in the traceback of ``error``; empty if there is none."""
    found, trace = "", error.__traceback__
    while isinstance(trace, TracebackType):
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((*_OURS, "<")) and not _is_standard(file):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _is_standard(file: str) -> bool:
    return file.startswith(_STANDARD_LIBRARY) and not file.startswith(_INSTALLED)
