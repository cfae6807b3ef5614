"""Damaged weights are an error that names them: when they are copied, and with ``verify=True``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from graphwright.package.pack_weights import pack_weights
from graphwright.package.package import SPARE, WEIGHTS
from graphwright.package.read_archive import open_archive
from graphwright.package.read_weights import read_weights
from tests.onnx_models import onnx_model
from tests.package.damage import manifest_of
from tests.tools.support import graphwright


@pytest.fixture(scope="module")
def path(options: Options, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of all sorts: large and small ones, integers, repeated lines, and some of the graph alone."""
    random = np.random.default_rng(5)
    nodes = [
        helper.make_node("Conv", ["x", "filters"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "bias"], ["b"]),
        helper.make_node("Gather", ["b", "order"], ["g"], axis=3),
        helper.make_node("MatMul", ["g", "repeated"], ["y"]),
    ]
    weights = {
        "filters": random.standard_normal((64, 64, 3, 3)).astype(np.float32),
        "bias": random.standard_normal((64, 1, 1)).astype(np.float32),
        "order": random.permutation(16),
        "repeated": np.tile(np.arange(48, dtype=np.float32), (16, 8)),
    }
    shape = [1, 64, 16, 16]
    data = onnx_model(
        nodes,
        {"x": (TensorProto.FLOAT, list(shape))},
        {"y": (TensorProto.FLOAT, [1, 64, 16, 384])},
        weights,
    )
    path = tmp_path_factory.mktemp("damage") / "model.om"
    gw.compile(data, options=options).save(path)
    return path


def damaged(path: Path, target: Path, member: str, offset: int) -> Path:
    """A copy of the package with a bit changed ``offset`` bytes into a member."""
    data, mark = bytearray(path.read_bytes()), memoryview(b"")
    members, later = open_archive(path, later=SPARE.__eq__)
    mark = later[member].read() if member in later else members[member]
    place = data.find(mark)
    assert place > 0
    data[place + offset] ^= 4
    target.write_bytes(data)
    return target


def tensors_of(path: Path, member: str) -> dict[str, tuple[int, int]]:
    """Start and size of each tensor in a member of a package."""
    members, later = open_archive(path, later=SPARE.__eq__)
    held = later[member].read() if member in later else members[member]
    header = int.from_bytes(held[:8], "little") + 8
    entries = json.loads(bytes(held[8:header]))
    return {
        name: (header + entry["data_offsets"][0], entry["data_offsets"][1] - entry["data_offsets"][0])
        for name, entry in entries.items()
        if name != "__metadata__" and not name.startswith("pad")
    }


def test_every_tensor_has_a_digest(path: Path) -> None:
    digests = manifest_of(path)["tensors"]
    assert set(digests) == {WEIGHTS, SPARE}
    for member, found in digests.items():
        assert found.keys() == tensors_of(path, member).keys()
    assert len(digests[WEIGHTS]) >= 4 and len(digests[SPARE]) == 1


@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_a_bit_changed_in_any_tensor_is_found_when_it_is_copied(
    path: Path, options: Options, tmp_path: Path, place: float
) -> None:
    for start, size in tensors_of(path, WEIGHTS).values():
        bad = damaged(path, tmp_path / "bad.om", WEIGHTS, start + int(place * (size - 1)))
        for trust in (True, False):
            with pytest.raises(
                gw.PackageError, match=r"damaged|malformed|runs do(?:es)? not match|BadWeights"
            ):
                gw.load(bad, trust=trust, options=replace(options, cc="/no/compiler"))


def test_the_error_names_the_weight_as_the_model_does(path: Path, options: Options, tmp_path: Path) -> None:
    names = set()
    for start, _ in tensors_of(path, WEIGHTS).values():
        with pytest.raises(gw.PackageError) as caught:
            gw.load(damaged(path, tmp_path / "bad.om", WEIGHTS, start + 3), options=options)
        names.add(caught.value.diagnostics[0].message.partition(": ")[2].partition(",")[0])
    assert "'order'" in names and 'one of "Conv:c"' in names


def test_mapped_weights_are_checked_on_request(path: Path, options: Options, tmp_path: Path) -> None:
    start, _ = max(tensors_of(path, WEIGHTS).values(), key=lambda tensor: tensor[1])
    bad = damaged(path, tmp_path / "bad.om", WEIGHTS, start)
    gw.load(path, mmap=True, verify=True, options=options)
    with pytest.raises(gw.PackageError, match=r"(?s)weights are damaged: .*, of .*fetch the file again"):
        gw.load(bad, mmap=True, verify=True, options=options)


def test_the_graphs_own_weights_are_checked_when_they_are_read(
    path: Path, options: Options, tmp_path: Path
) -> None:
    ((start, _),) = tensors_of(path, SPARE).values()
    bad = damaged(path, tmp_path / "bad.om", SPARE, start + 100)
    model = gw.load(bad, options=options)  # running it does not need them
    with pytest.raises(gw.PackageError, match="weights are damaged"):
        model.save(tmp_path / "again.om")
    with pytest.raises(gw.PackageError, match="changed after it was written"):
        gw.load(bad, verify=True, options=options)


def test_the_command_verifies(path: Path, tmp_path: Path, options: Options) -> None:
    keys = ("--key-dir", str(options.key_dir))
    made = graphwright("inspect", path, "--verify", *keys)
    assert made.exit_code == 0, made.stderr
    start, _ = next(iter(tensors_of(path, WEIGHTS).values()))
    made = graphwright("inspect", damaged(path, tmp_path / "bad.om", WEIGHTS, start), "--verify", *keys)
    assert made.exit_code == 1 and "damaged-weights" in made.stderr


CONTENTS: dict[str, Callable[[int], np.ndarray]] = {
    "floats": lambda n: np.random.default_rng(n).standard_normal(n).astype(np.float32),
    "zeros": lambda n: np.zeros(n, np.float32),
    "bytes": lambda n: np.random.default_rng(n).integers(0, 256, n, np.uint8),
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("size", [0, 1, 3, 1023, 1024, 16384, 16385, 65536, 65537, 70001])
def test_digests_are_those_of_the_bytes(content: str, size: int) -> None:
    """A file that stores equal bytes once keeps the digests; other bytes have other digests."""
    array = CONTENTS[content](size)
    weights = pack_weights({"w": array, "same": array.copy()})
    member = b"".join(map(bytes, weights.pieces()))
    assert read_weights(memoryview(member)).digests() == weights.digests()
    for position in {0, size // 2, size - 1} if size else ():
        changed = array.copy()
        changed.view(np.uint8)[position * array.itemsize] ^= 1
        assert pack_weights({"w": changed}).digests()["w"] != weights.digests()["w"]
