"""Which packages the C interface opens, and why not the others."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.executable.python_needs import python_needs
from graphwright.package.zip_directory import END, END_64, LARGE, LOCATOR_64
from tests.c_api.library import C, CError, Model
from tests.c_api.models import classifier, rows
from tests.package.damage import members_of, rebuilt
from tests.package.several_targets import MODELS as SEVERAL
from tests.runtime.host_program.models import MODELS

Array = np.ndarray[Any, Any]
KEY_DIR = "GRAPHWRIGHT_KEY_DIR"


def refused(source: Path | bytes, **how: Any) -> tuple[str, str]:
    with pytest.raises(CError) as error:
        Model(source, **how)
    return error.value.status, error.value.text


def test_a_package_of_a_stranger_is_not_run(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Options().key_folder / "signing.key"
    monkeypatch.setenv(KEY_DIR, str(tmp_path / "nobody"))
    status, text = refused(package)
    assert status == "untrusted" and "gw_options_add_key_file" in text and "graphwright compile" in text
    for how in ({"trust": True}, {"keys": [key]}):
        with Model(package, **how) as model:  # type: ignore[arg-type]  # each is one of the arguments
            assert len(model.run(rows(2))) == 2
    other = tmp_path / "other.key"
    other.write_bytes(bytes(32))
    assert refused(package, keys=[other])[0] == "untrusted"
    other.write_bytes(b"short")
    assert refused(package, keys=[other]) == ("file", f"{other} does not contain a key of 32 bytes or more")
    assert refused(package, keys=[tmp_path / "none"])[0] == "file"


def test_a_key_that_others_may_read_is_not_used(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(Options().key_folder / "signing.key", tmp_path / "signing.key")
    (tmp_path / "signing.key").chmod(0o644)
    monkeypatch.setenv(KEY_DIR, str(tmp_path))
    status, text = refused(package)
    assert status == "untrusted" and "others may read it" in text


def test_a_changed_member_is_found(package: Path, tmp_path: Path) -> None:
    """Every member that is read is checked: tasks, kernels, weights."""
    whole = package.read_bytes()
    members = members_of(package)
    names = [
        name for name in members if name.endswith((".so", "tasks.json")) or name == "weights.safetensors"
    ]
    assert len(names) >= 3
    for name in names:
        content = members[name]
        at = whole.index(content) + len(content) // 2
        damaged = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        status, text = refused(damaged, trust=True)
        assert status == "package" and "was changed after it was written" in text, name


def test_a_wrong_signature_is_untrusted(package: Path, tmp_path: Path) -> None:
    path = rebuilt(package, tmp_path / "other.om", {}, bytes(32))
    assert refused(path)[0] == "untrusted"


def test_files_that_are_no_packages(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.om") == (
        "file",
        f"{tmp_path / 'none.om'} cannot be read: No such file or directory",
    )
    assert refused(tmp_path)[0] == "file"
    assert C.gw_open(b"", None, ctypes.byref(ctypes.c_void_p())) == 2
    assert C.gw_error_text() == b"the path is empty"
    for content in (b"", b"PK", bytes(1000), b"PK\5\6" + bytes(18)):
        (tmp_path / "odd.om").write_bytes(content)
        status, text = refused(tmp_path / "odd.om")
        assert status == "package" and "odd.om: not a valid package" in text
        if content:
            assert refused(content)[0] == "package"


def test_truncated_packages_are_rejected(package: Path) -> None:
    whole = package.read_bytes()
    for size in {*range(0, len(whole), 997), *range(len(whole) - 80, len(whole))}:
        if size:
            assert refused(whole[:size], trust=True)[0] == "package", size


@pytest.mark.parametrize("name", ["reshaped", "growing", "branching", "texts", "open_rank"])
def test_nodes_that_need_python_are_named(name: str, tmp_path: Path) -> None:
    known = MODELS[name]()
    gw.compile(known.model).save(tmp_path / "model.om")
    status, text = refused(tmp_path / "model.om")
    assert status == "unsupported"
    assert [host for host in known.hosts if f"{host}[" not in text and f"{host} (" not in text] == []


@pytest.mark.parametrize("name", MODELS)
def test_python_knows_what_needs_python(name: str, tmp_path: Path) -> None:
    """``python_needs`` is what ``graph-autofusion --standalone`` checks before it writes a library."""
    known = MODELS[name]()
    compiled = gw.compile(known.model)
    compiled.save(tmp_path / "model.om")
    assert compiled.package.main.executable is not None
    needs = python_needs(compiled.package.main.executable)
    texts = " ".join(f"{each.what} {each.where}" for each in needs)
    assert [host for host in known.hosts if host not in texts] == []
    try:
        with Model(tmp_path / "model.om") as model:
            for feed in known.feeds:
                model.run(*(feed[text.partition(":")[0]] for text in model.inputs))
    except CError as error:
        assert error.status == "unsupported" and needs, error.text
    else:
        assert not needs


def test_a_package_for_another_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package was compiled for another kernel library."""
    path = tmp_path / "model.om"
    classifier().compile().save(path)
    text = members_of(path)["manifest.json"].decode()
    digest = text.split('"library":"')[1][:64]
    changed = path.read_bytes().replace(digest.encode(), b"0" * 64)
    status, text = refused(changed, trust=True)
    assert status == "unsupported" and "another version of graphwright" in text


