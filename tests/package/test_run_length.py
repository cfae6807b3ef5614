"""Run-length encoding of repeating weights: units, runs, equal tensors, and malicious headers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.package.pack_weights import pack_weights
from graphwright.package.package import Entry, Package
from graphwright.package.read import read_package
from graphwright.package.read_weights import read_weights
from graphwright.package.run_length import LINE, SHRINKS, fill_jobs, find_runs
from graphwright.package.weights import Weights
from graphwright.package.weights_header import BadWeights
from graphwright.package.write import write_package

Array = np.ndarray[Any, Any]


def file_of(weights: Weights) -> bytes:
    return b"".join(weights.pieces())


def again(weights: Weights) -> Weights:
    return read_weights(memoryview(file_of(weights)))


def expanded(runs: bytes, size: int) -> Array:
    target = np.full(size, 0xAA, np.uint8)
    for job in fill_jobs(memoryview(runs), target):
        job()
    return target


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 17),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 300)), min_size=1, max_size=8),
    st.integers(0, 9),
)
def test_decoding_restores_runs_of_any_unit(lines: int, pieces: list[tuple[int, int]], rest: int) -> None:
    generator = np.random.default_rng(lines)
    units = generator.integers(0, 256, (4, lines * LINE), np.uint8)
    data = np.concatenate([np.tile(units[which], count) for which, count in pieces])
    data = np.concatenate([data, generator.integers(0, 256, rest * LINE, np.uint8)])
    runs = find_runs(data)
    if runs is not None:
        assert len(runs) * SHRINKS <= len(data)
        np.testing.assert_array_equal(expanded(runs, len(data)), data)


def test_only_tensors_that_repeat_are_encoded() -> None:
    panel = np.zeros((1000, 48), np.float32)
    panel[:, :16] = 2.5  # the last panel of a packed matrix: a unit of three lines
    assert len(find_runs(panel.reshape(-1).view(np.uint8)) or b"") <= 16 + 8 + 3 * LINE + 2 * LINE
    mask = np.triu(np.full((512, 512), -np.inf, np.float32), 1)
    runs = find_runs(mask.reshape(-1).view(np.uint8))
    assert runs is not None and len(runs) < mask.nbytes / SHRINKS
    noise = np.random.default_rng(0).standard_normal(1 << 16, np.float32)
    assert find_runs(noise.view(np.uint8)) is None
    half = np.concatenate([noise, np.zeros(1 << 16, np.float32)])
    assert find_runs(half.view(np.uint8)) is None


def test_repeated_units_are_stored_once() -> None:
    arrays = {
        "fill": np.full((1000, 1001), 0.25, np.float32),
        "noise": np.random.default_rng(0).standard_normal((100, 7), np.float32),
        "zeros": np.zeros((3, 1 << 16), np.int64),
        "text": np.array(["a", "b"], object),
        "none": np.empty((0, 4), np.float32),
        "same": np.random.default_rng(0).standard_normal((700, 1), np.float32),
        "view": np.broadcast_to(np.float32(-0.0), (512, 512)),
    }
    made = pack_weights(arrays)
    assert made.tensors["same"].start == made.tensors["noise"].start
    assert len(file_of(made)) < 8000 < made.data.nbytes
    read = again(made)
    assert read.header == made.header and bytes(read.data) == bytes(made.data)
    assert read.tensors == made.tensors and read.index_digest() == made.index_digest()
    for name, array in arrays.items():
        for weights in (made, read):
            found = weights.arrays[name]
            assert found.dtype == array.dtype and found.shape == array.shape
            assert np.array_equal(found, array)
    assert np.signbit(read.arrays["view"]).all()
    assert "noise" in safetensors.numpy.load(file_of(made))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.booleans()), max_size=12))
def test_equal_bytes_are_held_once(picks: list[tuple[int, int, bool]]) -> None:
    """Equal bytes are stored once for all dtypes, shapes and members."""
    arrays: dict[str, Array] = {}
    for k, (seed, size, bits) in enumerate(picks):
        array = np.random.default_rng(seed).standard_normal(size, np.float32)
        arrays[f"w{k}"] = array.view(np.int32).reshape(1, -1) if bits else array
    made = pack_weights(arrays)
    contents = {array.tobytes() for array in arrays.values() if array.size}
    assert made.data.nbytes == sum(len(c) + -len(c) % LINE for c in contents)
    for weights in (made, read_weights(memoryview(made.header + bytes(made.data))), again(made)):
        assert list(weights.arrays) == list(arrays)
        assert all(np.array_equal(weights.arrays[n], a) for n, a in arrays.items())


def test_a_package_with_run_length_encoded_weights_is_read_and_written_again(tmp_path: Path) -> None:
    weights = pack_weights({"w": np.full((2000, 500), 3.0, np.float32), "i": np.zeros(1 << 18, np.int64)})
    spare = pack_weights({"s": np.ones(1 << 20, np.float32)})
    package = Package({"main": Entry("module {}", (), ())}, weights, spare=lambda: spare)
    write_package(package, tmp_path / "a.om")
    assert (tmp_path / "a.om").stat().st_size < 8000
    for mapped in (False, True):
        read = read_package(tmp_path / "a.om", verify=True, use_mmap=mapped)
        assert (read.weights.arrays["w"] == 3).all() and (read.spare().arrays["s"] == 1).all()
    write_package(read, tmp_path / "b.om")
    assert (tmp_path / "a.om").read_bytes() == (tmp_path / "b.om").read_bytes()


def _changed(change: Callable[[dict[str, Any]], object]) -> memoryview:
    weights = pack_weights({"w": np.full(1 << 16, 3.0, np.float32), "v": np.arange(40), "u": np.arange(40)})
    data = file_of(weights)
    length = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:length])
    change(header)
    text = json.dumps(header).encode()
    return memoryview(len(text).to_bytes(8, "little") + text + data[length:])


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["__metadata__"].update(w="f32 [65500] runs"),
        lambda h: h["__metadata__"].update(w="f32 [65537, 100] runs"),
        lambda h: h["__metadata__"].update(w=f"f32 [{2**40}] runs"),
        lambda h: h["__metadata__"].update(w=f"f32 [{2**80}] runs"),
        lambda h: h["__metadata__"].update(w="f32 [-65536] runs"),
        lambda h: h["__metadata__"].update(w="string [65536] runs"),
        lambda h: h["__metadata__"].update(w="f32 [0] runs"),
        lambda h: h["__metadata__"].update(v="i64 [65536] runs"),
        lambda h: h["__metadata__"].update(u="i64 [40] as w"),
        lambda h: h["__metadata__"].update(u="i64 [40] as u"),
        lambda h: h["__metadata__"].update(u="i64 [40] as nothing"),
        lambda h: h["__metadata__"].update(u="i64 [41] as v"),
        lambda h: h["w"].update(data_offsets=[0, 8]),
        lambda h: h["w"].update(data_offsets=[0, 10**9]),
        lambda h: h.pop("w"),
    ],
)
def test_headers_that_lie_are_rejected(change: Callable[[dict[str, Any]], object]) -> None:
    read_weights(_changed(lambda header: None))
    with pytest.raises(BadWeights):
        read_weights(_changed(change))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 6), st.integers(-(2**63), 2**63 - 1))
def test_damaged_runs_never_reach_beyond_their_tensor(word: int, value: int) -> None:
    data = np.repeat(np.arange(4, dtype=np.uint8), LINE * 500)
    runs = bytearray(find_runs(data) or b"")
    runs[8 * word : 8 * word + 8] = value.to_bytes(8, "little", signed=True)
    guarded = np.full(len(data) + 2 * LINE, 7, np.uint8)
    try:
        for job in fill_jobs(memoryview(bytes(runs)), guarded[LINE:-LINE]):
            job()
    except ValueError:
        pass
    assert (guarded[:LINE] == 7).all() and (guarded[-LINE:] == 7).all()
