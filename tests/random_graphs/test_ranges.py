"""Random modules whose sizes are given as ranges: right within them, refused outside, on the device and after
loading.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.clone import clone_module
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.sizes import SizeRange
from graphwright.ir.symbols import Expr
from graphwright.passes.bind_sizes import Shapes

from .check import assert_close, native
from .generate import Case, case, with_symbols
from .values import LARGEST

MODULES = 30
SIZES = 6


def range_for(random: Random, largest: int) -> SizeRange:
    """Bounds below ``largest``, with a multiple in them; seldom all sizes, or one alone."""
    multiple = random.choice((1, 1, 2, 3))
    high = random.randrange(multiple, largest + 1)
    low = random.randrange(1, high // multiple * multiple + 1)
    return SizeRange("", low, high, multiple)


def shapes_for(made: Case, spans: dict[str, SizeRange]) -> Shapes:
    """``spans`` for each axis of each input; every other module calls them by names of its own."""
    named = {name: SizeRange(f"own_{name}", s.low, s.high, s.multiple) for name, s in spans.items()}
    chosen = named if len(made.known) % 2 else spans
    return {
        value.name: [chosen[str(dim)] if isinstance(dim, Expr) else None for dim in value.type.dims]
        for value in made.module.main.inputs
    }


def sizes_within(spans: dict[str, SizeRange], random: Random) -> dict[str, int]:
    return {
        name: random.choice([n for n in range(LARGEST[name] + 1) if span.holds(n)])
        for name, span in spans.items()
    }


def sizes_outside(spans: dict[str, SizeRange], random: Random) -> dict[str, int] | None:
    """A size outside of its range, if there is one."""
    wrong = [(name, n) for name, s in spans.items() for n in range(LARGEST[name] + 3) if not s.holds(n)]
    return sizes_within(spans, random) | dict([random.choice(wrong)]) if wrong else None


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    home = tmp_path_factory.mktemp("home")
    return Options(cache_dir=home / "cache", key_dir=home / "keys", verify=True, plan_cache=2)


@pytest.mark.parametrize("seed", list(with_symbols(7000, MODULES)))
def test_right_within_the_ranges_and_rejected_outside(seed: int, options: Options, tmp_path: Path) -> None:
    random = Random(seed)
    made = case(Random(seed))
    spans = {name: range_for(random, largest) for name, largest in LARGEST.items()}
    reference = clone_module(made.module)
    model = gw.compile(clone_module(made.module), shapes=shapes_for(made, spans), options=options)
    if seed % 3 == 0:
        model.save(tmp_path / "model.om")
        model = gw.load(tmp_path / "model.om", options=options)
    for turn in range(SIZES):
        sizes = sizes_within(spans, random)
        feeds = made.feeds(sizes, turn)
        got, want = native(model, feeds, 1), evaluate_module(reference, feeds)
        for k, (w, g, error) in enumerate(zip(want, got, made.errors, strict=True)):
            assert_close(w, g, error, f"output {k} at {sizes} of {spans}")
        outside = sizes_outside(spans, random)
        if outside is not None:
            with pytest.raises(gw.FeedError, match=r"axis \d"):
                native(model, made.feeds(outside, turn), 1)
    assert model.stats()["plans"] <= 2
