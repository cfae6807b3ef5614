"""Weights: safetensors that the safetensors package reads, one block of memory, every offset checked."""

from __future__ import annotations

import json
import tracemalloc
import weakref
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import helper

import graphwright
from graphwright.errors import PackageError
from graphwright.ir.constants.deferred import Deferred
from graphwright.ir.types import DTYPES, F32
from graphwright.package import pack_weights as packing
from graphwright.package import weights as weights_module
from graphwright.package.pack_weights import UnpackedWeights, pack_weights
from graphwright.package.package import Entry, Package
from graphwright.package.read import read_package
from graphwright.package.read_weights import read_weights
from graphwright.package.weights import Weights
from graphwright.package.weights_header import BadWeights
from graphwright.package.write import write_package
from tests.onnx_models import onnx_model

Array = np.ndarray[Any, Any]
MIB = 1 << 20


def member(weights: Weights) -> bytes:
    return weights.header + bytes(weights.data)


def same(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", sorted(set(DTYPES) - {"string"}))
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (7, 5), (1, 64)])
def test_weights_of_every_dtype_are_restored(name: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(DTYPES[name].numpy)
    weights = pack_weights({"w": array, "after": np.ones(3, np.float32)})
    for found in (weights, read_weights(memoryview(member(weights)))):
        assert same(found.arrays["w"], array)
        assert same(found.arrays["after"], np.ones(3, np.float32))
        assert found.tensors["after"].start % 64 == 0
        assert not found.arrays["w"].flags.writeable


def test_strings_are_restored() -> None:
    array = np.array([["a", ""], ["ü\0", '"]']], object)
    weights = read_weights(memoryview(member(pack_weights({"s": array, "none": np.empty((0, 2), object)}))))
    assert np.array_equal(weights.arrays["s"], array)
    assert weights.arrays["none"].shape == (0, 2)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        hnp.arrays(
            st.sampled_from(["f4", "i8", "u1", "?"]), hnp.array_shapes(min_dims=0, min_side=0, max_side=70)
        )
    )
)
def test_any_weights_are_restored(arrays: list[Array]) -> None:
    named = {f"w{i}": array for i, array in enumerate(arrays)}
    weights = read_weights(memoryview(member(pack_weights(named))))
    assert list(weights.arrays) == list(named)
    assert all(same(weights.arrays[name], array) for name, array in named.items())


def test_weights_with_as_many_axes_as_an_array_can_have_are_restored() -> None:
    array = np.arange(3, dtype=np.float32).reshape((*(1,) * 63, 3))
    assert same(read_weights(memoryview(member(pack_weights({"w": array})))).arrays["w"], array)


def test_safetensors_reads_them() -> None:
    arrays = {"a": np.arange(5, dtype=np.float32), "b": np.arange(6).reshape(2, 3), "c": np.array(True)}
    found = safetensors.numpy.load(member(pack_weights(arrays)))
    assert all(same(found[name], array) for name, array in arrays.items())


def test_safetensors_reads_every_type() -> None:
    """The safetensors library parses the file: types that the format lacks are bytes, and the metadata has
    their dtype.
    """
    names = sorted(set(DTYPES) - {"string"})
    arrays = {name: np.arange(7 + k).astype(DTYPES[name].numpy) for k, name in enumerate(names)}
    arrays |= {"text": np.array(["a", "\u00fc"], object), "none": np.zeros((0, 3), np.float32)}
    found = dict(safetensors.deserialize(member(pack_weights(arrays))))
    assert {name for name in found if not name.startswith("pad")} == set(arrays)
    named = {"bf16": "BF16", "f8e4m3fn": "F8_E4M3", "f8e5m2": "F8_E5M2", "f16": "F16", "u16": "U16"}
    assert {name: found[name]["dtype"] for name in named} == named
    assert {found[name]["dtype"] for name in ("i4", "u2", "f4e2m1", "f8e8m0", "c64", "text")} == {"U8"}
    assert found["none"]["shape"] == [0, 3] and found["i64"]["shape"] == [arrays["i64"].size]
    for name in names:
        assert bytes(found[name]["data"]) == arrays[name].tobytes()


