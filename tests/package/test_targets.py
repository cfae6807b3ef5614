"""One package for several CPUs: on each CPU it gives the same as a package for that CPU alone, with one set
of weights.
"""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import graphwright as gw
from graphwright import _native
from graphwright.config import Options
from graphwright.ir.constants.deferred import Packing
from graphwright.ir.types import Layout
from graphwright.layout.transform import pack
from graphwright.package.pack_weights import pack_weights
from graphwright.package.package import WEIGHTS, Package, own_weights
from graphwright.package.read_archive import open_archive
from graphwright.package.repacked_weights import packs_of
from graphwright.package.weights import Weights
from graphwright.records import replace as changed
from tests.onnx_models import onnx_model
from tests.package.damage import manifest_of
from tests.package.models import Array, Classifier
from tests.package.several_targets import MODELS
from tests.tools.support import graphwright, write_model

BOTH = ("v4", "v3")
HERE = _native.isa()


def products() -> bytes:
    random = np.random.default_rng(12)
    names = [f"w{k}" for k in range(4)]
    nodes = [helper.make_node("MatMul", [f"h{k}", w], [f"h{k + 1}"]) for k, w in enumerate(names)]
    weights = {w: random.standard_normal((384, 384)).astype(np.float32) for w in names}
    shape: list[Any] = ["N", 384]
    return onnx_model(
        nodes, {"h0": (TensorProto.FLOAT, shape)}, {"h4": (TensorProto.FLOAT, list(shape))}, weights
    )


@pytest.fixture(params=MODELS, scope="module")
def packages(
    request: pytest.FixtureRequest, options: Options, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Path]]:
    """For each model, a package for both targets and one for each."""
    data, more, _ = MODELS[request.param]
    folder = tmp_path_factory.mktemp("targets")
    paths = {name: folder / f"{name}.om" for name in ("both", *BOTH)}
    gw.compile(data, **more, options=replace(options, targets=BOTH)).save(paths["both"])
    for isa in BOTH:
        if isa <= HERE:
            gw.compile(data, **more, options=replace(options, isa=isa)).save(paths[isa])
    return request.param, paths


@pytest.mark.parametrize("isa", [isa for isa in BOTH if isa <= HERE])
@pytest.mark.parametrize("mmap", [False, True])
def test_results_are_those_of_a_package_for_that_cpu_alone(
    packages: tuple[str, dict[str, Path]], isa: str, mmap: bool, options: Options
) -> None:
    name, paths = packages
    without = replace(options, isa=isa, cc="/no/compiler")
    both, alone = (gw.load(paths[which], mmap=mmap, options=without) for which in ("both", isa))
    assert both.package.isas() == sorted(BOTH)
    for feeds in MODELS[name][2]:
        results, expected = both.run(dict(feeds)), alone.run(dict(feeds))
        for output, array in expected.items():
            np.testing.assert_array_equal(results[output], array)


@pytest.mark.parametrize("isa", [isa for isa in BOTH if isa <= HERE])
def test_loading_and_saving_keeps_every_byte(
    packages: tuple[str, dict[str, Path]], isa: str, options: Options
) -> None:
    _, paths = packages
    again = io.BytesIO()
    gw.load(paths["both"], verify=True, options=replace(options, isa=isa)).save(again)
    assert again.getvalue() == paths["both"].read_bytes()


