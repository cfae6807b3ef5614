"""Tuning records, which ``--tune`` writes, and the values of the option ``tuning``.

A record is JSON: ``format``, ``cpu`` and ``graphwright`` (the measured CPU model and version), and
``workloads``. A workload is a kernel or region with its sizes and ISA, identified by a digest. For each
workload the record has:

- ``base``: the alternative that is predicted to be the fastest;
- ``times``: the times of other alternatives relative to ``base``, as the median and its confidence interval;
  null if the workload is too small a part of its model to matter;
- ``taken``: the alternative that the compiler uses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from graphwright.records import dataclass

FORMAT: Final = 1
NO_RECORD: Final = "none"
USERS_RECORD: Final = "auto"
MOST_WORKLOADS: Final = 4096
"""The most workloads of a record, which keeps those measured last."""
_MOST_BYTES: Final = 8 << 20
"""The largest file that is read, in bytes."""
_MOST_TEXT: Final = 200
"""The longest name of an alternative, in characters."""
REQUIRED: Final = "must be auto, none, or a file that a compilation with --tune wrote"
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Times:
    """The time of an alternative relative to the predicted one: the median and its confidence interval."""

    median: float
    low: float
    high: float

    def scaled(self, factor: float) -> Times:
        """These times relative to another alternative, whose time is ``factor`` of the current base."""
        return Times(self.median * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Measured:
    """The measurements of a workload: ``times`` by alternative, except ``base``; None if it is too short to
    matter.
    """

    base: str
    times: Mapping[str, Times | None]
    taken: str

    def knows(self, alternative: str) -> bool:
        """Whether ``alternative`` was measured already."""
        return alternative == self.base or alternative in self.times


Workloads = Mapping[str, Measured]
"""Measurements by the digest of the workload."""


@dataclass(frozen=True)
class Record:
    """The workloads of one CPU and version, ordered by the time of measurement."""

    cpu: str
    version: str
    workloads: Workloads

    def text(self) -> str:
        """The content of a file: the same for the same record."""
        kept = list(self.workloads.items())[-MOST_WORKLOADS:]
        held = {
            "format": FORMAT,
            "cpu": self.cpu,
            "graphwright": self.version,
            "workloads": {name: _to_json(each) for name, each in kept},
        }
        return json.dumps(held, separators=(",", ":"))


def _to_json(measured: Measured) -> dict[str, Any]:
    times = {name: each and [each.median, each.low, each.high] for name, each in measured.times.items()}
    return {"base": measured.base, "taken": measured.taken, "times": times}


def read_tuning(text: str) -> str:
    """Reads the option ``tuning``: ``auto``, ``none``, or a record, given by its path or content. Returns its
    content. Raises ValueError with the reason.
    """
    if text in (USERS_RECORD, NO_RECORD):
        return text
    if text.startswith("{"):
        return parsed(text).text()
    try:
        return parsed(_read(Path(text).expanduser())).text()
    except OSError as error:
        raise ValueError(f"{error.strerror or error}; it {REQUIRED}") from error


def _read(path: Path) -> str:
    with open(path, "rb") as file:
        data = file.read(_MOST_BYTES + 1)
    return decoded(data)


def decoded(data: bytes) -> str:
    """The text of a file, decoded. Raises ValueError."""
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB")
    return data.decode("utf-8")


def parsed(text: str) -> Record:
    """The record that ``text`` holds. Raises ValueError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"it has no tuning record of format {FORMAT}")
    cpu, version, workloads = found.get("cpu"), found.get("graphwright"), found.get("workloads")
    if not isinstance(cpu, str) or not isinstance(version, str) or not isinstance(workloads, dict):
        raise ValueError("it has no CPU, version or workloads")
    if len(workloads) > MOST_WORKLOADS:
        raise ValueError(f"it has more than {MOST_WORKLOADS} workloads")
    return Record(cpu, version, {name: _measured(name, each) for name, each in workloads.items()})


def _measured(name: str, held: Any) -> Measured:
    if not _DIGEST.fullmatch(name) or not isinstance(held, dict):
        raise ValueError(f"{name[:40]!r} is not a workload")
    base: Any = held.get("base")
    taken: Any = held.get("taken")
    times: Any = held.get("times")
    if not _is_way(base) or not isinstance(times, dict) or not all(map(_is_way, times)):
        raise ValueError(f"workload {name} has no times of its alternatives")
    if taken != base and taken not in times:
        raise ValueError(f"workload {name} uses an alternative that was not measured")
    return Measured(base, {other: _times(name, each) for other, each in times.items()}, taken)


def _is_way(text: Any) -> bool:
    return isinstance(text, str) and 0 < len(text) <= _MOST_TEXT and text.isprintable()


def _times(name: str, held: Any) -> Times | None:
    if held is None:
        return None
    if not isinstance(held, list) or len(held) != 3 or any(type(each) is not float for each in held):
        raise ValueError(f"workload {name} has times that are not three numbers")
    median, low, high = held
    if not 0 < low <= median <= high < float("inf"):
        raise ValueError(f"workload {name} has times that are not an interval")
    return Times(median, low, high)