def test_safetensors_reads_the_members_of_a_package(tmp_path: Path) -> None:
    """The members are the weights packed for the target, and the constants of the graph."""
    random = np.random.default_rng(0)
    weights = {
        "a": random.standard_normal((24, 3, 3, 3), np.float32),
        "b": random.standard_normal((48, 48), np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["m", "b"], ["y"]),
    ]
    inputs: dict[str, Any] = {"x": (1, [1, 3, 9, 9]), "m": (1, ["N", 48])}
    model = onnx_model(nodes, inputs, {"y": (1, None), "f": (1, None)}, weights)
    graphwright.compile(model).save(tmp_path / "x.om")
    with zipfile.ZipFile(tmp_path / "x.om") as archive:
        members = [archive.read(name) for name in archive.namelist() if name.endswith(".safetensors")]
    found = [
        array
        for content in members
        for name, array in safetensors.numpy.load(content).items()
        if not name.startswith("pad")
    ]
    kept = np.concatenate([array.ravel() for array in found if array.dtype == np.float32])
    for array in weights.values():  # packed, with zeros among them
        assert np.isin(array, kept).all()


def test_reading_copies_nothing() -> None:
    data = member(pack_weights({"w": np.zeros(4 * MIB, np.uint8)}))
    tracemalloc.start()
    weights = read_weights(memoryview(data))
    assert weights.arrays["w"].sum() == 0
    assert tracemalloc.get_traced_memory()[1] < MIB
    tracemalloc.stop()


def test_a_package_is_held_once_and_saved_without_a_copy(tmp_path: Path) -> None:
    """Peaks of memory: one copy to pack, none to save, one to read, and none with mmap."""
    array = np.random.default_rng(0).integers(0, 255, 16 * MIB, np.uint8)
    tracemalloc.start()
    weights = pack_weights({"w": array})
    assert peak() < 17 * MIB
    package = Package({"main": Entry("module {}", (), ())}, weights)
    before = tracemalloc.get_traced_memory()[0]
    write_package(package, tmp_path / "x.om")
    assert peak() - before < MIB
    before = tracemalloc.get_traced_memory()[0]
    read = read_package(tmp_path / "x.om", verify=True)
    assert peak() - before < 17 * MIB
    assert np.array_equal(read.weights.arrays["w"], array)
    peak()
    before = tracemalloc.get_traced_memory()[0]
    mapped = read_package(tmp_path / "x.om", use_mmap=True)
    assert peak() - before < MIB
    assert np.array_equal(mapped.weights.arrays["w"], array)
    tracemalloc.stop()


def peak() -> int:
    """Highest traced memory since the last call."""
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    return found


def changed(change: Callable[[dict[str, Any]], object]) -> memoryview:
    """Good weights whose header was changed."""
    weights = pack_weights(
        {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "i": np.array([1], ml_dtypes.int4)}
    )
    header = json.loads(weights.header[8:])
    change(header)
    text = json.dumps(header).encode()
    return memoryview(len(text).to_bytes(8, "little") + text + bytes(weights.data))


HUGE = (-(2**63), -1, 25, 2**31, 2**40, 2**63 - 1, 2**64, 1.5, "3", None, True, [], {})


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("position", [0, 1])
def test_bad_offsets_and_sizes(position: int, value: object) -> None:
    for field in ("data_offsets", "shape"):
        with pytest.raises(BadWeights):
            read_weights(changed(lambda h, f=field: h["w"][f].__setitem__(position, value)))  # type: ignore[misc]  # a lambda that gives nothing


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.pop("w"),
        lambda h: h.pop("__metadata__"),
        lambda h: h.update(__metadata__=[]),
        lambda h: h["__metadata__"].update(w="f99"),
        lambda h: h["__metadata__"].update(w=3),
        lambda h: h["__metadata__"].update(w="f64"),
        lambda h: h["__metadata__"].update(i="i4 [2]"),
        lambda h: h["__metadata__"].update(i="i4 ["),
        lambda h: h["__metadata__"].update(new="f32"),
        lambda h: h.update(w=[]),
        lambda h: h["w"].update(shape=[1] * 64 + [6]),
        lambda h: h["w"].update(data_offsets=[24, 0]),
        lambda h: h["w"].update(data_offsets=[0]),
    ],
)
def test_bad_headers_are_rejected(change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(BadWeights):
        read_weights(changed(change))


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 1000, 0])
def test_bad_header_lengths_are_rejected(length: int) -> None:
    data = bytes(changed(lambda h: None))
    with pytest.raises(BadWeights):
        read_weights(memoryview(length.to_bytes(8, "little") + data[8:]))


