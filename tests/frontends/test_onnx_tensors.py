"""Tensors of ONNX files: every dtype and field, contradictions, external data that stays in its folder."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from onnx import TensorProto, helper, numpy_helper

from graphwright.errors import ModelError
from graphwright.frontends.onnx import load, open_model
from graphwright.frontends.onnx.faults import Fault
from graphwright.frontends.onnx.model_files import ModelFiles
from graphwright.frontends.onnx.tensors import sparse_to_array, to_array
from tests.frontends.support import model_of, run, tensor_info

NOWHERE = ModelFiles(None)
KINDS = {n: v for n, v in TensorProto.DataType.items() if n not in ("UNDEFINED", "STRING")}
PACKED = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}


def bits(array: Any) -> Any:
    """The array's bytes, one row per element: NaNs compare by their bits."""
    return np.ascontiguousarray(array).view(np.uint8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("raw", [True, False])
@settings(deadline=None, max_examples=10)
@given(shape=st.lists(st.integers(0, 5), max_size=3), seed=st.integers(0, 99))
def test_every_dtype_is_read_as_onnx_reads_it(kind: str, raw: bool, shape: list[int], seed: int) -> None:
    generator, count = np.random.default_rng(seed), int(np.prod(shape))
    tensor = TensorProto(data_type=KINDS[kind], dims=shape)
    if raw:
        width = PACKED.get(kind, helper.tensor_dtype_to_np_dtype(KINDS[kind]).itemsize * 8)
        data = generator.integers(0, 256, (count * width + 7) // 8, dtype=np.uint8)
        tensor.raw_data = (data % 2 if kind == "BOOL" else data).tobytes()
    else:
        values = generator.integers(0, 2, count).astype(helper.tensor_dtype_to_np_dtype(KINDS[kind]))
        tensor = helper.make_tensor("t", KINDS[kind], shape, values)
    expected = numpy_helper.to_array(tensor)
    found = to_array(tensor, NOWHERE)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_array_equal(bits(found), bits(expected))


def test_signed_nibbles_have_their_sign() -> None:
    tensor = TensorProto(data_type=TensorProto.INT4, dims=[3], raw_data=bytes([0x8F, 0x07]))
    assert to_array(tensor, NOWHERE).astype(int).tolist() == [-1, -8, 7]


@pytest.mark.parametrize("size", [3, 5000])
def test_an_initializer_that_occurs_twice_has_the_same_elements(size: int) -> None:
    """Tools that join models repeat shared weights, in raw data or not."""
    weight = np.arange(size, dtype=np.float32)
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [tensor_info("x", [size])])
    for array, raw in ((weight, True), (weight, False)):
        data = array.tobytes() if raw else array
        model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [size], data, raw))
    found = run(load(model.SerializeToString()), {"x": weight})
    np.testing.assert_array_equal(found["y"], 2 * weight)
    model.graph.initializer.append(numpy_helper.from_array(weight + 1, "w"))
    with pytest.raises(ModelError, match="w: the initializer occurs twice, with different elements"):
        load(model.SerializeToString())


def test_strings_are_read() -> None:
    tensor = helper.make_tensor("t", TensorProto.STRING, [2, 1], ["ä", ""])
    assert to_array(tensor, NOWHERE).tolist() == [["ä"], [""]]


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(data_type=1, dims=[3], raw_data=b"\0" * 8),
        TensorProto(data_type=1, dims=[3], raw_data=b"\0" * 13),
        TensorProto(data_type=1, dims=[3]),
        TensorProto(data_type=1, dims=[2], float_data=[1, 2, 3]),
        TensorProto(data_type=1, dims=[-1, -4], float_data=[1, 2, 3, 4]),
        TensorProto(data_type=1, dims=[2**40, 2**40]),
        TensorProto(data_type=1, dims=[0, 2**62, 2**62]),
        TensorProto(data_type=1, dims=[1] * 70, float_data=[1]),
        TensorProto(data_type=99, dims=[1]),
        TensorProto(data_type=0, dims=[1]),
        TensorProto(data_type=27, dims=[5], raw_data=b"\0" * 5),
        TensorProto(data_type=8, dims=[1], raw_data=b"abc"),
        TensorProto(data_type=8, dims=[1], string_data=[b"\xff\xfe"]),
        TensorProto(data_type=14, dims=[1], float_data=[1, 2, 3]),
        TensorProto(data_type=1, dims=[1], float_data=[1], segment=TensorProto.Segment(begin=0, end=1)),
    ],
)
def test_contradictions_are_rejected(tensor: TensorProto) -> None:
    with pytest.raises(Fault) as caught:
        to_array(tensor, NOWHERE)
    assert caught.value.hint


