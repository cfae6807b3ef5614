"""Packages of partitioned models: the same bytes again, run without the compiler, refused where damaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright import loading
from graphwright.compiler.recompile import unpacked_module
from graphwright.config import Options
from graphwright.executable.nodes import CallProgram
from graphwright.ir.evaluate import evaluate_module
from graphwright.package.read import read_package
from graphwright.runtime.host_program.executor import HostProgramExecutor
from tests.executables import host_program
from tests.onnx_models import onnx_model
from tests.package.damage import entry_of, manifest_of, members_of, put_together
from tests.package.offline import run_offline
from tests.runtime.host_program.expected import assert_same
from tests.runtime.host_program.models import MODELS, Partitioned

Compiled = Callable[[str], tuple[Partitioned, gw.Model]]


@pytest.fixture(scope="session")
def saved(
    compiled: Compiled, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Partitioned, gw.Model, Path]]:
    """A model by name, and its package."""
    folder = tmp_path_factory.mktemp("packages")

    def made(name: str) -> tuple[Partitioned, gw.Model, Path]:
        known, model = compiled(name)
        path = folder / f"{name}.om"
        if not path.exists():
            model.save(path)
        return known, model, path

    return made


Saved = Callable[[str], tuple[Partitioned, gw.Model, Path]]


def calls(model: gw.Model) -> list[CallProgram]:
    found = host_program(model.package)
    assert found is not None
    return found.calls()


def test_memory_that_programs_share_is_counted_once(options: Options) -> None:
    """What counts is the memory that the system gets back."""
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("MatMul", ["e", "w"], ["m"]),
        helper.make_node("Reshape", ["m", "to"], ["r"]),
        helper.make_node("Softmax", ["r"], ["s"]),
        helper.make_node("ReduceSum", ["s"], ["y"], keepdims=0),
    ]
    source = onnx_model(
        nodes,
        {"x": (TensorProto.FLOAT, ["N", 64]), "to": (TensorProto.INT64, [2])},
        {"y": (TensorProto.FLOAT, None)},  # type: ignore[dict-item]  # no rank
        {"w": np.ones((64, 64), np.float32)},
    )
    model = gw.compile(source, options=options)
    assert isinstance(model.executor, HostProgramExecutor)
    assert len(calls(model)) == 2
    model.trim()  # outputs of other tests
    (y,) = model(np.ones((100, 64), np.float32), np.array([50, 128]))
    assert y == pytest.approx(50.0)
    counted = model.stats()["arena_bytes"]
    assert counted == model.trim() > 0 and model.stats()["arena_bytes"] == 0


@pytest.mark.parametrize("name", MODELS)
def test_loading_and_saving_give_the_same_bits(
    name: str, saved: Saved, options: Options, tmp_path: Path
) -> None:
    known, model, path = saved(name)
    loaded = gw.load(path, options=options)
    assert type(loaded.executor) is type(model.executor) and loaded.outputs == model.outputs
    for feed in known.feeds:
        for mine, theirs in zip(loaded.run(feed).values(), model.run(feed).values(), strict=True):
            assert mine.tolist() == theirs.tolist()
    loaded.save(tmp_path / "loaded.om")
    gw.compile(known.model, options=options).save(tmp_path / "again.om")
    assert (tmp_path / "loaded.om").read_bytes() == path.read_bytes()
    assert (tmp_path / "again.om").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", ["detector", "growing"])
def test_it_runs_without_a_compiler(name: str, saved: Saved, tmp_path: Path) -> None:
    known, model, path = saved(name)
    feed = known.feeds[0]
    (results,) = run_offline(path, [feed], tmp_path)
    assert all(np.array_equal(results[k], array) for k, array in model.run(feed).items())


def test_weights_are_held_once(saved: Saved) -> None:
    _, _, path = saved("detector")
    assert sum(name.startswith("weights") for name in members_of(path)) == 1
    package = read_package(path, trust=True)
    found = host_program(package)
    assert found is not None and len(found.calls()) == 2
    held = [t for t in package.weights.tensors.values() if t.shape == (1, 4)]
    assert len(held) <= 1


@pytest.mark.parametrize("name", ["detector", "branching", "texts", "open_rank"])
def test_an_untrusted_package_is_compiled_again(
    name: str, saved: Saved, options: Options, tmp_path: Path
) -> None:
    known, model, path = saved(name)
    assert read_package(path).main.executable is None
    loaded = gw.load(path, options=replace(options, key_dir=tmp_path / "other"))
    assert len(calls(loaded)) == known.programs
    for feed in known.feeds:
        assert_same(list(loaded.run(feed).values()), list(model.run(feed).values()), name)


@pytest.mark.parametrize("name", MODELS)
def test_its_graph_means_the_same(name: str, saved: Saved) -> None:
    known, model, path = saved(name)
    module = unpacked_module(read_package(path))
    feed = known.feeds[0]
    results = evaluate_module(module, [feed[value.name] for value in module.main.inputs])
    assert_same(list(results), list(model.run(feed).values()), name)


def test_running_does_not_import_the_compiler_if_ranks_are_known(
    saved: Saved, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("the compiler was entered")

    monkeypatch.setattr(loading, "recompiler", refused)
    monkeypatch.setattr(loading, "recompile", refused)
    for name in ("detector", "positives", "reshaped", "resized", "growing", "branching", "texts"):
        known, _, path = saved(name)
        loaded = gw.load(path, options=options)
        for feed in known.feeds:
            loaded.run(feed)
        assert loaded.stats()["runs"] == len(known.feeds)


def _host_program(manifest: dict[str, Any]) -> dict[str, Any]:
    program: dict[str, Any] = entry_of(manifest)["executable"]
    assert program["kind"] == "host"
    return program


def _step(index: int, **changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: _host_program(manifest)["steps"][index].update(changes)


def _swap_callees(manifest: dict[str, Any]) -> None:
    first, second = (step for step in _host_program(manifest)["steps"] if "call" in step)
    first["callee"], second["callee"] = second["callee"], first["callee"]


DAMAGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "no host program": lambda m: entry_of(m).update(executable=3),
    "no programs": lambda m: entry_of(m).update(programs=[]),
    "a value that is not there": _step(0, inputs=[99]),
    "a negative value": _step(0, inputs=[-1]),
    "a value that is made later": _step(0, inputs=[4]),
    "a value made twice": _step(1, outputs=[0]),
    "a program that is not there": lambda m: entry_of(m)["programs"].pop(),
    "another call's number": _step(0, call=1),
    "another call's callee": _swap_callees,
    "no callee": _step(0, callee=None),
    "fewer inputs": _step(0, inputs=[]),
    "fewer outputs": _step(0, outputs=[]),
    "sizes that no program takes": _step(0, sizes=["N"]),
    "a size bound for more values": _step(1, shapes=[[2, -1], [-1]]),
    "a size bound for no shape": _step(1, shapes=["ab"]),
    "a buffer that is larger than its room": _step(1, shapes=[[1000, 1000]]),
    "a size bound for another rank": _step(1, shapes=[[-1]]),
    "a size that is another": _step(1, bind="N"),
    "a type that is not there": lambda m: _host_program(m)["values"][0].__setitem__(1, "f99"),
    "another type": lambda m: _host_program(m)["values"][0].__setitem__(1, "i32"),
    "a size that is no size": lambda m: _host_program(m)["values"][1].__setitem__(2, ["N +", 3]),
    "a constant that is not there": lambda m: _host_program(m)["constants"].append([0, "0" * 20]),
    "outputs that are not there": lambda m: _host_program(m).update(outputs=[77]),
    "fewer outputs than the model": lambda m: _host_program(m).update(
        outputs=_host_program(m)["outputs"][:1]
    ),
    "more inputs than the model": lambda m: _host_program(m).update(inputs=2),
    "a step of no kind": lambda m: _host_program(m)["steps"].append({"inputs": [], "outputs": []}),
    "a list in place of a step": lambda m: _host_program(m)["steps"].append([]),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_malformed_host_programs_are_rejected(
    change: Callable[[dict[str, Any]], object], saved: Saved, tmp_path: Path
) -> None:
    """A trusted file raises PackageError when it is loaded, or its run ends with an error."""
    known, _, path = saved("positives")
    manifest = manifest_of(path)
    change(manifest)
    members = {n: d for n, d in members_of(path).items() if n not in ("manifest.json", "signature")}
    damaged = put_together(tmp_path / "bad.om", manifest, members, None)
    with pytest.raises(gw.GraphwrightError):
        gw.load(damaged, trust=True).run(known.feeds[0])


@pytest.mark.parametrize("number", [0, 7, None])
def test_subgraphs_that_are_not_there_are_rejected(number: int | None, saved: Saved, tmp_path: Path) -> None:
    """Programs with ranks that are only known in a run compile a subgraph of the graph."""
    known, _, path = saved("open_rank")
    manifest = manifest_of(path)
    (call,) = (step for step in _host_program(manifest)["steps"] if step.get("callee", {}).get("cases") == [])
    members = {n: d for n, d in members_of(path).items() if n not in ("manifest.json", "signature")}
    call["callee"]["subgraph"] = number
    put_together(tmp_path / "bad.om", manifest, members, None)
    with pytest.raises(gw.PackageError):
        gw.load(tmp_path / "bad.om", trust=True)
    if number is not None and number > 0:
        call["call"] = number
        put_together(tmp_path / "bad.om", manifest, members, None)
        with pytest.raises(gw.PackageError, match="no subgraph 7"):
            gw.load(tmp_path / "bad.om", trust=True).run(known.feeds[0])


def test_loops_in_native_code_without_a_body_are_rejected(saved: Saved, tmp_path: Path) -> None:
    _, _, path = saved("growing")
    manifest = manifest_of(path)
    loop = next(step for step in _host_program(manifest)["steps"] if step.get("repeats"))
    members = {n: d for n, d in members_of(path).items() if n not in ("manifest.json", "signature")}
    for bodies in ([], [*loop["bodies"], *loop["bodies"]], [{**loop["bodies"][0], "steps": []}]):
        loop["bodies"] = bodies
        damaged = put_together(tmp_path / "bad.om", manifest, members, None)
        with pytest.raises(gw.PackageError):
            gw.load(damaged, trust=True)


def test_bodies_that_nest_without_end_are_rejected(saved: Saved, tmp_path: Path) -> None:
    _, _, path = saved("branching")
    manifest = manifest_of(path)
    program = _host_program(manifest)
    for _ in range(60):
        host = next(step for step in program["steps"] if "bodies" in step)
        program = {**program, "steps": [{**host, "bodies": [program]}]}
    members = {n: d for n, d in members_of(path).items() if n not in ("manifest.json", "signature")}
    entry_of(manifest)["executable"] = program
    damaged = put_together(tmp_path / "deep.om", manifest, members, None)
    with pytest.raises(gw.PackageError):
        gw.load(damaged, trust=True)