def test_the_cpu_decides(
    packages: tuple[str, dict[str, Path]], options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, paths = packages
    used: set[str] = set()
    weights_of = Package.weights_of

    def noted(package: Package, isa: str) -> Weights:
        used.add(isa)
        return weights_of(package, isa)

    monkeypatch.setattr(Package, "weights_of", noted)
    for cpu in (isa for isa in BOTH if isa <= HERE):
        monkeypatch.setattr("graphwright.runtime.devices.this_cpu._native.isa", lambda cpu=cpu: cpu)
        gw.load(paths["both"], options=replace(options, cc="/no/compiler"))
        assert used <= {cpu}
        used.clear()


def test_weights_are_stored_once_for_all_targets(options: Options, tmp_path: Path) -> None:
    """Weights of matrix multiplications differ only in the width of their panels."""
    sizes = {}
    for name, chosen in (("both", {"targets": BOTH}), ("one", {"isa": HERE})):
        gw.compile(products(), options=replace(options, **chosen)).save(tmp_path / f"{name}.om")  # type: ignore[arg-type]  # options by name
        sizes[name] = (tmp_path / f"{name}.om").stat().st_size
    weights = 4 * 384 * 384 * 4
    assert sizes["one"] > weights and sizes["both"] < sizes["one"] + 0.1 * weights
    members = open_archive(tmp_path / "both.om")[0]
    assert own_weights("v3") not in members


def test_weights_that_cannot_be_packed_again_are_a_separate_member(
    packages: tuple[str, dict[str, Path]],
) -> None:
    name, paths = packages
    made = dict(manifest_of(paths["both"])["packs"]["v3"]["made"])
    assert ("own" in made.values()) == (own_weights("v3") in open_archive(paths["both"])[0])
    if name == "convolutions":
        assert "own" in made.values() and any(isinstance(how, list) for how in made.values())


def test_damage_is_found_by_each_target(
    packages: tuple[str, dict[str, Path]], options: Options, tmp_path: Path
) -> None:
    """Every tensor that a target reads is checked, whether it is packed again or stored for the target."""
    _, paths = packages
    members, later = open_archive(paths["both"], later=own_weights("v3").__eq__)
    for name, how in manifest_of(paths["both"])["packs"]["v3"]["made"]:
        held = bytes(later[own_weights("v3")].read() if how == "own" else members[WEIGHTS])
        header = 8 + int.from_bytes(held[:8], "little")
        start = json.loads(held[8:header])[how[0] if isinstance(how, list) else name]["data_offsets"][0]
        data = bytearray(paths["both"].read_bytes())
        data[data.find(held) + header + start] ^= 1
        (tmp_path / "bad.om").write_bytes(data)
        with pytest.raises(gw.PackageError, match="damaged"):
            gw.load(tmp_path / "bad.om", options=replace(options, isa="v3", cc="/no/compiler"))


def test_a_model_that_was_just_compiled_runs_here(options: Options) -> None:
    classifier = Classifier()
    for targets in (BOTH, BOTH[::-1], (HERE,)):
        model = gw.compile(classifier.onnx(), options=replace(options, targets=targets))
        np.testing.assert_allclose(
            model(classifier.x)[0], classifier.value(classifier.x), rtol=1e-4, atol=1e-6
        )


def test_targets_of_other_cpus_alone_are_rejected(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphwright.runtime.devices.this_cpu._native.isa", lambda: "v3")
    with pytest.raises(gw.ToolchainError, match=r"(?s)none of the targets v4.*targets=v4,v3"):
        gw.compile(Classifier().onnx(), options=replace(options, targets=("v4",)))


@pytest.mark.parametrize("wrong", ["v5", "v3,v3", "v3,,v4", ("v2",)])
def test_wrong_targets_are_rejected(wrong: Any) -> None:
    with pytest.raises(gw.OptionError, match="must be a comma-separated list of v3, v4"):
        gw.compile(Classifier().onnx(), options={"targets": wrong})


def test_the_command_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "model.onnx", op="Tanh")
    assert graphwright("compile", "model.onnx", "-o", "a.om", "--targets", "v4,v3").exit_code == 0
    monkeypatch.setenv("GRAPHWRIGHT_TARGETS", "v4,v3")
    assert graphwright("compile", "model.onnx", "-o", "b.om").exit_code == 0
    assert Path("a.om").read_bytes() == Path("b.om").read_bytes()
    shown = graphwright("inspect", "a.om", "--trust").stdout
    assert "v3, whose weights are packed again" in shown
    assert "tasks for v3" in shown and "tasks for v4" in shown
    assert os.listdir() and graphwright("run", "a.om", "--shape", "x:2,4", "--isa", "v3").exit_code == 0


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_pack_follows_from_any_other(data: st.DataObject) -> None:
    """All sizes, including 1 and primes, are packed in panels of every width, also through other shapes."""
    shape = tuple(data.draw(st.lists(st.integers(1, 13), min_size=1, max_size=3)))
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1

    def drawn(name: str) -> tuple[Weights, Array]:
        view = shape if data.draw(st.booleans()) else (int(np.prod(shape)),)
        order = tuple(data.draw(st.permutations(range(len(view)))))
        axes = data.draw(st.lists(st.sampled_from(range(len(view))), unique=True, max_size=2))
        blocks = tuple((axis, data.draw(st.sampled_from([1, 2, 8, 16]))) for axis in axes)
        layout = Layout(order, blocks, zero_padded=True)
        packed = pack(array.reshape(view), layout)
        weights = pack_weights({name: packed})
        return changed(weights, packings={name: Packing("source", view, layout)}), packed

    (first, _), (other, expected) = drawn("a"), drawn("b")
    packs = packs_of(first, other)
    assert [type(how) for _, how in packs.plain["made"]] == [list]  # repacked, not stored again
    np.testing.assert_array_equal(packs.weights().arrays["b"], expected)
