"""Every model of the zoo, compiled once and run at each of its sizes, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphwright as gw
from benchmarks.models import MODELS, DevModel
from graphwright.compiler import recompile
from graphwright.executable.nodes import Dispatch
from graphwright.runtime.devices.cpu import Cpu
from tests.models.support import (
    answers,
    assert_close,
    file_of,
    host_calls,
    marked,
    run_with,
    same_bits,
    session,
)


@dataclass
class Loaded:
    zoo: DevModel
    path: Path
    model: gw.Model
    peer: onnxruntime.InferenceSession


@pytest.fixture(scope="module", params=[marked(name) for name in MODELS])
def loaded(request: pytest.FixtureRequest) -> Iterator[Loaded]:
    path = file_of(request.param)
    yield Loaded(MODELS[request.param], path, gw.compile(path), session(path))


def test_every_size_gives_onnxruntimes_answers(loaded: Loaded) -> None:
    for variant in loaded.zoo.variants:
        feeds = loaded.zoo.feeds(variant)
        assert_close(loaded.model.run(feeds), answers(loaded.peer, feeds), loaded.path, feeds)


def test_threads_do_not_change_a_bit(loaded: Loaded) -> None:
    for variant in loaded.zoo.variants:
        feeds = loaded.zoo.feeds(variant)
        one, *others = (run_with(loaded.model, feeds, threads) for threads in (1, 2, 3))
        assert all(same_bits(one, other) for other in others), variant


def test_results_stay_and_inputs_are_not_written(loaded: Loaded) -> None:
    first, second = loaded.zoo.feeds(seed=0), loaded.zoo.feeds(seed=1)
    results = loaded.model.run(first)
    kept = {name: array.copy() for name, array in results.items()}
    changed = loaded.model.run(second)
    assert same_bits(results, kept)
    assert not any(np.array_equal(changed[name], kept[name]) for name in kept)
    assert same_bits(first, loaded.zoo.feeds(seed=0))
    assert same_bits(second, loaded.zoo.feeds(seed=1))
    assert same_bits(loaded.model.run(first), kept)


def test_freed_memory_is_not_read(loaded: Loaded) -> None:
    if not isinstance(loaded.model.executor, Cpu):
        pytest.skip("compiled at the first feed")
    feeds = loaded.zoo.feeds()
    expected = loaded.model.run(feeds)
    arrays = [feeds[spec.name] for spec in loaded.model.inputs]
    poisoned = loaded.model.executor.run(arrays, None, 2, poison=True)
    assert same_bits(dict(zip(expected, poisoned, strict=True)), expected)


def test_nothing_runs_in_python(loaded: Loaded) -> None:
    for variant in loaded.zoo.variants:
        loaded.model.run(loaded.zoo.feeds(variant))
    assert host_calls(loaded.model) == []
    assert loaded.model.stats()["host_calls"] == 0


def test_a_new_size_costs_no_compile(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    main = loaded.model.entry.executable
    if isinstance(main, Dispatch) and any(spec.shape is None for spec in main.inputs):
        # ranks that are known only from the feeds: once per set of shapes
        for variant in loaded.zoo.variants:
            loaded.model.run(loaded.zoo.feeds(variant))

    def refused(*_: Any) -> None:
        raise AssertionError("the compiler was entered again")

    monkeypatch.setattr(recompile, "compile_module", refused)
    for variant in loaded.zoo.variants:
        loaded.model.run(loaded.zoo.feeds(variant))


def test_a_saved_model_gives_the_same_bits(loaded: Loaded, tmp_path: Path) -> None:
    loaded.model.save(tmp_path / "model.om")
    again = gw.load(tmp_path / "model.om")
    assert (again.inputs, again.outputs) == (loaded.model.inputs, loaded.model.outputs)
    for variant in loaded.zoo.variants:
        feeds = loaded.zoo.feeds(variant)
        assert same_bits(again.run(feeds), loaded.model.run(feeds)), variant