def sparse(indices: Any, values: list[float], dims: list[int]) -> onnx.SparseTensorProto:
    made = numpy_helper.from_array(np.array(values, np.float32), "w")
    return helper.make_sparse_tensor(made, numpy_helper.from_array(np.array(indices, np.int64)), dims)


def test_sparse_tensors_are_unfolded_within_bounds() -> None:
    expected = [[0, 5, 0], [0, 0, 6]]
    assert sparse_to_array(sparse([1, 5], [5, 6], [2, 3]), NOWHERE).tolist() == expected
    assert sparse_to_array(sparse([[0, 1], [1, 2]], [5, 6], [2, 3]), NOWHERE).tolist() == expected
    for indices, dims in (
        ([6], [2, 3]),
        ([-1], [2, 3]),
        ([[0, 3]], [2, 3]),
        ([0, 1], [2, 3]),
        ([0], [2**40]),
    ):
        with pytest.raises(Fault) as caught:
            sparse_to_array(sparse(indices, [5], dims), NOWHERE)
        assert caught.value.hint


# External data


def external(folder: Path, location: str, **entries: object) -> Path:
    """A model with the weight ``w: f32[2, 3]`` in a separate file."""
    weight = TensorProto(name="w", data_type=1, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in ({"location": location} | entries).items():
        weight.external_data.add(key=key, value=str(value))
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [tensor_info("x")], initializers=[weight])
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("offset", [0, 64, 3])
def test_external_data_is_read_at_any_offset(tmp_path: Path, offset: int) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/weights.bin").write_bytes(b"\1" * offset + WEIGHT.tobytes() + b"\2" * 9)
    module = load(external(tmp_path, "sub/weights.bin", offset=offset, length=24, checksum="abc"))
    np.testing.assert_array_equal(run(module, {"x": WEIGHT})["y"], WEIGHT * 2)


def test_a_length_of_0_is_not_given(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(WEIGHT.tobytes() + b"\2" * 9)
    module = load(external(tmp_path, "weights.bin", offset=0, length=0))
    np.testing.assert_array_equal(run(module, {"x": WEIGHT})["y"], WEIGHT * 2)


def test_a_model_saved_with_external_data_is_read(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(WEIGHT, "w")
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [tensor_info("x")], initializers=[weight])
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="m.data")
    np.testing.assert_array_equal(run(load(tmp_path / "m.onnx"), {"x": WEIGHT})["y"], WEIGHT * 2)


@pytest.mark.parametrize(
    ("location", "entries", "said"),
    [
        ("missing.bin", {}, "cannot be read"),
        ("", {}, "has no location"),
        ("../outside.bin", {}, "is outside the folder of the model"),
        ("inside/../../outside.bin", {}, "is outside the folder of the model"),
        ("{outside}", {}, "is outside the folder of the model"),
        ("C:\\weights.bin", {}, "is outside the folder of the model"),
        ("link.bin", {}, "is outside the folder of the model"),
        ("linked/outside.bin", {}, "is outside the folder of the model"),
        ("weights.bin", {"offset": 8}, "which has only 24"),
        ("weights.bin", {"offset": 10**18}, "which has only 24"),
        ("weights.bin", {"offset": -8}, "is not a number of bytes"),
        ("weights.bin", {"offset": "1e3"}, "is not a number of bytes"),
        ("weights.bin", {"length": 20}, "takes 24 bytes, but its length is given as 20"),
        ("fifo", {}, "is not a regular file"),
        (".", {}, "is not a regular file"),
        ("nul\0byte", {}, "cannot be read"),
        ("x" * 5000, {}, "cannot be read"),
        ("loop", {}, "cannot be read"),
    ],
)
def test_external_data_stays_in_the_folder(
    tmp_path: Path, location: str, entries: dict[str, object], said: str
) -> None:
    folder = tmp_path / "model"
    (folder / "inside").mkdir(parents=True)
    outside = tmp_path / "outside.bin"
    for file in (outside, folder / "weights.bin"):
        file.write_bytes(WEIGHT.tobytes())
    (folder / "link.bin").symlink_to(outside)
    (folder / "linked").symlink_to(tmp_path)
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    with pytest.raises(ModelError, match="external-data") as error:
        load(external(folder, location.format(outside=outside), **entries))
    assert said in str(error.value) and error.value.diagnostics[0].hint


def test_external_data_needs_a_path(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(WEIGHT.tobytes())
    data = external(tmp_path, "weights.bin").read_bytes()
    with pytest.raises(ModelError, match="give the model's path instead of its bytes"):
        load(data)


def test_links_within_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "alias.bin").symlink_to("real.bin")
    np.testing.assert_array_equal(run(load(external(tmp_path, "alias.bin")), {"x": WEIGHT})["y"], WEIGHT * 2)


