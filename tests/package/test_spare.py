"""Constants that the graph has and no task reads: the weights of convolutions by Winograd as they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import PackageError
from graphwright.package.package import SPARE, WEIGHTS
from graphwright.package.read import read_package
from graphwright.package.read_archive import open_archive, read_archive
from graphwright.package.sign import user_key
from tests.executables import targets
from tests.onnx_models import onnx_model
from tests.package.damage import GRAPH, members_of, rebuilt
from tests.package.models import Array

CHANNELS, SIZE = 64, 16


class Deep:
    """A 3x3 convolution that Winograd does, of an image of 64 channels."""

    def __init__(self) -> None:
        random = np.random.default_rng(3)
        self.weight = random.standard_normal((CHANNELS, CHANNELS, 3, 3), np.float32)
        self.x = random.standard_normal((1, CHANNELS, SIZE, SIZE), np.float32)

    def onnx(self) -> bytes:
        shape = [1, CHANNELS, SIZE, SIZE]
        return onnx_model(
            [helper.make_node("Conv", ["x", "weight"], ["y"], pads=[1, 1, 1, 1])],
            {"x": (TensorProto.FLOAT, list(shape))},
            {"y": (TensorProto.FLOAT, list(shape))},
            {"weight": self.weight},
        )

    def value(self) -> Array:
        """The expected output, in f64."""
        padded = np.pad(self.x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        result: Array = np.einsum("nchwij,ocij->nohw", windows, self.weight.astype(np.float64))
        return result


@pytest.fixture(scope="module")
def deep() -> Deep:
    return Deep()


@pytest.fixture(scope="module")
def path(deep: Deep, options: Options, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spare") / "deep.om"
    gw.compile(deep.onnx(), options=options).save(path)
    return path


def check(model: gw.Model, deep: Deep) -> None:
    np.testing.assert_allclose(model(deep.x)[0], deep.value(), rtol=1e-3, atol=1e-3)


def test_a_constant_that_no_task_reads_is_not_a_weight(path: Path, options: Options) -> None:
    package = read_package(path, trust=True)
    assert [t.shape for t in package.spare().tensors.values()] == [(CHANNELS, CHANNELS, 3, 3)]
    (target,) = targets(package).values()
    read = {b.index for b in target.task_graph.buffers if b.storage.name == "WEIGHT"}
    assert read == {tensor.start for tensor in package.weights.tensors.values()}


@pytest.mark.parametrize("use_mmap", [False, True])
def test_loading_leaves_it_in_the_file(path: Path, use_mmap: bool) -> None:
    everything = read_archive(path)
    members, later = open_archive(path, use_mmap=use_mmap, later=SPARE.__eq__)
    assert SPARE not in members
    assert {**members, SPARE: later[SPARE].read()} == everything


def test_a_model_runs_without_the_weights_of_the_graph(
    path: Path, deep: Deep, options: Options, tmp_path: Path
) -> None:
    """The file contains nothing that a run needs: its bytes are changed, and neither load nor run fails."""
    key = user_key(options.key_folder, create=False)
    spare = bytearray(members_of(path)[SPARE])
    spare[:8] = b"\xff" * 8
    broken = rebuilt(path, tmp_path / "broken.om", {SPARE: bytes(spare)}, key)
    check(gw.load(broken, options=options), deep)
    with pytest.raises(PackageError, match=SPARE):
        read_package(broken, trust=True).spare()


def test_an_untrusted_package_is_compiled_again_from_both_members(
    path: Path, deep: Deep, options: Options, tmp_path: Path
) -> None:
    model = gw.load(path, options=replace(options, key_dir=tmp_path / "stranger"))
    check(model, deep)
    model.save(tmp_path / "again.om")
    theirs, ours = members_of(path), members_of(tmp_path / "again.om")
    assert {n: ours[n] for n in (WEIGHTS, SPARE, GRAPH)} == {n: theirs[n] for n in (WEIGHTS, SPARE, GRAPH)}


def test_loading_and_saving_keeps_every_byte(path: Path, options: Options, tmp_path: Path) -> None:
    model = gw.load(path, options=options)
    model.save(tmp_path / "copy.om")
    assert (tmp_path / "copy.om").read_bytes() == path.read_bytes()


def test_a_removed_file_stays_readable_and_a_truncated_one_is_an_error(
    path: Path, options: Options, tmp_path: Path
) -> None:
    """A removed file remains readable for those who have it open; the error says that a file was
    truncated.
    """
    mine = tmp_path / "mine.om"
    mine.write_bytes(path.read_bytes())
    gone, cut = gw.load(mine, options=options), gw.load(mine, options=options)
    with mine.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(PackageError, match="the file was truncated while it was read"):
        cut.save(tmp_path / "saved.om")
    mine.write_bytes(path.read_bytes())
    mine.unlink()
    gone.save(tmp_path / "saved.om")
    assert (tmp_path / "saved.om").read_bytes() == path.read_bytes()


def test_verify_hashes_it(path: Path, tmp_path: Path) -> None:
    data = bytearray(path.read_bytes())
    spare = members_of(path)[SPARE]
    data[data.find(spare) + len(spare) - 100] ^= 1
    changed = tmp_path / "changed.om"
    changed.write_bytes(data)
    read_package(changed, trust=True)
    with pytest.raises(PackageError, match=SPARE):
        read_package(changed, trust=True, verify=True)


def test_members_that_share_its_bytes_are_rejected(path: Path, tmp_path: Path) -> None:
    """A directory entry claims that another member is at the same offset."""
    data = bytearray(path.read_bytes())
    entry = data.rfind(b"PK\x01\x02", 0, data.rfind(WEIGHTS.encode()))
    header = data.rfind(b"PK\x03\x04", 0, data.rfind(SPARE.encode(), 0, data.find(b"PK\x01\x02")))
    data[entry + 42 : entry + 46] = int(header).to_bytes(4, "little")
    odd = tmp_path / "odd.om"
    odd.write_bytes(data)
    for use_mmap in (False, True):
        with pytest.raises(PackageError):
            open_archive(odd, use_mmap=use_mmap, later=SPARE.__eq__)
