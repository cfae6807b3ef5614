"""Random modules on every device; a few hundred here, many thousands by a larger range of seeds."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.clone import clone_module
from graphwright.ir.evaluate import evaluate_module

from .check import check
from .generate import case
from .wider import Wider

STREAMS = (1, 2, 4)
FOUND = (
    1024,  # the poison of an If's condition hit what its branch had written
    1288,  # a value compared with a view of itself: one axis in two places
    1431,  # a cast to f16 inside a region met values widened to f32
    1890,  # the outer product of a value with itself
)
"""Seeds that failed once."""
FOUND_WIDER = (1945,)  # a constant expanded to a size that is not known yet, in inference
"""Those of loops and bytes and sequences."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.mark.parametrize("seed", [*FOUND, *range(60)])
def test_native_gives_what_the_references_give(seed: int, cache: Path) -> None:
    isa = "v3" if seed % 7 == 0 else "auto"
    check(case(Random(seed)), Options(cache_dir=cache, streams=STREAMS[seed % 3], isa=isa, verify=True))


@pytest.mark.parametrize("seed", range(500, 512))
def test_large_modules_equal_their_references(seed: int, cache: Path) -> None:
    check(case(Random(seed), steps=40), Options(cache_dir=cache, streams=STREAMS[seed % 3], verify=True))


@pytest.mark.parametrize("seed", [*FOUND_WIDER, *range(700, 740)])
def test_random_graphs_with_loops_bytes_and_sequences(seed: int, cache: Path) -> None:
    made = case(Random(seed), steps=20, growing=Wider)
    check(made, Options(cache_dir=cache, streams=STREAMS[seed % 3], verify=seed % 2 == 0))


@pytest.mark.parametrize("seed", range(600, 610))
def test_the_other_devices(seed: int, cache: Path) -> None:
    """``reference`` gives the same bits as the module, ``null`` the right shapes."""
    made = case(Random(seed))
    feeds = made.feeds(made.sizes[0])
    want = evaluate_module(made.module, feeds)
    for device in ("reference", "null"):
        options = Options(cache_dir=cache, device=device)
        got = gw.compile(clone_module(made.module), options=options)(*feeds)
        for a, b in zip(want, got, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            assert device == "null" or np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