def test_the_cache_of_hugging_face_is_read(tmp_path: Path) -> None:
    """Files of a snapshot are links to blobs in a folder next to it; the cache itself may be a link too."""
    blobs, snapshot = tmp_path / "real" / "blobs", tmp_path / "real" / "snapshots" / "0a1b" / "onnx"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    external(tmp_path, "model.onnx_data").rename(blobs / "c6ed")
    (blobs / "b879").write_bytes(WEIGHT.tobytes())
    (snapshot / "model.onnx").symlink_to("../../../blobs/c6ed")
    (snapshot / "model.onnx_data").symlink_to("../../../blobs/b879")
    (tmp_path / "cache").symlink_to(tmp_path / "real")
    for cache in ("real", "cache"):
        model = load(tmp_path / cache / "snapshots/0a1b/onnx/model.onnx")
        np.testing.assert_array_equal(run(model, {"x": WEIGHT})["y"], WEIGHT * 2)


def test_a_link_to_a_model_does_not_open_other_folders(tmp_path: Path) -> None:
    """External data must be in the folder of the model's file."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "net").mkdir()
    external(tmp_path, "weights.bin").rename(tmp_path / "blobs" / "model")
    (tmp_path / "secret").write_bytes(WEIGHT.tobytes())
    (tmp_path / "net/model.onnx").symlink_to("../blobs/model")
    (tmp_path / "net/weights.bin").symlink_to("../secret")
    with pytest.raises(ModelError, match=f"is outside the folder of the model: it is {tmp_path}/secret"):
        load(tmp_path / "net/model.onnx")


@pytest.mark.parametrize("location", ["weights.bin", "../data/weights.bin", "{data}/weights.bin", "link.bin"])
def test_a_folder_that_the_user_names_is_open(tmp_path: Path, location: str) -> None:
    folder, data = tmp_path / "model", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    (data / "weights.bin").write_bytes(WEIGHT.tobytes())
    (folder / "link.bin").symlink_to(data / "weights.bin")
    path = external(folder, location.format(data=data))
    with pytest.raises(ModelError, match=r"\[external-data\]"):
        load(path)
    for allowed in (data, tmp_path):
        if location != "weights.bin" or allowed == data:
            module = load(open_model(path, allowed))
            np.testing.assert_array_equal(run(module, {"x": WEIGHT})["y"], WEIGHT * 2)


def test_no_other_folder_than_the_named_one_is_open(tmp_path: Path) -> None:
    for name in ("model", "data", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "other/weights.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "data/link.bin").symlink_to("../other/weights.bin")
    for location in ("../other/weights.bin", f"{tmp_path}/other/weights.bin", "link.bin"):
        with pytest.raises(ModelError, match="is outside the folder of the model"):
            load(open_model(external(tmp_path / "model", location), tmp_path / "data"))
    with pytest.raises(ModelError, match="cannot be read"):
        load(open_model(external(tmp_path / "model", "weights.bin"), tmp_path / "nowhere"))


def test_bytes_find_external_data_in_the_named_folder(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(WEIGHT.tobytes())
    data = external(tmp_path, "weights.bin").read_bytes()
    for source in (data, bytearray(data), memoryview(data), io.BytesIO(data), onnx.load_from_string(data)):
        module = load(open_model(source, tmp_path))
        np.testing.assert_array_equal(run(module, {"x": WEIGHT})["y"], WEIGHT * 2)


def test_an_open_file_finds_external_data_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(WEIGHT.tobytes())
    with external(tmp_path, "weights.bin").open("rb") as file:
        np.testing.assert_array_equal(run(load(file), {"x": WEIGHT})["y"], WEIGHT * 2)


# Files that are not models


@pytest.mark.parametrize("data", [b"", b"\0", b"PK\3\4 not a model", b"hello, world", bytes(range(256))])
def test_files_that_are_not_models_are_rejected(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(data)
    for source in (data, tmp_path / "m.onnx"):
        with pytest.raises(ModelError, match="is not an ONNX model"):
            load(source)


def test_missing_files_and_folders_are_rejected(tmp_path: Path) -> None:
    for source in (tmp_path / "none.onnx", tmp_path, "nul\0byte"):
        with pytest.raises(ModelError, match=r"\[file\]"):
            load(source)


def test_more_than_a_protobuf_holds_is_rejected(tmp_path: Path) -> None:
    with (tmp_path / "big.onnx").open("wb") as file:
        file.truncate(2**31 + 5)  # sparse: takes no disk
    with pytest.raises(ModelError, match="save it with external data"):
        load(tmp_path / "big.onnx")