def test_no_byte_of_the_header_changed_does_harm() -> None:
    data = bytearray(changed(lambda h: None))
    length = 8 + int.from_bytes(data[:8], "little")
    for position in range(length):
        for value in (0, 0x30, 0x39, 0x5B, 0x7D, 0xFF, data[position] ^ 1):
            before, data[position] = data[position], value
            try:
                weights = read_weights(memoryview(bytes(data)))
                assert all(a.nbytes <= len(data) for a in weights.arrays.values())
            except BadWeights:
                pass
            data[position] = before


def test_changed_indices_are_detected_in_mapped_files_and_changed_floats_in_copied_ones(
    tmp_path: Path,
) -> None:
    """Kernels may use the elements of an integer constant as offsets in memory."""
    arrays = {"i": np.array([1, 2, 3]), "f": np.array([1.0, 2.0]), "b": np.array([True])}
    write_package(Package({"main": Entry("module {}", (), ())}, pack_weights(arrays)), tmp_path / "good.om")
    data = (tmp_path / "good.om").read_bytes()
    (tmp_path / "bad.om").write_bytes(data.replace(np.float64(2).tobytes(), np.float64(3).tobytes()))
    assert read_package(tmp_path / "bad.om", use_mmap=True).weights.arrays["f"].tolist() == [1, 3]
    for mapped, verify in ((False, False), (False, True), (True, True)):
        with pytest.raises(PackageError, match="weights are damaged: f, of 3 tensors"):
            read_package(tmp_path / "bad.om", use_mmap=mapped, verify=verify)
    for old, new in ((np.int64(2).tobytes() + np.int64(3).tobytes(), bytes(16)), (b'"I64"', b'"U64"')):
        assert data.count(old) == 1
        (tmp_path / "bad.om").write_bytes(data.replace(old, new))
        with pytest.raises(PackageError, match="weights of integers were changed"):
            read_package(tmp_path / "bad.om", use_mmap=True)


def test_tensors_that_nearly_agree_are_hashed_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing them in pairs would read 40 * 39 / 2 tensors."""
    count, size = 40, 1 << 17
    arrays = {f"{k:020x}": np.zeros(size, np.uint8) for k in range(count)}
    for k, array in enumerate(arrays.values()):
        array[size // 128 + 1] = k // 2  # between the bytes that are looked at first; each twice
    hashed: list[int] = []
    compared: list[int] = []
    condense, equal = weights_module.condense_all, packing.equal_bytes

    def counted(data: list[memoryview], mapped: bool) -> list[bytes]:
        hashed.extend(map(len, data))
        return condense(data, mapped)

    def compare(a: Array, b: Array) -> bool:
        compared.append(a.size)
        return equal(a, b)

    monkeypatch.setattr(weights_module, "condense_all", counted)
    monkeypatch.setattr(packing, "equal_bytes", compare)
    made = pack_weights(arrays)
    assert sum(hashed) == count * size
    assert sum(compared) == count // 2 * size
    assert len({tensor.start for tensor in made.tensors.values()}) == count // 2
    for name, array in arrays.items():
        assert np.array_equal(made.arrays[name], array)


def test_memory_of_a_tensor_is_freed_once_it_is_packed() -> None:
    """The memory that was read for one tensor is free before the last one is written."""
    alive: list[int] = []
    sources: list[weakref.ref[Array]] = []

    def made(k: int) -> Deferred:
        source = np.full(100, k, np.float32)
        sources.append(weakref.ref(source))

        def fill(out: Array) -> None:
            arrays.clear()  # a caller may hold its arguments while the call runs
            alive.append(sum(each() is not None for each in sources))
            np.copyto(out, source)

        return Deferred(F32, (100,), lambda out: [partial(fill, out)])

    arrays = {f"{k:020x}": made(k) for k in range(5)}
    result = pack_weights(arrays)
    assert alive == [5, 4, 3, 2, 1]
    assert [array[0] for array in result.arrays.values()] == [0, 1, 2, 3, 4]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        hnp.arrays(
            st.sampled_from(["f4", "i8", "u1", "?"]),
            hnp.array_shapes(min_dims=0, min_side=0, max_side=9),
            elements=st.integers(0, 1),
        )
    )
)
def test_unpacked_weights_are_the_same_member(drawn: list[Array]) -> None:
    arrays = {f"w{k}": array for k, array in enumerate(drawn)}
    arrays |= {"r": np.broadcast_to(np.float32(3), (40, 50)), "s": np.array(["a", "b"], object)}
    packed, loose = pack_weights(arrays), UnpackedWeights(arrays)
    assert b"".join(map(bytes, packed.pieces())) == b"".join(map(bytes, loose.pieces()))
    assert packed.tensors == loose.tensors
