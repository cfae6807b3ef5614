"""Packages: the same bytes for the same model, and nothing of a damaged one runs."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.package.read import read_package
from graphwright.package.sign import user_key
from graphwright.package.write_archive import write_archive
from tests.package.damage import (
    GRAPH,
    PROGRAM,
    entry_of,
    manifest_of,
    members_of,
    put_together,
    rebuilt,
    targets_of,
)
from tests.package.models import Classifier

TASKS = f"{PROGRAM}/{{}}/tasks.json"


@pytest.fixture(scope="module")
def key(model: gw.Model, options: Options) -> bytes:
    found = user_key(options.key_folder, create=False)
    assert found is not None
    return found


@pytest.fixture
def null(options: Options) -> Options:
    """Plans, and launches nothing: what no check can see does no harm either."""
    return replace(options, device="null", cc="/no/compiler")


@pytest.mark.parametrize("compile_again", [False, True])
def test_the_same_model_gives_the_same_bytes(
    model: gw.Model,
    package_path: Path,
    classifier: Classifier,
    options: Options,
    tmp_path: Path,
    compile_again: bool,
) -> None:
    again = gw.compile(classifier.onnx(), options=options) if compile_again else model
    again.save(tmp_path / "again.om")
    assert (tmp_path / "again.om").read_bytes() == package_path.read_bytes()


COMPILE = """
import sys
from pathlib import Path
import graphwright as gw
from graphwright.config import Options

