"""Describes the machine and the software on which measurements were made."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1


def machine() -> dict[str, Any]:
    """CPU model, cores (in the machine, and usable by this process), memory in bytes, operating system."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
    }


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """The versions of Python and of those ``distributions`` that are installed."""
    found = {"python": platform.python_version()}
    for name in distributions:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def peak_bytes() -> int:
    """The peak resident memory of this process (VmHWM, which exec resets); 0 if unknown."""
    return int(_field("/proc/self/status", "VmHWM").removesuffix("kB") or 0) * 1024


def usable_cores(count: int) -> list[int]:
    """``count`` of the cores that this process may use: the last ones, as interrupts favor the first."""
    return sorted(os.sched_getaffinity(0))[-count:]


def die_with_parent() -> None:
    """Makes the Linux kernel end this process when the thread that started it ends (prctl(2))."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call
        os.kill(os.getpid(), signal.SIGKILL)


def _field(file: str, name: str) -> str:
    """The value after the first ``name :`` in ``file``; empty if there is none."""
    try:
        lines = Path(file).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next(
        (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), ""
    )
