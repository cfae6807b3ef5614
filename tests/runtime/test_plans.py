"""Cached plans: their limit, the counters, and the memory that trim() frees."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from tests.onnx_models import onnx_model
from tests.package.models import Classifier
from tests.resident import resident

Array = np.ndarray[Any, Any]
MIB = 2**20
WIDE = 1024
ROWS = 4096
ARENA = ROWS * WIDE * 4
"""Bytes of what lives between the two products at most."""


def wide(options: Options) -> gw.Model:
    """Two products over any number of rows, what is between them in the arena."""
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal(size).astype(np.float32) for name, size in
               (("a", (4, WIDE)), ("b", (WIDE, 4)))}  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Softmax", ["h"], ["s"], axis=-1),
        helper.make_node("MatMul", ["s", "b"], ["y"]),
    ]
    spec = (TensorProto.FLOAT, ["N", 4])
    return gw.compile(onnx_model(nodes, {"x": spec}, {"y": spec}, weights), options=options)


@pytest.mark.parametrize("bound", [1, 2, 5])
def test_the_option_limits_the_number_of_plans(classifier: Classifier, options: Options, bound: int) -> None:
    model = gw.compile(classifier.onnx(), options=replace(options, plan_cache=bound, threads=1))
    for batch in range(1, 8):
        for _ in range(2):
            model(np.ones((batch, 3, 12, 12), np.float32))
    stats = model.stats()
    assert stats["plans"] == min(bound, 7)
    assert (stats["plan_hits"], stats["plan_misses"], stats["plan_evictions"]) == (7, 7, 7 - bound)
    model(np.ones((7, 3, 12, 12), np.float32))
    assert model.stats()["plan_hits"] == 8, "the newest is kept"
    model(np.ones((1, 3, 12, 12), np.float32))
    assert model.stats()["plan_misses"] == 8, "the oldest is not"


def test_the_least_recently_used_plan_is_dropped(classifier: Classifier, options: Options) -> None:
    model = gw.compile(classifier.onnx(), options=replace(options, plan_cache=2, threads=1))
    for batch in (1, 2, 1, 3, 1):
        model(np.ones((batch, 3, 12, 12), np.float32))
    assert (model.stats()["plan_misses"], model.stats()["plan_hits"]) == (3, 2)


def test_a_cache_of_no_plans_is_rejected(options: Options) -> None:
    with pytest.raises(gw.GraphwrightError, match="plan_cache=0: must be a whole number, 1 or more"):
        replace(options, plan_cache=0)


def test_trim_gives_memory_back_to_the_system(options: Options) -> None:
    model = wide(replace(options, threads=1))
    x = np.ones((ROWS, 4), np.float32)
    small = model(x[:1])[0]
    model.trim()
    before = resident()
    (y,) = model(x)
    held = resident() - before
    assert held >= ARENA, "the test is of something"
    given = model.trim()
    assert ARENA <= given <= 2 * ARENA + 4 * MIB
    assert resident() - before <= held - given + MIB
    assert model.stats()["plans"] == model.stats()["contexts"] == 0
    assert model.trim() == 0
    np.testing.assert_array_equal(model(x)[0], y)
    np.testing.assert_array_equal(model(x[:1])[0], small)


def test_trim_while_others_run(options: Options) -> None:
    model = wide(replace(options, threads=2, plan_cache=2))
    random = np.random.default_rng(1)
    feeds = [random.standard_normal((rows, 4)).astype(np.float32) for rows in (1, 7, 64, 300)]
    want = [model(x)[0] for x in feeds]
    wrong: list[int] = []
    ended = threading.Event()

    def run() -> None:
        for turn in range(60):
            k = turn % len(feeds)
            if not np.array_equal(model(feeds[k])[0], want[k]):
                wrong.append(k)

    def trim() -> None:
        while not ended.wait(0.001):
            model.trim()

    threads, trimmer = [threading.Thread(target=run) for _ in range(3)], threading.Thread(target=trim)
    for thread in (*threads, trimmer):
        thread.start()
    for thread in threads:
        thread.join()
    ended.set()
    trimmer.join()
    assert not wrong
    model.trim()
    assert model.stats()["contexts"] == 0


def shapes(count: int) -> Iterator[int]:
    random = np.random.default_rng(2)
    yield ROWS // 4
    for _ in range(count):
        yield int(random.integers(1, ROWS // 4))


def test_memory_stays_flat_over_many_shapes(options: Options) -> None:
    model = wide(replace(options, threads=1, plan_cache=4))
    x = np.ones((ROWS, 4), np.float32)
    after = {}
    for turn, rows in enumerate(shapes(600)):
        model(x[:rows])
        if turn in (100, 600):
            after[turn] = resident()
    assert model.stats()["plans"] == 4 and model.stats()["plan_evictions"] > 400
    assert after[600] - after[100] < MIB