source, folder, keys = map(Path, sys.argv[1:])
gw.compile(source, options=Options(cache_dir=folder / "cache", key_dir=keys)).save(folder / "model.om")
"""


def test_other_processes_give_the_same_bytes(
    package_path: Path, classifier: Classifier, options: Options, tmp_path: Path
) -> None:
    """The bytes do not depend on the order of hash tables, and kernels are compiled again."""
    source = tmp_path / "model.onnx"
    source.write_bytes(classifier.onnx())
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        command = [sys.executable, "-c", COMPILE, str(source), str(folder), str(options.key_dir)]
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, cwd=folder, check=True, timeout=300
        )
        assert (folder / "model.om").read_bytes() == package_path.read_bytes()


def test_loaded_and_compiled_models_are_bit_equal(
    model: gw.Model, package_path: Path, classifier: Classifier, options: Options
) -> None:
    for mmap in (False, True):
        loaded = gw.load(package_path, mmap=mmap, options=options)
        assert np.array_equal(loaded(classifier.x)[0], model(classifier.x)[0])


def test_a_package_has_the_members_of_the_format(package_path: Path) -> None:
    names = list(members_of(package_path))
    (isa,) = targets_of(manifest_of(package_path))
    kernels = {f"{PROGRAM}/{isa}/generated.so", f"{PROGRAM}/{isa}/generated.c"}
    assert names[:2] == ["manifest.json", "signature"]
    assert {GRAPH, "weights.safetensors", TASKS.format(isa), *kernels} <= set(names)


def test_no_byte_changed_in_any_member_goes_unseen(
    package_path: Path, options: Options, tmp_path: Path
) -> None:
    """Archive structures, padding and weights have tests of their own."""
    members = members_of(package_path)
    source = random.Random(0)
    for name, data in members.items():
        if name == "weights.safetensors":
            continue
        for position in source.sample(range(len(data)), min(20, len(data))):
            bad = (
                data[:position] + bytes([data[position] ^ (1 << source.randrange(8))]) + data[position + 1 :]
            )
            rest = {n: bad if n == name else d for n, d in members.items()}
            path = put_together_raw(tmp_path / "bad.om", rest)
            if name in ("manifest.json", "signature"):
                assert refused_or_without_targets(path, options)
            else:
                with pytest.raises(gw.PackageError, match="changed after it was written"):
                    read_package(path, trust=True)


def put_together_raw(path: Path, members: dict[str, bytes]) -> Path:
    write_archive(path, {name: [data] for name, data in members.items()})
    return path


def refused_or_without_targets(path: Path, options: Options) -> bool:
    own = user_key(options.key_folder, create=False)
    assert own is not None
    try:
        return read_package(path, keys=[own]).main.executable is None
    except gw.PackageError:
        return True


def test_changed_weights_are_found_by_verify(package_path: Path, tmp_path: Path) -> None:
    members = members_of(package_path)
    weights = members["weights.safetensors"]
    members["weights.safetensors"] = weights[:-70] + bytes([weights[-70] ^ 1]) + weights[-69:]
    path = put_together_raw(tmp_path / "bad.om", members)
    with pytest.raises(gw.PackageError, match="weights are damaged: 'dense', of 3 tensors"):
        read_package(path, verify=True)


@pytest.mark.parametrize("use_mmap", [False, True])
def test_every_truncation_is_rejected(package_path: Path, tmp_path: Path, use_mmap: bool) -> None:
    data = package_path.read_bytes()
    for length in [*range(0, len(data), 997), len(data) - 1]:
        (tmp_path / "cut.om").write_bytes(data[:length])
        with pytest.raises(gw.PackageError):
            gw.load(tmp_path / "cut.om", trust=True, mmap=use_mmap)


MANIFESTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "format": lambda m: m.update(format=99),
    "no format": lambda m: m.pop("format"),
    "no members": lambda m: m.pop("members"),
    "members of another kind": lambda m: m.update(members=[]),
    "a member that is not there": lambda m: m["members"].update(more=[0, ""]),
    "a member that is not listed": lambda m: m["members"].pop(GRAPH),
    "a wrong size": lambda m: m["members"][GRAPH].__setitem__(0, 2**70),
    "a wrong hash": lambda m: m["members"][GRAPH].__setitem__(1, "0" * 64),
    "inputs of another kind": lambda m: entry_of(m).update(inputs=3),
    "another input": lambda m: entry_of(m)["inputs"][0].__setitem__(0, "z"),
    "another type": lambda m: entry_of(m)["inputs"][0].__setitem__(1, "f64"),
    "an unknown type": lambda m: entry_of(m)["outputs"][0].__setitem__(1, "f99"),
    "no outputs": lambda m: entry_of(m).update(outputs=[]),
    "targets of another kind": lambda m: entry_of(m).update(programs=[["v4"]]),
    "a target that is not there": lambda m: targets_of(m).update(v9={"objects": {}, "sources": {}}),
    "an object that is not there": lambda m: next(iter(targets_of(m).values()))["objects"].update(x="../x"),
    "entries of another kind": lambda m: m.update(entries=[]),
    "an entry of another kind": lambda m: m.update(entries=[3]),
    "two entries of one name": lambda m: m["entries"].append(entry_of(m)),
    "an executable of another kind": lambda m: entry_of(m).update(executable=3),
    "an entry without a graph": lambda m: entry_of(m).update(name="other"),
    "no programs": lambda m: entry_of(m).pop("programs"),
    "metadata of another kind": lambda m: entry_of(m).update(metadata=[1]),
}


@pytest.mark.parametrize("change", MANIFESTS.values(), ids=MANIFESTS)
def test_malformed_manifests_are_rejected(
    package_path: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    manifest = manifest_of(package_path)
    change(manifest)
    members = {n: d for n, d in members_of(package_path).items() if n not in ("manifest.json", "signature")}
    path = put_together(tmp_path / "bad.om", manifest, members, None)
    with pytest.raises(gw.PackageError):
        gw.load(path, trust=True)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000, b'{"format": 1' + b"0" * 5000 + b"}"]
)
def test_invalid_manifests_are_rejected(package_path: Path, tmp_path: Path, text: bytes) -> None:
    path = put_together_raw(tmp_path / "bad.om", members_of(package_path) | {"manifest.json": text})
    with pytest.raises(gw.PackageError):
        gw.load(path, trust=True)


REPLACEMENTS = (-(2**63), -1, 0, 1, 7, 1000, 2**31, 2**62, 2**63, 2**70, 1.5, None, "x", [], [[1]])


def test_no_task_word_changed_does_harm(
    package_path: Path, null: Options, key: bytes, classifier: Classifier, tmp_path: Path
) -> None:
    """The file is signed but malformed: the runtime rejects it, or plans it within its memory."""
    (isa,) = targets_of(manifest_of(package_path))
    name = TASKS.format(isa)
    plain = json.loads(members_of(package_path)[name])
    places = list(numbers(plain))
    source = random.Random(0)
    refused = 0
    for place in places if len(places) < 400 else source.sample(places, 400):
        value = source.choice(REPLACEMENTS)
        text = json.dumps(with_change(plain, place, value)).encode()
        path = rebuilt(package_path, tmp_path / "bad.om", {name: text}, key)
        try:
            gw.load(path, options=null)(classifier.x)
        except (gw.PackageError, gw.FeedError):
            refused += 1
    assert refused > 100


def numbers(plain: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The positions of numbers, texts and lists."""
    if place:
        yield place
    if isinstance(plain, list | dict):
        for index, item in enumerate(plain) if isinstance(plain, list) else plain.items():
            yield from numbers(item, (*place, index))


