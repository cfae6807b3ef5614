"""Models whose inputs have no rank: a program for each that fits, in one package, on one set of weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright import loading
from graphwright.compiler.ranks import RANKS
from graphwright.config import Options
from graphwright.executable.nodes import COMPILE, Dispatch, HostProgram, Program
from graphwright.package.package import Package
from graphwright.package.read import read_package
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.dispatch.executor import DispatchExecutor
from tests.executables import dispatch
from tests.onnx_models import onnx_model
from tests.package.damage import entry_of, manifest_of, members_of, put_together
from tests.package.models import rank_by_size
from tests.package.offline import COMPILER, run_offline

Array = np.ndarray[Any, Any]
FLOAT = TensorProto.FLOAT
WEIGHT = np.random.default_rng(3).standard_normal((6, 5)).astype(np.float32)
BIAS = np.random.default_rng(4).standard_normal(5).astype(np.float32)
SHAPES = ((6,), (3, 6), (0, 6), (2, 7, 6), (1, 2, 3, 6), (2, 1, 2, 1, 6))


def dense() -> bytes:
    """``tanh(x @ w + b)`` of ``x`` of any rank but 0."""
    node = helper.make_node
    return onnx_model(
        [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["a"]), node("Tanh", ["a"], ["y"])],
        {"x": (FLOAT, None)},  # type: ignore[dict-item]  # no rank
        {"y": (FLOAT, None)},
        {"w": WEIGHT, "b": BIAS},
    )


def value(x: Array) -> Array:
    return np.tanh(x.astype(np.float64) @ WEIGHT + BIAS)


def feed(shape: Sequence[int]) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(tuple(shape)).astype(np.float32)


@pytest.fixture(scope="module")
def model(options: Options) -> gw.Model:
    return gw.compile(dense(), options=options)


@pytest.fixture(scope="module")
def path(model: gw.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("variants") / "dense.om"
    model.save(file)
    return file


def ranks(package: Package) -> list[int]:
    return [len(case.inputs[0].shape or ()) for case in dispatch(package).cases]


def test_every_rank_that_fits_has_a_variant_and_all_share_the_weights(model: gw.Model, path: Path) -> None:
    assert ranks(model.package) == [1, 2, 3, 4, 5]
    package = read_package(path, trust=True)
    assert ranks(package) == [1, 2, 3, 4, 5]
    assert all(isinstance(case, Program) for case in dispatch(package).cases)
    assert dispatch(package).otherwise == COMPILE and package.main.inputs[0].shape is None
    largest = [t for t in package.weights.tensors.values() if t.size >= WEIGHT.nbytes]
    assert len(largest) == 1
    assert sum(name.startswith("weights") for name in members_of(path)) == 1


def test_each_runs_without_a_compiler(path: Path, tmp_path: Path) -> None:
    runs = [{"x": feed(shape)} for shape in SHAPES]
    for given, results in zip(runs, run_offline(path, runs, tmp_path, (*COMPILER, "ops")), strict=True):
        assert results["y"].shape == (*given["x"].shape[:-1], 5)
        np.testing.assert_allclose(results["y"], value(given["x"]), rtol=1e-5, atol=1e-5)


def test_a_rank_without_a_program_is_compiled_if_there_is_a_compiler(path: Path, options: Options) -> None:
    loaded = gw.load(path, options=options)
    assert isinstance(loaded.executor, DispatchExecutor) and loaded.stats()["cases"] == 5
    x = feed((1, 1, 2, 1, 1, 6))
    np.testing.assert_allclose(loaded(x)[0], value(x), rtol=1e-5, atol=1e-5)
    assert loaded.stats()["cases"] == 6


def test_without_a_compiler_the_error_lists_the_ranks_of_the_package(path: Path, options: Options) -> None:
    loaded = gw.load(path, options=replace(options, cc="no-such-compiler"))
    x = feed(SHAPES[1])
    np.testing.assert_allclose(loaded(x)[0], value(x), rtol=1e-5, atol=1e-5)
    with pytest.raises(gw.ToolchainError, match=r"no program in the package accepts x:1,1,1,1,1,6") as caught:
        loaded(feed((1, 1, 1, 1, 1, 6)))
    assert "the package has programs for x:6; x:x_0,6; x:x_0,x_1,6" in str(caught.value)


def test_the_same_model_gives_the_same_bytes_and_so_does_saving_again(
    path: Path, options: Options, tmp_path: Path
) -> None:
    gw.compile(dense(), options=options).save(tmp_path / "again.om")
    gw.load(path, options=options).save(tmp_path / "loaded.om")
    assert (tmp_path / "again.om").read_bytes() == path.read_bytes()
    assert (tmp_path / "loaded.om").read_bytes() == path.read_bytes()


def test_an_untrusted_package_is_compiled_again(path: Path, options: Options, tmp_path: Path) -> None:
    stranger = replace(options, key_dir=tmp_path / "other")
    assert read_package(path).main.executable is None
    loaded = gw.load(path, options=stranger)
    for shape in SHAPES:
        x = feed(shape)
        np.testing.assert_allclose(loaded(x)[0], value(x), rtol=1e-5, atol=1e-5)
    assert loaded.stats()["cases"] == 5


def cases(manifest: Any) -> Any:
    return entry_of(manifest)["executable"]["cases"]


def programs(manifest: Any) -> Any:
    return entry_of(manifest)["programs"]


DAMAGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "another input": lambda m: cases(m)[1]["inputs"][0].__setitem__(0, "z"),
    "another type": lambda m: cases(m)[0]["outputs"][0].__setitem__(1, "f64"),
    "no inputs": lambda m: cases(m)[0].update(inputs=[]),
    "no targets": lambda m: programs(m).pop(2),
    "targets that are none": lambda m: programs(m).__setitem__(2, None),
    "a target that is not there": lambda m: programs(m)[2].update(v9={"objects": {}, "sources": {}}),
    "one that is not there": lambda m: cases(m).append(cases(m)[0]),
    "another kind": lambda m: cases(m).__setitem__(0, 3),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_malformed_variants_are_rejected(
    path: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    manifest = manifest_of(path)
    change(manifest)
    members = {n: d for n, d in members_of(path).items() if n not in ("manifest.json", "signature")}
    damaged = put_together(tmp_path / "bad.om", manifest, members, None)
    with pytest.raises(gw.PackageError):
        gw.load(damaged, trust=True)


def test_one_rank_that_fits_is_the_models(options: Options) -> None:
    weight = np.ones((2, 3, 1, 1), np.float32)
    conv = onnx_model(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        {"x": (FLOAT, None)},  # type: ignore[dict-item]  # no rank
        {"y": (FLOAT, None)},
        {"w": weight},
    )
    compiled = gw.compile(conv, options=options)
    assert isinstance(compiled.executor, Cpu) and len(compiled.inputs[0].shape or ()) == 4
    x = feed((2, 3, 4, 5))
    np.testing.assert_allclose(compiled(x)[0], x.sum(1, keepdims=True).repeat(2, 1), rtol=1e-5, atol=1e-5)
    with pytest.raises(gw.FeedError):
        compiled(feed((3, 4, 5)))


def test_more_combinations_than_a_package_holds_are_compiled_when_fed(options: Options) -> None:
    two = onnx_model(
        [helper.make_node("Add", ["x", "z"], ["y"])],
        {"x": (FLOAT, None), "z": (FLOAT, None)},  # type: ignore[dict-item]  # no rank
        {"y": (FLOAT, None)},
    )
    compiled = gw.compile(two, options=options)
    assert dispatch(compiled.package).cases == () and len(RANKS) ** 2 > 8
    x, z = feed((2, 3)), feed((3,))
    assert np.array_equal(compiled(x, z)[0], x + z)


def test_a_rank_that_follows_from_a_size_has_none(options: Options) -> None:
    compiled = gw.compile(rank_by_size(), options=options)
    main = compiled.entry.executable
    assert isinstance(main, HostProgram) and not any(isinstance(c.callee, Dispatch) for c in main.calls())
    fixed = gw.compile(rank_by_size(), shapes={"x": (1, "m")}, options=options)
    assert isinstance(fixed.executor, Cpu)
    assert fixed(feed((1, 4)))[0].shape == (4,)


def test_running_a_variant_never_enters_the_compiler(
    path: Path, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("the compiler was entered")

    monkeypatch.setattr(loading, "recompiler", refused)
    monkeypatch.setattr(loading, "recompile", refused)
    loaded = gw.load(path, options=options)
    for shape in SHAPES:
        loaded(feed(shape))
    assert loaded.stats()["runs"] == len(SHAPES)
