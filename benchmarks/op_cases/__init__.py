"""Single ops at sizes that users have, by family."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from benchmarks.op_cases import (
    convolutions,
    elementwise,
    images,
    movement,
    products,
    rows,
    sequences,
)
from benchmarks.op_cases.case import Case

FAMILIES: Final = {
    "convolutions": convolutions.CASES,
    "images": images.CASES,
    "products": products.CASES,
    "elementwise": elementwise.CASES,
    "movement": movement.CASES,
    "rows": rows.CASES,
    "sequences": sequences.CASES,
}

CASES: Final[dict[str, Case]] = {
    case.name: replace(case, family=family) for family, cases in FAMILIES.items() for case in cases
}
