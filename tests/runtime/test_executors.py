"""Devices: the CPU and its traces, null, reference, and models whose ranks the first feed decides."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright import _native
from graphwright.compiler.ranks import RANKS
from graphwright.config import Options
from graphwright.executable.nodes import COMPILE, Dispatch, Program
from graphwright.executable.specs import TensorSpec
from graphwright.ir.types import F32
from graphwright.ops.core.unique import Unique
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.devices.this_cpu import LEVELS, target_isa
from graphwright.runtime.dispatch.case_table import MOST_COMPILED, Case
from graphwright.runtime.dispatch.executor import DispatchExecutor
from graphwright.runtime.executor import NoFastPath, RunError, Shapes
from graphwright.runtime.host_program.executor import HostProgramExecutor
from tests.executables import dispatch, targets
from tests.onnx_models import onnx_model
from tests.package.models import Classifier, rank_by_size
from tests.threads import in_threads

FLOAT = TensorProto.FLOAT


def compiled(classifier: Classifier, options: Options, device: str) -> gw.Model:
    return gw.compile(classifier.onnx(), options=replace(options, device=device))


class TestCpu:
    def test_trace_shows_every_task_once(self, model: gw.Model, classifier: Classifier) -> None:
        times = model.trace({"x": classifier.x}, threads=2)
        (target,) = targets(model.package).values()
        assert sorted(t.task for t in times) == list(range(len(target.task_graph.tasks)))
        for time in times:
            assert 0 < time.start <= time.end and 0 <= time.thread < 2
            assert time.kernel and time.name == target.task_graph.tasks[time.task].name
        ends = {t.task: t.end for t in times}
        for time in times:
            assert all(ends[before] <= time.start for before in target.task_graph.tasks[time.task].after)

    def test_plan_gives_shapes_and_memory(self, model: gw.Model) -> None:
        assert isinstance(model.executor, Cpu)
        small, large = (model.executor.plan([(n, 3, 12, 12)], 1) for n in (1, 8))
        assert small["outputs"] == [(1, 5)] and large["outputs"] == [(8, 5)]
        assert small["arena"] <= large["arena"]

    def test_plans_are_kept_and_bounded(self, classifier: Classifier, options: Options) -> None:
        model = compiled(classifier, options, "cpu")
        for _ in range(2):
            for batch in range(1, 30):
                model(np.zeros((batch, 3, 12, 12), np.float32))
        assert model.stats()["plans"] <= 16 and model.stats()["runs"] == 58

    def test_an_index_out_of_range_names_its_node(self, options: Options) -> None:
        node = helper.make_node("Gather", ["x", "i"], ["y"], name="look_up")
        specs = {"x": (FLOAT, ["N"]), "i": (TensorProto.INT64, ["K"])}
        model = gw.compile(onnx_model([node], specs, {"y": (FLOAT, ["K"])}), options=options)
        x = np.arange(4, dtype=np.float32)
        assert np.array_equal(model(x, np.array([3, -4]))[0], [3, 0])
        for bad in (4, -5, 2**62, -(2**63)):
            with pytest.raises(gw.GraphwrightError, match="look_up"):
                model(x, np.array([0, bad]))
        assert np.array_equal(model(x, np.array([1]))[0], [1])


class TestNull:
    def test_outputs_have_their_shapes_and_nothing_runs(
        self, classifier: Classifier, options: Options
    ) -> None:
        model = compiled(classifier, options, "null")
        y = np.ones((2, 5), np.float32)
        assert np.array_equal(model(classifier.x)[0], np.zeros((2, 5)))
        assert model.run({"x": classifier.x}, out={"y": y})["y"] is y and (y == 1).all()
        assert model.trace({"x": classifier.x}) == []
        assert model.stats()["runs"] == 3
        with pytest.raises(gw.FeedError):
            model(classifier.x[0])


class TestReference:
    def test_equals_the_cpu(self, model: gw.Model, classifier: Classifier, options: Options) -> None:
        reference = compiled(classifier, options, "reference")
        np.testing.assert_allclose(reference(classifier.x)[0], model(classifier.x)[0], rtol=1e-4, atol=1e-6)
        y = np.empty((2, 5), np.float32)
        assert reference.run({"x": classifier.x}, out={"y": y})["y"] is y
        np.testing.assert_allclose(y, classifier.value(classifier.x), rtol=1e-4, atol=1e-6)
        assert [t.kernel for t in reference.trace({"x": classifier.x})]

    @pytest.mark.parametrize("shape", [(5,), (1, 5), (5, 2), (10,), (3, 5)])
    def test_outputs_of_another_shape(
        self, classifier: Classifier, options: Options, shape: tuple[int, ...]
    ) -> None:
        for device in ("cpu", "reference"):
            with pytest.raises(gw.FeedError, match="output 'y'"):
                compiled(classifier, options, device).run(
                    {"x": classifier.x}, out={"y": np.empty(shape, np.float32)}
                )

    @pytest.mark.parametrize(
        "x, y, message",
        [
            ((2, 3), (4, 5), "axis 0 of 'y' must be B (here 3), but is 4"),
            ((2, 3), (3,), "'y' must have rank 2, but has rank 1"),
            ((9, 3), (3, 5), "axis 0 of 'x' must be 1 to 4, but is 9"),
            ((2, 3), (3, 7), "axis 1 of 'y' must be 5 to 50 in steps of 5, but is 7"),
        ],
    )
    def test_shapes_that_do_not_fit_have_the_errors_of_the_cpu(
        self, options: Options, x: tuple[int, ...], y: tuple[int, ...], message: str
    ) -> None:
        node = helper.make_node("MatMul", ["x", "y"], ["z"])
        specs = {"x": (FLOAT, ["A", "B"]), "y": (FLOAT, ["B", "C"])}
        proto = onnx_model([node], specs, {"z": (FLOAT, ["A", "C"])})
        shapes = {"x": ["1..4", None], "y": [None, "5..50%5"]}
        feeds = {"x": np.ones(x, np.float32), "y": np.ones(y, np.float32)}
        for device in ("cpu", "null", "reference"):
            model = gw.compile(proto, shapes=shapes, options=replace(options, device=device))
            with pytest.raises(gw.FeedError) as caught:
                model.run(feeds)
            assert caught.value.diagnostics[0].message == message

    def test_a_size_that_a_node_rejects_has_the_error_of_the_cpu(self, options: Options) -> None:
        node = helper.make_node("MatMul", ["x", "y"], ["z"])
        specs = {"x": (FLOAT, ["A", "B"]), "y": (FLOAT, ["C", "D"])}
        proto = onnx_model([node], specs, {"z": (FLOAT, ["A", "D"])})
        feeds = {"x": np.ones((2, 3), np.float32), "y": np.ones((4, 5), np.float32)}
        for device in ("cpu", "reference"):
            model = gw.compile(proto, options=replace(options, device=device))
            with pytest.raises(gw.FeedError, match=r"B is 3 \(axis 1 of 'x'\) and C is 4 \(axis 0 of 'y'\)"):
                model.run(feeds)

    def test_a_saved_model_runs_on_it(
        self, package_path: Path, classifier: Classifier, options: Options
    ) -> None:
        loaded = gw.load(package_path, options=replace(options, device="reference"))
        np.testing.assert_allclose(
            loaded(classifier.x)[0], classifier.value(classifier.x), rtol=1e-4, atol=1e-6
        )

    def test_the_reference_device_saves_a_package_for_the_cpu(
        self, classifier: Classifier, options: Options, tmp_path: Path
    ) -> None:
        compiled(classifier, options, "reference").save(tmp_path / "reference.om")
        loaded = gw.load(tmp_path / "reference.om", options=options)
        np.testing.assert_allclose(
            loaded(classifier.x)[0], classifier.value(classifier.x), rtol=1e-4, atol=1e-6
        )


class Doubler:
    """An executor that needs no compiler."""

    def __init__(self) -> None:
        self.runs = 0

    def fast_path(self, threads: int) -> NoFastPath:
        return NoFastPath(threads)

    def run(self, arrays: Any, outputs: Any, threads: int) -> list[Any]:
        self.runs += 1
        return [arrays[0] * 2]

    def trim(self) -> int:
        return 1

    def stats(self) -> dict[str, int]:
        return {"runs": self.runs, "arena_bytes": 5}


def doubling(*shape: int | str) -> Case:
    """A case for inputs of ``shape``."""
    spec = TensorSpec("x", F32, shape)
    return Case(Program((spec,), (spec,), (), {}), Doubler())


class TestDispatch:
    @pytest.fixture
    def any_rank(self, options: Options) -> gw.Model:
        node = helper.make_node("Neg", ["x"], ["y"])
        return gw.compile(onnx_model([node], {"x": (FLOAT, None)}, {"y": (FLOAT, None)}), options=options)

    @pytest.fixture
    def any_pair(self, options: Options) -> gw.Model:
        """A model with more ranks than a package has variants."""
        node = helper.make_node("Add", ["x", "z"], ["y"])
        inputs = {"x": (FLOAT, None), "z": (FLOAT, None)}
        return gw.compile(onnx_model([node], inputs, {"y": (FLOAT, None)}), options=options)

    def test_every_rank_has_a_case_and_others_are_rejected(
        self, any_rank: gw.Model, options: Options, tmp_path: Path
    ) -> None:
        any_rank.save(tmp_path / "late.om")
        for model in (any_rank, gw.load(tmp_path / "late.om", options=options)):
            assert isinstance(model.executor, DispatchExecutor)
            held = model.stats()["cases"]
            for shape in [(), (3,), (2, 0), (1, 2, 3)]:
                x = np.ones(shape, np.float32)
                assert np.array_equal(model(x)[0], -x) and model(x)[0].shape == shape
            assert model.stats()["cases"] == held == len(RANKS)
            x = np.ones((1,) * len(RANKS), np.float32)
            assert np.array_equal(model(x)[0], -x)
            assert model.stats()["cases"] == held + 1

    def test_ranks_that_follow_from_sizes_need_no_compiler(self, options: Options, tmp_path: Path) -> None:
        any_size = gw.compile(rank_by_size(), options=options)
        any_size.save(tmp_path / "late.om")
        offline = replace(options, cc="/no/compiler", cache_dir=tmp_path / "empty")
        for model in (any_size, gw.load(tmp_path / "late.om", options=offline)):
            assert isinstance(model.executor, HostProgramExecutor)
            for shape in [(2, 3), (1, 3), (1, 1)]:
                x = np.ones(shape, np.float32)
                assert np.array_equal(model(x)[0], x[0] if shape[0] == 1 else x)

    def test_compiled_cases_are_bounded(self, any_pair: gw.Model) -> None:
        assert dispatch(any_pair.package).cases == ()
        for size in range(MOST_COMPILED + 3):
            any_pair(np.ones((1, size), np.float32), np.ones(1, np.float32))
        stats = any_pair.stats()
        assert (stats["cases"], stats["runs"]) == (MOST_COMPILED, MOST_COMPILED + 3)

    def test_known_shapes_run_while_another_is_compiled(self) -> None:
        compiling, release = threading.Event(), threading.Event()

        def compile(shapes: Shapes) -> Case:
            if shapes == ((2,),):
                compiling.set()
                assert release.wait(60)
            return doubling(*shapes[0])

        spec = TensorSpec("x", F32, ("N",))
        executor = DispatchExecutor(Dispatch((spec,), (spec,), (), COMPILE), (), compile)
        executor.run([np.ones(1)], None, 1)
        slow = threading.Thread(target=executor.run, args=([np.ones(2)], None, 1))
        slow.start()
        assert compiling.wait(60)
        assert executor.run([np.ones(1)], None, 1)[0] == 2
        release.set()
        slow.join(60)
        assert executor.stats() == {"runs": 3, "host_calls": 0, "arena_bytes": 5, "cases": 2}

    def test_the_case_used_longest_ago_goes_first(self) -> None:
        compiled: list[int] = []

        def compile(shapes: Shapes) -> Case:
            compiled.append(shapes[0][0])
            return doubling(*shapes[0])

        spec = TensorSpec("x", F32, ("N",))
        executor = DispatchExecutor(
            Dispatch((spec,), (spec,), (doubling(1).executable,), COMPILE), [doubling(1)], compile
        )
        sizes = [*range(2, 2 + MOST_COMPILED)]
        for size in (1, *sizes, sizes[0], 99, *sizes[2:], 99, sizes[0]):
            assert executor.run([np.ones(size)], None, 1)[0].tolist() == [2.0] * size
        assert compiled == [*sizes, 99]
        executor.run([np.ones(sizes[1])], None, 1)  # it gave its place to the one of 99
        assert compiled == [*sizes, 99, sizes[1]]
        assert executor.stats()["runs"] == 2 * MOST_COMPILED + 4

    def test_programs_made_at_once_for_the_same_shapes_are_one(self) -> None:
        compiled: list[Shapes] = []
        together = threading.Barrier(4)

        def compile(shapes: Shapes) -> Case:
            compiled.append(shapes)
            return doubling("N")

        spec = TensorSpec("x", F32, ("N",))
        executor = DispatchExecutor(Dispatch((spec,), (spec,), (), COMPILE), (), compile)

        def work(size: int) -> None:
            together.wait(60)
            executor.run([np.ones(size)], None, 1)

        in_threads(work, (1, 2, 3, 3))
        assert len(compiled) == 1 and executor.stats()["runs"] == 4


def test_isa_beyond_this_cpu_is_rejected(monkeypatch: pytest.MonkeyPatch, options: Options) -> None:
    for here, asked, taken in [
        ("v4", "auto", "v4"), ("v4", "v3", "v3"), ("v3", "auto", "v3"), ("v3", "v4", None),
        ("baseline", "auto", None), ("baseline", "v3", None),
    ]:  # fmt: skip
        monkeypatch.setattr(_native, "isa", lambda name=here: name)
        if taken is None:
            with pytest.raises(gw.ToolchainError, match="CPU"):
                target_isa(replace(options, isa=asked))
        else:
            assert target_isa(replace(options, isa=asked)) == taken
    monkeypatch.setattr(_native, "isa", lambda: "v3")
    with pytest.raises(gw.ToolchainError, match="targets=v4,v3"):
        target_isa(replace(options, isa="v4"))
    assert set(LEVELS) == {"baseline", "v3", "v4"}


@pytest.mark.skipif(_native.isa() != "v4", reason="needs AVX-512")
def test_packages_run_on_newer_cpus_and_are_compiled_again_for_older_ones(
    classifier: Classifier, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_compiler = replace(options, cc="/no/compiler", cache_dir=tmp_path / "empty")
    for compiled_for, here, taken in [("v3", "v4", "v3"), ("v3", "v3", "v3"), ("v4", "v3", "v3")]:
        monkeypatch.setattr(_native, "isa", lambda: "v4")
        gw.compile(classifier.onnx(), options=replace(options, isa=compiled_for)).save(tmp_path / "x.om")
        monkeypatch.setattr(_native, "isa", lambda name=here: name)
        loaded = gw.load(tmp_path / "x.om", options=options if compiled_for > here else no_compiler)
        assert list(targets(loaded.package)) == [taken]
        np.testing.assert_allclose(
            loaded(classifier.x)[0], classifier.value(classifier.x), rtol=1e-4, atol=1e-6
        )


def test_a_node_in_python_that_needs_more_memory_says_so(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reference(_op: Unique, _x: object) -> object:
        raise MemoryError("Unable to allocate 16.0 GiB")

    node = helper.make_node("Unique", ["x"], ["y"], name="kinds", axis=0)
    proto = onnx_model([node], {"x": (FLOAT, ["N", 2])}, {"y": (FLOAT, ["K", 2])})
    model = gw.compile(proto, options=options)
    monkeypatch.setattr(Unique, "reference", reference)
    with pytest.raises(RunError, match="not enough memory: Unable to allocate 16") as caught:
        model(np.zeros((3, 2), np.float32))
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.where) == ("memory", "kinds")


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_dtypes_that_numpy_does_not_have(device: str, options: Options) -> None:
    """They are used for inputs, outputs and the caller's own arrays."""
    spec = (TensorProto.BFLOAT16, ["N"])
    model_bytes = onnx_model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": spec}, {"y": spec})
    model = gw.compile(model_bytes, options=replace(options, device=device))
    x = np.array([0, 1.5, -2, 1e38, np.inf], ml_dtypes.bfloat16)
    y = np.empty(5, ml_dtypes.bfloat16)
    assert np.array_equal(model(x)[0], x * 2)
    assert model.run({"x": x}, out={"y": y})["y"] is y and np.array_equal(y, x * 2)


def test_strings_run_on_every_device(options: Options, tmp_path: Path) -> None:
    node = helper.make_node("Concat", ["x", "w"], ["y"], axis=0)
    specs = {"x": (TensorProto.STRING, ["N"])}, {"y": (TensorProto.STRING, ["M"])}
    source = onnx_model([node], *specs, {"w": np.array(["p", "\u00fc"], object)})
    for device in ("cpu", "reference"):
        on_device = replace(options, device=device)
        model = gw.compile(source, options=on_device)
        model.save(tmp_path / "text.om")
        for each in (model, gw.load(tmp_path / "text.om", options=on_device)):
            for x in (np.array(["a", "bb"], object), np.array(["a", "bb"]), ["a", "bb"]):
                assert each(x)[0].tolist() == ["a", "bb", "p", "\u00fc"]  # type: ignore[arg-type]  # texts