def test_numbers_of_64_bits_in_the_directory(package: Path) -> None:
    """Programs that write large archives use such numbers."""
    whole = package.read_bytes()
    at = len(whole) - END.size
    *_, count, size, start, _ = END.unpack(whole[at:])
    wide = END_64.pack(b"PK\6\6", END_64.size - 12, 45, 45, 0, 0, count, count, size, start)
    locator = LOCATOR_64.pack(b"PK\6\7", 0, at, 1)
    end = END.pack(b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, LARGE, LARGE, 0)
    with Model(whole[:at] + wide + locator + end) as model:
        assert len(model.run(rows(2))) == 2
    for bad in (wide[:-1] + b"\x7f", wide[:32] + b"\xff" * 16 + wide[48:]):
        assert refused(whole[:at] + bad + locator + end)[0] == "package"


def test_weights_that_repeat_or_share_bytes(tmp_path: Path) -> None:
    """Each weight is in the file once, and in memory where tasks expect it."""
    square = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    b = gw.GraphBuilder()
    x, z = b.input("x", "f32", ("N", 64)), b.input("z", "f32", (64 * 64,))
    filled = np.full((64, 512), 0.5, np.float32)
    b.output("a", b.matmul(x, filled))
    b.output("b", b.add(z, square.reshape(-1)))
    b.output("c", b.add(b.reshape(z, np.array([64, 64])), square))
    b.compile().save(tmp_path / "model.om")
    header = members_of(tmp_path / "model.om")["weights.safetensors"]
    assert b"] runs" in header and b"] as " in header
    given = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    other = np.random.default_rng(1).standard_normal(64 * 64).astype(np.float32)
    with Model(tmp_path / "model.om") as model:
        a, vector, matrix = model.run(given, other)
    np.testing.assert_allclose(a, given @ filled, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(vector, other + square.reshape(-1))
    np.testing.assert_array_equal(matrix, other.reshape(64, 64) + square)


def test_names_are_any_text(tmp_path: Path) -> None:
    names = ('"quoted"\\', "gr\u00f6\u00dfe \u4e2d \U0001f600", "two\nlines\t")
    b = gw.GraphBuilder()
    for name in names:
        b.output(f"{name}!", b.relu(b.input(name, "f32", (2,))))
    b.compile().save(tmp_path / "model.om")
    with Model(tmp_path / "model.om") as model:
        assert model.inputs == [f"{name}: f32[2]" for name in names]
        assert model.outputs == [f"{name}!: f32[2]" for name in names]


@pytest.mark.parametrize("targets", [("v4", "v3"), ("v3", "v4")], ids=",".join)
@pytest.mark.parametrize("name", ["classifier", "convolutions", "gears"])
def test_a_package_for_several_cpus(name: str, targets: tuple[str, ...], tmp_path: Path) -> None:
    """Weights that are stored for another ISA are packed again; results are equal bit for bit to those in
    Python.
    """
    source, more, several = SEVERAL[name]
    compiled = gw.compile(source, **more, options=gw.CompileOptions(targets=targets, threads=1))
    compiled.save(tmp_path / "model.om")
    with Model(tmp_path / "model.om") as model:
        for feeds in several:
            results = model.run(*(feeds[text.partition(":")[0]] for text in model.inputs))
            for ours, theirs in zip(results, compiled.run(feeds).values(), strict=True):
                np.testing.assert_array_equal(ours, theirs)
