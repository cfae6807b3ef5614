"""How elementwise operators of PyTorch become ops: their operands are promoted to one dtype."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import AtenImport, AtenImporter, Op


def elementwise(made: Op, operands: int = 1, *, floats: bool = False) -> AtenImport:
    """``made`` of the first arguments; ``floats``: integers become floats."""

    def convert(i: AtenImporter) -> Any:
        return i.emit(made, *i.promoted(*range(operands), floats=floats))

    return convert


def by_overload(name: str, convert: AtenImport, *overloads: str) -> dict[str, AtenImport]:
    """One import function for several overloads of ``name``."""
    return {f"{name}.{overload}": convert for overload in overloads}
