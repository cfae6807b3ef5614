"""The machine and the software that figures were taken on."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


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
    """Most resident memory of this process so far (VmHWM, which exec resets); 0 where nothing says."""
    return int(_field("/proc/self/status", "VmHWM").removesuffix("kB") or 0) * 1024


def _field(file: str, name: str) -> str:
    """What stands behind the first ``name :`` in ``file``; empty if nothing does."""
    try:
        lines = Path(file).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next(
        (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), ""
    )
