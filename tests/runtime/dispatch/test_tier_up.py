"""specialize="hot": variants take over shapes that recur, are few, and never stand in a run's way."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import Diagnostic
from graphwright.executable.specs import TensorSpec
from graphwright.ir.types import F32
from graphwright.ops.core.unary import Relu
from graphwright.runtime.dispatch.background_build import Build
from graphwright.runtime.dispatch.executor import DispatchExecutor
from graphwright.runtime.dispatch.tier_up import TierUp
from graphwright.runtime.executor import NoFastPath, Shapes
from tests.package.models import Classifier
from tests.threads import in_threads

Array = np.ndarray[Any, Any]
SECONDS = 120.0
AFTER, MOST = 3, 2


class Doubles:
    """An executor that doubles, and counts."""

    def __init__(self, name: str = "general") -> None:
        self.name, self.runs = name, 0

    def fast_path(self, threads: int) -> NoFastPath:
        return NoFastPath(threads)

    def run(self, arrays: Sequence[Array], outputs: object, threads: int) -> list[Array]:
        self.runs += 1
        return [2 * arrays[0]]

    def trim(self) -> int:
        return 1

    def stats(self) -> dict[str, int]:
        return {"runs": self.runs}


Make = Callable[[Shapes, Build], Any]

TierUpOf = Callable[[Make], TierUp]


@pytest.fixture
def hot(monkeypatch: pytest.MonkeyPatch) -> TierUpOf:
    """A tier-up whose variants a function makes."""

    class Made(Build):
        def __call__(self, package: Any, shapes: Shapes, options: Options) -> Any:
            return package(shapes, self)

    def tier_up(make: Any) -> TierUp:
        options = Options(specialize="hot", hot_after=AFTER, hot_variants=MOST)
        return TierUp(Doubles(), [TensorSpec("x", F32, ("N",))], make, options, lambda package: None)

    monkeypatch.setattr("graphwright.runtime.dispatch.tier_up.Build", Made)
    return tier_up


def runs(device: TierUp, size: int, count: int) -> None:
    for _ in range(count):
        (y,) = device.run([np.ones(size)], None, 1)
        assert np.array_equal(y, np.full(size, 2.0))


def built(device: TierUp, size: int) -> None:
    """Runs a size until its variant exists, if one is compiled."""
    runs(device, size, AFTER)
    assert device.wait(SECONDS)


def variants(device: TierUp) -> list[int]:
    return [shape[0][0] for shape in device._variants]


def test_a_shape_that_recurs_gets_a_variant(hot: TierUpOf) -> None:
    made: list[Doubles] = []

    def make(shapes: Shapes, build: Build) -> Doubles:
        made.append(Doubles(str(shapes)))
        return made[-1]

    device = hot(make)
    runs(device, 5, AFTER - 1)
    runs(device, 6, 1)
    assert device.wait(SECONDS) and not made
    built(device, 5)
    assert [d.name for d in made] == ["((5,),)"]
    general = device.general.stats()["runs"]
    runs(device, 5, 7)
    assert made[0].runs == 7 and device.general.stats()["runs"] == general
    assert device.stats()["runs"] == AFTER - 1 + 1 + AFTER + 7
    assert device.stats()["hot_variants"] == device.stats()["hot_builds"] == 1
    assert device.trim() == 2


def test_variants_are_few_and_those_in_use_stay(hot: TierUpOf) -> None:
    device = hot(lambda shapes, build: Doubles())
    for size in (1, 2):
        built(device, size)
    built(device, 3)
    assert variants(device) == [2, 3], "1 was not used since 3 was first seen"
    for _ in range(4 * AFTER):  # all in use in turn: none gives way
        for size in (2, 3, 4):
            runs(device, size, 1)
    assert device.wait(SECONDS) and variants(device) == [2, 3]
    runs(device, 3, 1)
    for _ in range(2):
        built(device, 4)
        runs(device, 3, 1)
    assert variants(device) == [3, 4]
    assert device.stats()["hot_evictions"] == 2
    total = 3 * AFTER + 12 * AFTER + 1 + 2 * (AFTER + 1)
    assert device.stats()["runs"] == total, "runs of variants that went count as well"


def test_faults_are_counted_and_the_shape_stays_with_the_general_program(
    hot: Callable[[Make], TierUp],
) -> None:
    calls = []

    def make(shapes: Shapes, build: Build) -> Doubles:
        calls.append(shapes)
        raise gw.ToolchainError(Diagnostic("cc", "no compiler"))

    device = hot(make)
    built(device, 5)
    runs(device, 5, 10 * AFTER)
    assert device.wait(SECONDS)
    assert calls == [((5,),)]
    assert device.stats()["hot_failed"] == 1 and device.stats()["hot_variants"] == 0
    assert "(5,): no compiler" in device.faults[0]
    built(device, 6)
    assert device.stats()["hot_failed"] == 2


def test_an_exception_of_the_compiler_is_counted_as_a_fault(hot: TierUpOf) -> None:
    def make(shapes: Shapes, build: Build) -> Doubles:
        raise AssertionError("a defect")

    device = hot(make)
    for size in (5, 6):
        built(device, size)
    assert device.stats()["hot_failed"] == 2 and "a defect" in device.faults[1]


def test_no_run_waits_for_a_variant(hot: TierUpOf) -> None:
    ready, begun = threading.Event(), threading.Event()

    def make(shapes: Shapes, build: Build) -> Doubles:
        begun.set()
        assert ready.wait(SECONDS)
        return Doubles("variant")

    device = hot(make)
    runs(device, 5, AFTER)
    assert begun.wait(SECONDS)
    runs(device, 5, 100)
    runs(device, 6, 100)
    assert device.stats()["hot_variants"] == 0
    ready.set()
    assert device.wait(SECONDS) and variants(device) == [5, 6]


def test_closing_stops_the_build_and_starts_no_other(hot: TierUpOf) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def make(shapes: Shapes, build: Build) -> Doubles:
        build.stop = stopped.set  # type: ignore[method-assign]  # a build that notes its end
        begun.set()
        assert stopped.wait(SECONDS)
        raise OSError("killed")

    device = hot(make)
    runs(device, 5, AFTER)
    assert begun.wait(SECONDS)
    device.close()
    assert stopped.is_set() and device.wait(SECONDS)
    runs(device, 6, 3 * AFTER)
    assert device.stats()["hot_failed"] == 0 and not variants(device)


def test_threads_that_feed_two_shapes_get_a_variant_of_each(hot: TierUpOf) -> None:
    device = hot(lambda shapes, build: Doubles())
    in_threads(lambda size: runs(device, size, 300), (1, 2, 1, 2))
    assert device.wait(SECONDS) and sorted(variants(device)) == [1, 2]


@pytest.fixture(scope="module")
def quick(options: Options) -> Options:
    return replace(options, specialize="hot", hot_after=AFTER, hot_variants=MOST)


def test_a_real_variant_gives_the_same_results(
    classifier: Classifier, quick: Options, package_path: Path
) -> None:
    model = gw.load(package_path, options=quick)
    assert isinstance(model.executor, TierUp)
    general = model(classifier.x)[0]
    for _ in range(AFTER):
        model(classifier.x)
    assert model.executor.wait(SECONDS) and not model.executor.faults
    assert model.stats()["hot_variants"] == 1
    before = model.executor.general.stats()["runs"]
    results = [
        model(classifier.x)[0],
        model.run({"x": classifier.x})["y"],
        model.listed(["y"], {"x": classifier.x})[0],
        model.run({"x": classifier.x}, out={"y": np.empty_like(general)})["y"],
    ]
    for y in results:
        np.testing.assert_allclose(y, classifier.value(classifier.x), rtol=1e-4, atol=1e-6)
    assert model.executor.general.stats()["runs"] == before, "the variant ran them all"
    one = model(classifier.x[:1])[0]
    assert model.executor.general.stats()["runs"] == before + 1
    np.testing.assert_allclose(one, classifier.value(classifier.x[:1]), rtol=1e-4, atol=1e-6)
    model.threads = 2
    assert model.threads == 2
    np.testing.assert_array_equal(model(classifier.x)[0], results[0])
    with pytest.raises(gw.FeedError, match="x"):
        model(classifier.x[:, :2])
    assert model.trim() > 0


def test_static_models_and_other_devices_have_no_variants(classifier: Classifier, options: Options) -> None:
    for device, shapes in (("cpu", {"x": (2, 3, 12, 12)}), ("null", None), ("reference", None)):
        model = gw.compile(
            classifier.onnx(), shapes=shapes, specialize="hot", options=replace(options, device=device)
        )
        assert not isinstance(model.executor, TierUp)
    with pytest.raises(gw.GraphwrightError, match="must be one of none, hot"):
        gw.compile(classifier.onnx(), specialize="warm", options=options)


def strings_and_lists() -> onnx.ModelProto:
    """Upper case of ``s: string[N]``, places of what is positive in ``x: f32[N, 3]``, the length of ``q``."""
    info, sequence = helper.make_tensor_value_info, helper.make_tensor_sequence_value_info
    nodes = [
        helper.make_node("StringNormalizer", ["s"], ["upper"], case_change_action="UPPER"),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("NonZero", ["r"], ["places"]),
        helper.make_node("SequenceLength", ["q"], ["length"]),
    ]
    inputs = [info("s", T.STRING, ["N"]), info("x", T.FLOAT, ["N", 3]), sequence("q", T.FLOAT, None)]
    outputs = [info("upper", T.STRING, None), info("places", T.INT64, None), info("length", T.INT64, [])]
    graph = helper.make_graph(nodes, "cut", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("between", ["", "dynamic"])
def test_partitioned_models_have_variants(between: str, quick: Options, tmp_path: Path) -> None:
    """Variants are also compiled for partitioned models, and for shapes that are not a gear if a dynamic
    program runs them.
    """
    gears = gw.Gears(batch=(7, 9), between=between) if between else None
    model = gw.compile(strings_and_lists(), gears=gears, options=quick)
    model.save(tmp_path / "cut.om")
    x = np.array([[1, 0, 2], [0, 3, 0]], np.float32)
    feeds: dict[str, Any] = {"s": np.array(["a", "b"], object), "x": x, "q": [x] * 5}
    for each in (model, gw.load(tmp_path / "cut.om", options=quick)):
        device = each.executor
        if between:  # it is what runs other shapes, which an executor does not show
            assert isinstance(device, DispatchExecutor)
            device = device.cases[-1].executor
        assert isinstance(device, TierUp)
        for run in range(AFTER + 2):
            if run == AFTER:
                assert device.wait(SECONDS) and not device.faults
            made = each.run(feeds)
            assert made["upper"].tolist() == ["A", "B"] and made["length"] == 5
            assert made["places"].tolist() == [[0, 0, 1], [0, 2, 1]]
        stats = each.stats()
        assert stats["hot_variants"] == stats["hot_builds"] == 1 and stats["runs"] == AFTER + 2
        assert device.general.stats()["runs"] == AFTER, "the variant ran the others"


def test_shapes_that_are_padded_have_no_variants(quick: Options) -> None:
    """They run on the static program of the next gear."""
    builder = gw.GraphBuilder()
    builder.output("y", builder(Relu(), builder.input("x", "f32", ("N", 3))))
    model = gw.compile(builder.build(), gears=gw.Gears(batch=(2, 4), between="pad"), options=quick)
    x = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
    for _ in range(AFTER + 2):
        np.testing.assert_array_equal(model(x)[0], np.maximum(x, 0))
    assert isinstance(model.executor, DispatchExecutor)
    assert not any(isinstance(case.executor, TierUp) for case in model.executor.cases)


def test_models_of_unknown_rank_have_variants_of_each_rank(quick: Options, tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=-1)]
    graph = helper.make_graph(nodes, "any", [info("x", T.FLOAT, None)], [info("y", T.FLOAT, None)])
    model = gw.compile(helper.make_model(graph), options=quick)
    model.save(tmp_path / "any.om")
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    want = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    for each in (model, gw.load(tmp_path / "any.om", options=quick)):
        # one for each rank, which an executor does not show; a scalar has no sizes to make static
        assert isinstance(each.executor, DispatchExecutor)
        hot = [case.executor for case in each.executor.cases if isinstance(case.executor, TierUp)]
        assert len(hot) == len(each.executor.cases) - 1
        for run in range(AFTER + 2):
            if run == AFTER:
                assert all(device.wait(SECONDS) and not device.faults for device in hot)
            np.testing.assert_allclose(each(x)[0], want, rtol=1e-5)
        assert each.stats()["hot_builds"] == 1


_SCRIPT = """
import os, sys, time
import numpy as np
import graphwright as gw
model = gw.load(sys.argv[1], trust=True, specialize="hot", options=gw.CompileOptions(hot_after=2, threads=1))
x = np.ones((2, 3, 12, 12), np.float32)
for _ in range(3):
    y = model(x)[0]
if sys.argv[2] == "fork":
    child = os.fork()
    if child == 0:
        for _ in range(9):
            assert np.array_equal(model(x)[0], y)
            assert model(x[:1])[0].shape == (1, 5)
        assert model.trim() >= 0
        assert not model.executor.wait(0) or model.stats()["hot_builds"] == 2, "the child makes its own"
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert model.executor.wait(100), "the child left the parent's build alone"
    assert model.stats()["hot_failed"] == 0, model.executor.faults
    assert model.stats()["hot_builds"] == 1
print("done")
"""


@pytest.mark.parametrize("how", ["exit", "fork"])
def test_processes_end_and_fork_during_a_build(how: str, package_path: Path, options: Options) -> None:
    environment = os.environ | {
        "GRAPHWRIGHT_KEY_DIR": str(options.key_dir),
        "GRAPHWRIGHT_CACHE_DIR": str(options.cache_dir),
    }
    quiet = "ignore::DeprecationWarning"  # Python 3.12 warns of every fork of a process with threads
    command = [sys.executable, "-W", quiet, "-c", _SCRIPT, str(package_path), how]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (ended.returncode, ended.stdout.strip()) == (0, "done"), ended.stderr
    assert ended.stderr == ""
