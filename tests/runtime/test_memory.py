"""The predicted memory of a model, compared with the memory of a run."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import FeedError
from graphwright.ir.clone import clone_module
from graphwright.records import replace
from graphwright.runtime.memory_use import Memory
from tests.gears.models import cnn
from tests.random_graphs.generate import case
from tests.random_graphs.wider import Wider
from tests.runtime.host_program.models import detector


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


def product(rows: int | str = "N") -> gw.GraphBuilder:
    """``y = relu(x @ w) @ v`` with ``x: f32[rows, 64]``."""
    b, rng = gw.GraphBuilder(), np.random.default_rng(0)
    x = b.input("x", "f32", (rows, 64))
    h = b.relu(b.matmul(x, rng.standard_normal((64, 96), np.float32)))
    b.output("y", b.matmul(h, rng.standard_normal((96, 32), np.float32)))
    return b


def held(model: gw.Model) -> int:
    return model.stats()["arena_bytes"]


def check_run(model: gw.Model, used: Memory, feeds: dict[str, np.ndarray], threads: int) -> None:
    """A run takes the arena that was predicted, on what is left of no run before, and makes no other plan."""
    assert held(model) == 0 and used.is_known
    misses = model.stats()["plan_misses"]
    model.threads = threads
    results = model.run(feeds)
    assert held(model) == used.arena_held >= used.arena
    assert model.stats()["plan_misses"] == misses
    assert sum(array.nbytes for array in results.values()) == used.outputs


@pytest.mark.parametrize("seed", range(16))
def test_random_graphs_take_the_arena_that_was_predicted(seed: int, cache: Path) -> None:
    threads = 1 + seed % 2
    made = case(Random(seed), growing=Wider) if seed % 4 < 2 else case(Random(seed))
    model = gw.compile(clone_module(made.module), options=Options(cache_dir=cache, streams=1 + seed % 3))
    sizes = made.sizes[0]
    feeds = {spec.name: array for spec, array in zip(model.inputs, made.feeds(sizes), strict=True)}
    used = model.memory({name: array.shape for name, array in feeds.items()}, threads=threads)
    assert used.live <= used.arena
    check_run(model, used, feeds, threads)


@pytest.mark.parametrize("rows", [0, 1, 7, 16, 1000, 100_003])
def test_any_size_has_a_plan_without_a_run(rows: int) -> None:
    model = product().compile(Options(threads=2))
    used = model.memory({"x": (rows, 64)})
    assert (used.threads, model.stats()["runs"]) == (2, 0)
    assert used.programs[0].shapes == {"x": (rows, 64)}
    assert used.outputs == rows * 32 * 4
    check_run(model, used, {"x": np.zeros((rows, 64), np.float32)}, 2)


def test_weights_and_packed_weights_are_counted_separately() -> None:
    b, rng = gw.GraphBuilder(), np.random.default_rng(0)
    x = b.input("x", "f32", (3, 64))
    bias = rng.standard_normal(64).astype(np.float32)
    b.output("y", b.add(b.sigmoid(x), bias))
    b.output("z", b.matmul(x, rng.standard_normal((64, 48), np.float32)))
    used = b.compile().memory()
    assert used.weights == 64 * 4
    assert used.packed == 64 * 48 * 4


def test_a_loaded_model_predicts_the_same_memory(tmp_path: Path) -> None:
    model = product().compile()
    model.save(tmp_path / "m.om")
    assert gw.load(tmp_path / "m.om").memory([7, 64]) == model.memory([7, 64])


def test_dynamic_sizes_have_no_plan_without_shapes() -> None:
    used = product().compile().memory()
    assert not used.is_known and used.arena == 0
    assert [(each.shapes, each.timeline, each.buffers) for each in used.programs] == [(None, None, ())]
    assert product(5).compile().memory().is_known


def test_sizes_that_inputs_share_follow_from_one() -> None:
    b = gw.GraphBuilder()
    x, y = b.input("x", "f32", ("N", 4)), b.input("y", "f32", ("N", 4))
    b.output("z", b.relu(b.add(x, y)))
    assert b.compile().memory({"x": (9, 4)}).programs[0].shapes == {"x": (9, 4), "y": (9, 4)}


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"x": (5, 63)}, "axis 1"),
        ({"x": (5,)}, "1 size for input .x., which has 2 axes"),
        ({"x": (-1, 64)}, "negative"),
        ({"x": ("N", 64)}, "must be sequences of integers"),
        ({"q": (5, 64)}, "no input 'q'"),
        ({}, r"(?s)not all known.*shapes=\{'x': \(\d+, 64\)\}"),
        (7, "must be sequences of integers"),
    ],
)
def test_shapes_that_do_not_fit_are_rejected(shapes: object, said: str) -> None:
    with pytest.raises(FeedError, match=said):
        product().compile().memory(shapes)  # type: ignore[arg-type]  # that is what is wrong


def test_threads_change_scratch_alone() -> None:
    model = product().compile()
    one, four = (model.memory([64, 64], threads=threads) for threads in (1, 4))
    values = [
        [(b.number, b.bytes) for b in used.programs[0].buffers if not b.is_scratch] for used in (one, four)
    ]
    assert values[0] == values[1] and one.scratch == four.scratch > 0
    scratch = [sum(b.bytes for b in used.programs[0].buffers if b.is_scratch) for used in (one, four)]
    assert scratch[1] == 4 * scratch[0]


def test_states_count_and_are_no_part_of_the_arena() -> None:
    b = gw.GraphBuilder()
    x, total = b.input("x", "f32", (1000,)), b.state("total", "f32", (1000,))
    b.update(total, b.add(total, x))
    b.output("before", total)
    assert b.compile().memory().states == 4000


def test_gears_have_a_plan_each(tmp_path: Path) -> None:
    (tmp_path / "cnn.onnx").write_bytes(cnn())
    shapes = [(1, 3, 16, 16), (2, 3, 32, 32)]
    model = gw.compile(tmp_path / "cnn.onnx", gears={"x": shapes})
    used = model.memory()
    assert [each.shapes for each in used.programs] == [{"x": shape} for shape in shapes]
    assert [each.name for each in used.programs] == ["x:1,3,16,16", "x:2,3,32,32"] and used.is_known
    assert used.arena == max(each.arena for each in used.programs)
    assert model.memory({"x": shapes[0]}).programs == (replace(used.programs[0], name=""),)
    with pytest.raises(FeedError):
        model.memory({"x": (3, 3, 16, 16)})


def test_programs_of_a_model_in_parts_are_listed() -> None:
    made = detector()
    model = gw.compile(made.model)
    used = model.memory({"image": (1, 3, 16, 16)})
    assert [each.name for each in used.programs] == ["subgraph 0", "subgraph 1"]
    first, second = used.programs
    assert first.shapes == {"image": (1, 3, 16, 16)} and first.arena > 0
    assert second.timeline is None, "elements decide what it gets"
    assert not used.is_known
    model.run(made.feeds[0])
    assert held(model) >= used.arena_held


@pytest.mark.parametrize("shapes", [{"x": (5,)}, {"x": (5,), "parts": ()}])
def test_sequences_among_the_inputs_have_no_sizes(shapes: dict[str, tuple[int, ...]]) -> None:
    model = gw.compile(
        onnx.parser.parse_model(
            """<ir_version: 8, opset_import: ["": 17]>
            main (seq(float[N]) parts, float[M] x) => (float[K] joined, float[M] y) {
                joined = ConcatFromSequence<axis = 0>(parts)
                y = Exp(x)
            }"""
        )
    )
    (program, *_) = model.memory(shapes).programs
    assert program.shapes == {"x": (5,)}


def test_other_devices_have_no_programs_or_plan_as_the_cpu_does() -> None:
    assert product().compile(Options(device="reference")).memory([5, 64]).programs == ()
    planned = product().compile(Options(device="null")).memory([5, 64])
    assert planned.arena == product().compile().memory([5, 64]).arena


def test_the_facts_are_json(tmp_path: Path) -> None:
    import json

    facts = json.loads(json.dumps(product().compile().memory([5, 64]).facts()))
    (program,) = facts["programs"]
    assert facts["arena"] == program["arena"] and program["shapes"] == {"x": [5, 64]}
    assert {"number", "name", "nodes", "is_scratch", "offset", "bytes", "first", "last"} == {
        *program["buffers"][0]
    }
    assert sum(b["bytes"] for b in program["buffers"] if b["number"] in program["at_peak"]) == program["live"]
