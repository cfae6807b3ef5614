"""Lines of the user's source that a graph or an error comes from."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from types import TracebackType
from typing import Final

import torch
from torch import fx

_OURS: Final = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]))
"""Folders whose lines are nothing that a user wrote."""
_STANDARD_LIBRARY: Final = sysconfig.get_path("stdlib")
_INSTALLED: Final = sysconfig.get_path("purelib")
"""Where packages are, which may be within the folder of the standard library."""


def user_line(node: fx.Node) -> list[str]:
    """The innermost line that made ``node`` outside of PyTorch, or, where there is none, within it."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    theirs = [frame for frame in frames if not frame[0].startswith(_OURS)]
    return [f"{file}:{line}" for file, line in (theirs or frames)[-1:]]


def user_line_of(error: BaseException) -> str:
    """The innermost line outside of PyTorch that ``error`` passed through; empty where there is none."""
    found, trace = "", error.__traceback__
    while isinstance(trace, TracebackType):
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((*_OURS, "<")) and not _is_standard(file):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _is_standard(file: str) -> bool:
    return file.startswith(_STANDARD_LIBRARY) and not file.startswith(_INSTALLED)