def with_change(plain: Any, place: tuple[Any, ...], value: object) -> Any:
    if not place:
        return value
    copy = list(plain) if isinstance(plain, list) else dict(plain)
    copy[place[0]] = with_change(plain[place[0]], place[1:], value)
    return copy


def test_kernels_that_are_not_there(package_path: Path, key: bytes, options: Options, tmp_path: Path) -> None:
    (isa,) = targets_of(manifest_of(package_path))
    plain = json.loads(members_of(package_path)[TASKS.format(isa)])
    for kernel in (["no_such_kernel", ""], ["no_such_kernel", "generated"]):
        text = json.dumps({**plain, "kernels": [kernel] * len(plain["kernels"])}).encode()
        path = rebuilt(package_path, tmp_path / "bad.om", {TASKS.format(isa): text}, key)
        with pytest.raises(gw.PackageError, match="no_such_kernel"):
            gw.load(path, options=options)


def test_kernels_that_are_no_shared_object(
    package_path: Path, key: bytes, options: Options, tmp_path: Path
) -> None:
    (isa,) = targets_of(manifest_of(package_path))
    for data in (b"", b"\x7fELF" + bytes(100), b"text"):
        path = rebuilt(package_path, tmp_path / "bad.om", {f"{PROGRAM}/{isa}/generated.so": data}, key)
        with pytest.raises(gw.PackageError):
            gw.load(path, options=options)


def test_graphs_of_strangers_that_mean_nothing(package_path: Path, options: Options, tmp_path: Path) -> None:
    """An untrusted graph is rejected or compiled; no other error is raised."""
    stranger = replace(options, key_dir=tmp_path / "none", device="reference")
    text = members_of(package_path)[GRAPH]
    source = random.Random(0)
    for _ in range(150):
        position, length = source.randrange(len(text)), source.choice([0, 1, 5, 40])
        change = source.choice([b"", b"0", b"-1", b"999999999999", b"%", b"f32[", b"*", b")", b"\n", b"N"])
        bad = text[:position] + change + text[position + length :]
        path = rebuilt(package_path, tmp_path / "bad.om", {GRAPH: bad})
        try:
            gw.load(path, options=stranger)
        except gw.GraphwrightError:
            continue


@pytest.mark.parametrize("shape", [[-1, 3], [2] * 65])
def test_a_manifest_with_no_shape_of_a_tensor_is_rejected(
    package_path: Path, tmp_path: Path, shape: list[int]
) -> None:
    manifest, members = manifest_of(package_path), members_of(package_path)
    entry_of(manifest)["inputs"][0][2] = shape
    kept = {name: data for name, data in members.items() if name not in ("signature", "manifest.json")}
    path = put_together(tmp_path / "shape.om", manifest, kept, None)
    with pytest.raises(gw.PackageError, match="has an invalid shape"):
        read_package(path)
