"""Golden tests of passes on printed modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module
from graphwright.ir.symbols import evaluate
from graphwright.ir.text import parse_module, print_module
from graphwright.passes.base import Record


def check_golden(
    path: Path, run: Callable[[Module], Record], sizes: Mapping[str, int], golden: Callable[[Path, str], None]
) -> None:
    """Compares what ``run`` makes of the module in ``path``, and its reasons, with the expected text. The
    results of the module must be the same, for symbols of these ``sizes``.
    """
    before, module = parse_module(path.read_text()), parse_module(path.read_text())
    record = run(module)
    given = print_module(module) + "".join(f"// {reason}\n" for reason in record.reasons)
    golden(path.with_suffix(".expected"), given)
    rng = np.random.default_rng(0)
    shapes = [[evaluate(d, sizes) for d in v.type.dims] for v in before.main.inputs]
    feeds = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    for a, b in zip(evaluate_module(before, feeds), evaluate_module(module, feeds), strict=True):
        np.testing.assert_array_equal(a, b)
