"""The measurements of edits, and the file that stores them, with one line per edit."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import RESULTS
from benchmarks.fusion.edits import Edge
from benchmarks.fusion.paired import Estimate
from benchmarks.records import write_rows
from graphwright.tools.measuring.engines import OURS

FILE: Final = RESULTS / "fusion" / "edits.json"


@dataclass(frozen=True)
class Case:
    """An edit, and how it was measured."""

    pattern: str
    size: tuple[int, ...]
    edge: Edge
    ops: str
    """The ops at both ends of the edge."""
    isa: str
    threads: int
    arrays: str
    """Where inputs and outputs are: a rotation of :mod:`benchmarks.fusion.measure`."""
    control: bool = False
    """The same partition twice."""


@dataclass(frozen=True)
class Measured:
    """A case, log(after / before) with its interval, and the least time of a run before the edit."""

    case: Case
    estimate: Estimate
    before_ns: float

    def as_json(self) -> dict[str, Any]:
        """The entry of the file."""
        estimate = asdict(self.estimate) | {"verdict": self.estimate.verdict}
        rounded = {name: _number(value) for name, value in estimate.items()}
        return asdict(self.case) | rounded | {"before_ns": round(self.before_ns)}

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Measured:
        """Reads an entry of the file."""
        case = {name: entry[name] for name in Case.__dataclass_fields__}
        case |= {"size": tuple(case["size"]), "edge": tuple(case["edge"])}
        estimate = {name: entry[name] for name in Estimate.__dataclass_fields__}
        for name, least in (("low", -math.inf), ("high", math.inf)):
            estimate[name] = least if estimate[name] is None else estimate[name]
        return cls(Case(**case), Estimate(**estimate), entry["before_ns"])


def _number(value: Any) -> Any:
    """Floats with four digits; JSON has no infinity."""
    if not isinstance(value, float):
        return value
    return round(value, 4) if math.isfinite(value) else None


def read(file: Path = FILE) -> list[Measured]:
    """Reads the file; an empty list if it does not exist."""
    if not file.exists():
        return []
    return [Measured.of(entry) for entry in json.loads(file.read_text())["edits"]]


def write(made: Iterable[Measured], file: Path = FILE) -> None:
    """Writes ``made``, in the order of their cases."""
    entries = sorted((each.as_json() for each in made), key=json.dumps)
    write_rows(file, [OURS, "numpy"], entries, "edits")
