"""Models with gears: each is as its shape compiled alone, in memory, in a file, rebuilt from the graph."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import graphwright as gw
from graphwright.config import Options
from graphwright.package.package import Package
from graphwright.package.read import read_package
from graphwright.runtime.devices.cpu import Cpu
from tests.executables import dispatch, programs
from tests.package.damage import entry_of, manifest_of, members_of, put_together

from .models import FLOAT, INT64, cnn, encoder, images, node, onnx_model

Array = np.ndarray[Any, Any]
SHAPES = ((1, 3, 16, 16), (2, 3, 16, 16), (5, 3, 24, 20))
LARGEST = SHAPES[2]
BETWEEN = (3, 3, 17, 19)


@pytest.fixture(scope="module", params=["error", "dynamic"])
def between(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(between: str, options: Options) -> gw.Model:
    return gw.compile(cnn(), gears=gw.Gears({"x": SHAPES}, between=between), options=options)


@pytest.fixture(scope="module")
def path(model: gw.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("packages") / "gears.om"
    model.save(file)
    return file


@pytest.fixture(scope="module")
def expected(options: Options) -> dict[tuple[int, ...], Array]:
    """The results of the model that is compiled for one shape, by shape."""
    alone = (gw.compile(cnn(), shapes={"x": shape}, options=options) for shape in SHAPES)
    return {shape: m(images(*shape))[0] for shape, m in zip(SHAPES, alone, strict=True)}


def inputs_of_cases(package: Package) -> list[list[str]]:
    return [list(map(str, case.inputs)) for case in dispatch(package).cases]


def assert_each(model: gw.Model, expected: dict[tuple[int, ...], Array]) -> None:
    for shape in (*SHAPES, *reversed(SHAPES)):
        x = images(*shape)
        for y in (model(x)[0], model.run({"x": x})["y"], model.listed(["y"], {"x": x})[0]):
            assert y.tobytes() == expected[shape].tobytes() and y.shape == expected[shape].shape


def test_every_gear_is_as_its_shape_compiled_alone(
    model: gw.Model, between: str, expected: dict[tuple[int, ...], Array]
) -> None:
    assert_each(model, expected)
    assert model.stats()["cases"] == (4 if between == "dynamic" else 3)
    assert model.stats()["host_calls"] == 0


def test_a_saved_model_is_the_same(
    path: Path, options: Options, expected: dict[tuple[int, ...], Array]
) -> None:
    for mapped in (False, True):
        assert_each(gw.load(path, options=options, mmap=mapped), expected)


def test_an_untrusted_file_is_made_again_from_its_graph(
    path: Path, options: Options, tmp_path: Path, expected: dict[tuple[int, ...], Array], between: str
) -> None:
    stranger = replace(options, key_dir=tmp_path / "keys")
    assert read_package(path).main.executable is None
    rebuilt = gw.load(path, options=stranger)
    assert inputs_of_cases(rebuilt.package) == inputs_of_cases(read_package(path, trust=True))
    assert len(dispatch(rebuilt.package).cases) == (4 if between == "dynamic" else 3)
    assert [str(s.shape) for s in rebuilt.outputs] == [
        str(s.shape) for s in gw.load(path, options=options).outputs
    ]
    assert_each(rebuilt, expected)


def test_the_interface_has_dynamic_dimensions(model: gw.Model, path: Path, options: Options) -> None:
    for each in (model, gw.load(path, options=options)):
        assert [(spec.name, spec.shape) for spec in each.inputs] == [("x", ("N", 3, "H", "W"))]
        assert [(spec.name, spec.shape) for spec in each.outputs] == [("y", ("N", 5))]


def test_the_same_input_gives_the_same_bytes(
    path: Path, options: Options, tmp_path: Path, between: str
) -> None:
    again = gw.compile(cnn(), gears=gw.Gears({"x": SHAPES}, between=between), options=options)
    again.save(tmp_path / "again.om")
    assert (tmp_path / "again.om").read_bytes() == path.read_bytes()


def test_weights_and_kernels_are_stored_once(path: Path, options: Options) -> None:
    package = read_package(path, trust=True)
    held = [target for program in programs(package) for target in program.targets.values()]
    assert len(held) >= 3
    assert len({id(data) for target in held for data in target.objects.values()}) == len(
        {name for target in held for name in target.objects}
    )
    assert sum(name.endswith("weights.safetensors") for name in members_of(path)) == 1
    alone = gw.compile(cnn(), shapes={"x": LARGEST}, options=options)
    known = {spec.dtype.name + str(spec.shape) for spec in package.weights.tensors.values()}
    needed = {spec.dtype.name + str(spec.shape) for spec in alone.package.weights.tensors.values()}
    assert needed <= known
    assert len(package.weights.tensors) <= len(alone.package.weights.tensors) + 3, (
        "the weights of two convolutions and a bias, for two layouts at most"
    )


def test_memory_is_that_of_the_largest_gear(options: Options) -> None:
    model = gw.compile(cnn(), gears={"x": SHAPES}, options=options)
    arenas = []
    for shape in SHAPES:
        alone = gw.compile(cnn(), shapes={"x": shape}, options=options)
        assert isinstance(alone.executor, Cpu)
        arenas.append(alone.executor.plan([shape], 1)["arena"])
    assert len(set(arenas)) == 3
    model.trim()  # also frees what outputs of other models have left for reuse
    for number, shape in enumerate(SHAPES, 1):
        model(images(*shape))
        largest = max(arenas[:number])
        assert model.stats()["arena_bytes"] == largest, "it grows to the largest that has run, and no further"
    model(images(*SHAPES[0]))
    assert model.stats()["arena_bytes"] == max(arenas)
    assert model.trim() == max(arenas) and model.stats()["arena_bytes"] == 0
    model(images(*SHAPES[0]))
    assert model.stats()["arena_bytes"] == arenas[0]


def test_a_shape_between_is_an_error_that_lists_the_gears(options: Options) -> None:
    model = gw.compile(cnn(), gears={"x": SHAPES}, options=options)
    for run in (model, lambda x: model.run({"x": x}), lambda x: model.run({"x": x}, out={})):
        with pytest.raises(gw.FeedError) as caught:
            run(images(*BETWEEN))
        text = str(caught.value)
        assert "no gear matches x:3,3,17,19" in text
        assert all(f"x:{','.join(map(str, shape))}" in text for shape in SHAPES)
    with pytest.raises(gw.FeedError, match="no gear matches x:3,8,8"):
        model(images(3, 8, 8))
    with pytest.raises(gw.FeedError, match="f32, not float64"):
        model(images(*SHAPES[0]).astype(np.float64))
    with pytest.raises(gw.FeedError, match="no input 'z'"):
        model.run({"z": images(*SHAPES[0])})


def test_a_shape_between_runs_on_the_program_for_all(options: Options) -> None:
    model = gw.compile(cnn(), gears=gw.Gears({"x": SHAPES}, between="dynamic"), options=options)
    generic = gw.compile(cnn(), options=options)
    for shape in (BETWEEN, (1, 3, 8, 9), BETWEEN):
        x = images(*shape)
        assert model(x)[0].tobytes() == generic(x)[0].tobytes() == model.run({"x": x})["y"].tobytes()
    with pytest.raises(gw.FeedError, match="x"):
        model(images(1, 4, 8, 8))


def test_outputs_go_to_the_memory_of_the_caller(model: gw.Model) -> None:
    x = images(*SHAPES[1])
    out = np.zeros((2, 5), np.float32)
    assert model.run({"x": x}, out={"y": out})["y"] is out
    assert out.tobytes() == model(x)[0].tobytes()


def test_arrays_that_are_not_plain_are_converted(model: gw.Model) -> None:
    x = images(*SHAPES[1])
    for odd in (np.asfortranarray(x), x.astype(">f4"), x[::-1][::-1]):
        assert model(odd)[0].tobytes() == model(x)[0].tobytes()
    assert model.listed(None, {"x": x[::-1][::-1]})[0].tobytes() == model(x)[0].tobytes()


def test_threads_are_those_of_every_gear(model: gw.Model, expected: dict[tuple[int, ...], Array]) -> None:
    before = model.threads
    for threads in (2, 1, 3):
        model.threads = threads
        assert_each(model, expected)
    model.threads = before


def test_gears_run_concurrently(model: gw.Model, expected: dict[tuple[int, ...], Array]) -> None:
    def work(number: int) -> None:
        for turn in range(20):
            shape = SHAPES[(number + turn) % 3]
            assert model(images(*shape))[0].tobytes() == expected[shape].tobytes()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_a_traced_run_names_the_tasks_of_its_gear(model: gw.Model) -> None:
    for shape in SHAPES:
        assert [t.name for t in model.trace({"x": images(*shape)})]


@pytest.mark.parametrize("combine", ["zip", "product"])
def test_gears_of_several_inputs(options: Options, combine: str) -> None:
    shapes = [(1, 8), (3, 16)]
    gears = gw.Gears(
        {"ids": shapes, "mask": shapes} if combine == "zip" else {"ids": [(2, 4), (2, 5)]},
        combine=combine,
    )
    model = gw.compile(encoder(), gears=gears, options=options)
    peer = onnxruntime.InferenceSession(encoder())
    random = np.random.default_rng(0)
    for shape in shapes if combine == "zip" else [(2, 4), (2, 5)]:
        feeds = {"ids": random.integers(0, 20, shape), "mask": random.integers(0, 2, shape)}
        (want,) = peer.run(None, feeds)
        np.testing.assert_allclose(model.run(feeds)["y"], want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(model(feeds["ids"], feeds["mask"])[0], want, rtol=1e-5, atol=1e-6)
    mixed = {"ids": np.zeros((1, 8), np.int64), "mask": np.zeros((3, 16), np.int64)}
    with pytest.raises(gw.FeedError, match="no gear matches ids:1,8 mask:3,16"):
        model.run(mixed)


@pytest.mark.parametrize("device", ["reference", "null"])
def test_gears_on_other_devices(
    device: str, options: Options, expected: dict[tuple[int, ...], Array]
) -> None:
    model = gw.compile(cnn(), gears={"x": SHAPES}, options=replace(options, device=device))
    for shape in SHAPES:
        (y,) = model(images(*shape))
        assert y.shape == expected[shape].shape
        if device == "reference":
            np.testing.assert_allclose(y, expected[shape], rtol=1e-4, atol=1e-6)
    with pytest.raises(gw.FeedError, match="no gear"):
        model(images(*BETWEEN))


@pytest.mark.parametrize("between", ["error", "dynamic"])
def test_nodes_that_the_host_runs_do_so_in_the_branch_of_their_gear(
    options: Options, tmp_path: Path, between: str
) -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("NonZero", ["r"], ["n"]), node("Cast", ["n"], ["c"], to=FLOAT)]
    nodes += [node("Exp", ["c"], ["y"])]
    source = onnx_model(nodes, {"x": (FLOAT, ["N", 2])}, {"y": (FLOAT, None)})
    model = gw.compile(source, gears=gw.Gears(batch=(1, 4), between=between), options=options)
    model.save(tmp_path / "staged.om")
    stranger = replace(options, key_dir=tmp_path / "keys")
    loaded = [gw.load(tmp_path / "staged.om", options=o) for o in (options, stranger)]
    for each in (model, *loaded):
        assert [spec.name for spec in each.inputs] == ["x"]
        assert each.stats()["cases"] == (3 if between == "dynamic" else 2)
        for batch in (1, 4, 1, 3) if between == "dynamic" else (1, 4, 1):
            x = images(batch, 2, seed=batch)
            want = np.exp(np.array(np.nonzero(x > 0), np.float32))
            np.testing.assert_allclose(each(x)[0], want, rtol=1e-6)
            np.testing.assert_allclose(each.run({"x": x})["y"], want, rtol=1e-6)
        if between == "error":
            with pytest.raises(gw.FeedError, match="no gear matches x:3,2"):
                each(images(3, 2))


@pytest.mark.parametrize("between", ["error", "pad", "dynamic"])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_sequences_are_no_part_of_a_gear(options: Options, between: str, device: str) -> None:
    info, sequence = helper.make_tensor_value_info, helper.make_tensor_sequence_value_info
    graph = helper.make_graph(
        [node("SequenceLength", ["q"], ["n"]), node("Relu", ["x"], ["y"])],
        "lists",
        [sequence("q", FLOAT, None), info("x", FLOAT, ["N", 3])],
        [info("y", FLOAT, ["N", 3]), info("n", INT64, [])],
    )
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    gears = gw.Gears(batch=(2, 4), between=between)
    model = gw.compile(source, gears=gears, options=replace(options, device=device))
    for batch in (2, 4) if between == "error" else (2, 3, 4):
        x = images(batch, 3)
        feeds: dict[str, Any] = {"q": [x, x, x], "x": x}
        y, n = model.run(feeds).values()
        assert n == 3 and y.tolist() == np.maximum(x, 0).tolist()
    if between != "dynamic":
        with pytest.raises(gw.FeedError, match="x:5,3"):
            model.run(feeds | {"x": images(5, 3)})


@pytest.mark.long
def test_a_hundred_gears(options: Options, tmp_path: Path) -> None:
    shapes = [(1 + k % 10, 3, 8 + 2 * (k // 10), 8) for k in range(100)]
    model = gw.compile(cnn(), gears={"x": shapes}, options=options)
    model.save(tmp_path / "many.om")
    assert (tmp_path / "many.om").stat().st_size < 3 << 20
    loaded = gw.load(tmp_path / "many.om", options=options)
    for shape in shapes[::33]:
        assert loaded(images(*shape))[0].tobytes() == model(images(*shape))[0].tobytes()
    assert len(members_of(tmp_path / "many.om")) < 160


def input_shape(shape: Any) -> Callable[[Any], object]:
    """Gives the input of the first gear that ``shape``."""
    return lambda m: entry(m)["cases"][0]["inputs"][0].__setitem__(2, shape)


def entry(manifest: Any) -> Any:
    return entry_of(manifest)["executable"]


def first_target(manifest: Any) -> Any:
    return next(iter(entry_of(manifest)["programs"][0].values()))


DAMAGES: dict[str, Callable[[Any], object]] = {
    "no gears": lambda m: entry(m).pop("cases"),
    "an unknown mode": lambda m: entry(m).update(otherwise="sideways"),
    "a mode that is not text": lambda m: entry(m).update(otherwise=["error"]),
    "a shape that is no list": input_shape(5),
    "a negative size": input_shape([-1, 3, 16, 16]),
    "a kernel that is not there": lambda m: first_target(m)["objects"].update(generated="nowhere"),
    "an unknown kind": lambda m: entry(m)["cases"][0].update(kind="sideways"),
    "a program less": lambda m: entry_of(m)["programs"].pop(),
    "a case of other types": lambda m: entry(m)["cases"][0]["inputs"][0].__setitem__(1, "f64"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_gears_are_rejected(damage: str, options: Options, tmp_path: Path) -> None:
    file = tmp_path / "whole.om"
    gw.compile(cnn(), gears={"x": SHAPES}, options=options).save(file)
    manifest = manifest_of(file)
    DAMAGES[damage](manifest)
    members = {n: data for n, data in members_of(file).items() if n not in ("manifest.json", "signature")}
    broken = put_together(tmp_path / "broken.om", manifest, members, None)
    with pytest.raises(gw.PackageError):
        gw.load(broken, trust=True, options=options)


@pytest.mark.parametrize("shape", [["N", 3, 16, 16], None])
def test_a_gear_rejects_shapes_other_than_its_own(
    shape: Any, options: Options, tmp_path: Path, expected: dict[tuple[int, ...], Array]
) -> None:
    """The tasks of a gear are compiled for its sizes."""
    file = tmp_path / "whole.om"
    gw.compile(cnn(), gears={"x": SHAPES}, options=options).save(file)
    manifest = manifest_of(file)
    input_shape(shape)(manifest)
    members = {n: data for n, data in members_of(file).items() if n not in ("manifest.json", "signature")}
    model = gw.load(put_together(tmp_path / "odd.om", manifest, members, None), trust=True, options=options)
    for known in SHAPES[shape is None :]:
        assert model(images(*known))[0].tobytes() == expected[known].tobytes()
    for other in ((7, 3, 16, 16), (1, 3, 16, 17), (3, 16, 16)):
        with pytest.raises(gw.FeedError):
            model(images(*other))
