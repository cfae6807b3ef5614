"""Random modules at random gears: every gear as its shape compiled alone, padding right or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.clone import clone_module
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.symbols import Expr
from graphwright.ir.symbols import evaluate as number_of
from tests.random_graphs.check import assert_close
from tests.random_graphs.generate import Case, case, with_symbols
from tests.random_graphs.values import LARGEST

SIZES = [{"N": n, "M": m} for n in range(1, LARGEST["N"] + 1) for m in range(1, LARGEST["M"] + 1)]


def shapes_of(made: Case, rows: Sequence[Mapping[str, int]]) -> dict[str, list[list[int | None]]]:
    """The shapes that gears of these sizes give each input."""
    return {
        value.name: [
            [number_of(dim, row) if isinstance(dim, Expr) else None for dim in value.type.dims]
            for row in rows
        ]
        for value in made.module.main.inputs
    }


@pytest.mark.parametrize("seed", list(with_symbols(20_000, 12)))
def test_every_gear_is_as_its_shape_compiled_alone(seed: int, options: Options) -> None:
    random, made = Random(seed), case(Random(seed))
    rows = random.sample(SIZES, random.choice((2, 3)))
    between = random.choice(("error", "dynamic"))
    gears = gw.Gears(shapes_of(made, rows), between=between)
    model = gw.compile(clone_module(made.module), gears=gears, options=replace(options, verify=True))
    for turn, row in enumerate((*rows, rows[0])):
        feeds = made.feeds(row, turn)
        shapes = {name: gear[0] for name, gear in shapes_of(made, [row]).items()}
        alone = gw.compile(clone_module(made.module), shapes=shapes, options=options)
        for k, (a, b) in enumerate(zip(model(*feeds), alone(*feeds), strict=True)):
            assert a.shape == b.shape and a.tobytes() == b.tobytes(), f"output {k} at {row}"
    other = random.choice([sizes for sizes in SIZES if sizes not in rows])
    feeds = made.feeds(other)
    if between == "error":
        with pytest.raises(gw.FeedError, match="no gear matches"):
            model(*feeds)
        return
    for want, got, error in zip(evaluate_module(made.module, feeds), model(*feeds), made.errors, strict=True):
        assert_close(want, got, error, f"{other}")


@pytest.mark.parametrize("first", [30_000, 31_000])
def test_padding_is_right_or_rejected(first: int) -> None:
    """The references run on 40 modules, which is fast."""
    refused = 0
    for seed in with_symbols(first, 40):
        random, made = Random(seed), case(Random(seed))
        varied = random.choice(("N", "M", "NM"))
        rows = [
            {"N": n, "M": m}
            for n in ((2, LARGEST["N"]) if "N" in varied else (3,))
            for m in ((2, LARGEST["M"]) if "M" in varied else (4,))
        ]
        gears = gw.Gears(shapes_of(made, rows), between="pad")
        try:
            model = gw.compile(clone_module(made.module), gears=gears, options=Options(device="reference"))
        except gw.ModelError as error:
            assert {d.code for d in error.diagnostics} == {"padding"}
            refused += 1
            continue
        for turn in range(3):
            sizes = {
                "N": random.randrange(1, LARGEST["N"] + 1) if "N" in varied else 3,
                "M": random.randrange(1, LARGEST["M"] + 1) if "M" in varied else 4,
            }
            feeds = made.feeds(sizes, turn)
            for k, (want, got, error) in enumerate(
                zip(evaluate_module(made.module, feeds), model(*feeds), made.errors, strict=True)
            ):
                assert_close(want, got, error, f"seed {seed}, output {k} at {sizes}")
    assert 0 < refused < 30, "some are refused, most are not"


def test_feeds_of_gears_in_any_order_leave_earlier_results_alone(options: Options) -> None:
    """Gears share memory for their runs, but not for results."""
    made = case(Random(next(with_symbols(20_500, 1))))
    rows = [{"N": 2, "M": 3}, {"N": 7, "M": 5}]
    model = gw.compile(clone_module(made.module), gears=shapes_of(made, rows), options=options)  # type: ignore[arg-type]  # a list of a narrower type
    kept, bits = [], []
    for turn in range(12):
        results = model(*made.feeds(rows[turn % 2], turn))
        kept.append(results)
        bits.append([array.tobytes() for array in results])
    assert [[array.tobytes() for array in results] for results in kept] == bits
    assert np.all([len(results) == len(made.errors) for results in kept])
