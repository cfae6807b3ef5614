"""Writes results as JSON files: the machine, the versions of packages, the day, and the figures."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from graphwright.tools.machine import machine, versions


def write_record(file: Path, packages: Iterable[str], figures: Mapping[str, Any]) -> None:
    """Writes ``figures`` of any form; ``packages`` are those that the benchmark measures."""
    _write(file, json.dumps({**_about(packages), **figures}, indent=1) + "\n")


def write_rows(
    file: Path, packages: Iterable[str], rows: Iterable[Mapping[str, Any]], name: str = "rows"
) -> None:
    """Writes ``rows`` under ``name``, each on a line of its own."""
    head, lines = json.dumps(_about(packages))[1:-1], ",\n".join(map(json.dumps, rows))
    _write(file, f'{{{head}, "{name}": [\n{lines}\n]}}\n')


def _about(packages: Iterable[str]) -> dict[str, Any]:
    return {"machine": machine(), "versions": versions(packages), "day": time.strftime("%Y-%m-%d")}


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".new")  # an interrupted run leaves the file whole
    unfinished.write_text(text)
    unfinished.replace(file)
