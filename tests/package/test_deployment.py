"""Packages on other machines and for other users: which kernels run, messages for those that do not, and
missing folders.
"""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import graphwright as gw
from graphwright import config, log
from graphwright.config import Options
from graphwright.package.sign import KEY_BYTES, user_key
from graphwright.targets.cpu.private_folder import PrivateFolder
from tests.package.damage import PROGRAM, entry_of, manifest_of, members_of, put_together, targets_of
from tests.package.models import Classifier
from tests.tools.support import graphwright, write_model


@pytest.fixture(autouse=True)
def _nothing_was_said() -> Iterator[None]:
    log._WARNED.clear()
    yield
    log._WARNED.clear()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The warnings since the last call."""
    caplog.set_level(logging.WARNING, "graphwright")

    def read() -> list[str]:
        texts = [record.getMessage() for record in caplog.records if record.name == "graphwright"]
        caplog.clear()
        return texts

    return read


@pytest.fixture
def stranger(options: Options, tmp_path: Path) -> Options:
    """Another user, who has no compiler and no kernels."""
    return replace(options, key_dir=tmp_path / "k", cache_dir=tmp_path / "c", cc="/no/compiler")


# Trust


@pytest.mark.parametrize("form", ["bytes", "file", "option", "environment"])
def test_keys_are_bytes_files_and_options(
    form: str,
    package_path: Path,
    options: Options,
    stranger: Options,
    classifier: Classifier,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = options.key_folder / "signing.key"
    if form in ("bytes", "file"):
        key = file.read_bytes() if form == "bytes" else file
        classifier.check(gw.load(package_path, keys=[key], options=stranger))
        session = gw.SessionOptions()
        session.compile_options = stranger
        gw.InferenceSession(package_path, session, keys=[key])
    elif form == "option":
        classifier.check(gw.load(package_path, options=replace(stranger, keys=(str(file),))))
    else:
        monkeypatch.setenv("GRAPHWRIGHT_KEYS", f"{file}{os.pathsep}{file}")
        for name in ("key_dir", "cache_dir", "cc"):
            monkeypatch.setenv(f"GRAPHWRIGHT_{name.upper()}", str(getattr(stranger, name)))
        classifier.check(gw.load(package_path))
        gw.InferenceSession(package_path)


def test_trust_is_an_option(
    package_path: Path, stranger: Options, classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier.check(gw.load(package_path, options=replace(stranger, trust=True)))
    with pytest.raises(gw.ToolchainError):
        gw.load(package_path, trust=False, options=replace(stranger, trust=True))
    for name in ("key_dir", "cache_dir", "cc"):
        monkeypatch.setenv(f"GRAPHWRIGHT_{name.upper()}", str(getattr(stranger, name)))
    with pytest.raises(gw.ToolchainError):
        gw.InferenceSession(package_path)
    gw.InferenceSession(package_path, trust=True)
    monkeypatch.setenv("GRAPHWRIGHT_TRUST", "1")
    gw.InferenceSession(package_path)
    classifier.check(gw.load(package_path))


@pytest.mark.parametrize("content", [None, b"", bytes(KEY_BYTES - 1), bytes(5000)])
def test_files_that_hold_no_key(content: bytes | None, package_path: Path, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    with pytest.raises(gw.PackageError, match=r"(?s)key.*signing\.key of the user who built"):
        gw.load(package_path, keys=[tmp_path / "key"])


# Compiled again


def test_a_package_of_others_says_once_that_it_is_compiled_again(
    package_path: Path, options: Options, tmp_path: Path, said: Callable[[], list[str]]
) -> None:
    stranger = replace(options, key_dir=tmp_path / "stranger")
    for _ in range(3):
        gw.load(package_path, options=stranger)
    (text,) = said()
    for part in (
        str(package_path),
        "at each start",
        "trust=True",
        "GRAPHWRIGHT_TRUST=1",
        "keys=",
        "-o NEW.om",
    ):
        assert part in text
    for quiet in (options, replace(stranger, trust=True)):
        gw.load(package_path, options=quiet)
    assert said() == []


@pytest.mark.parametrize("has_key", [True, False])
def test_the_remedy_in_the_warning_works(
    has_key: bool, package_path: Path, options: Options, tmp_path: Path, said: Callable[[], list[str]]
) -> None:
    mine = ("--key-dir", str(tmp_path / "mine"), "--cache-dir", str(options.cache_dir))
    if has_key:
        user_key(tmp_path / "mine", create=True)
    made = graphwright("compile", package_path, "-o", tmp_path / "here.om", *mine)
    assert made.exit_code == 0, made.stderr
    assert len(said()) == 1
    here = replace(options, key_dir=tmp_path / "mine", cc="/no/compiler", cache_dir=tmp_path / "none")
    gw.load(tmp_path / "here.om", options=here)
    assert said() == []


@pytest.mark.parametrize("trust", ["--trust", "--key"])
def test_the_command_signs_a_package_of_someone_trusted(
    trust: str, package_path: Path, options: Options, tmp_path: Path, said: Callable[[], list[str]]
) -> None:
    mine = ("--key-dir", str(tmp_path / "mine"), "--cc", "/no/compiler")
    trusted = ("--trust",) if trust == "--trust" else ("--key", str(options.key_folder / "signing.key"))
    made = graphwright("compile", package_path, "-o", tmp_path / "here.om", *mine, *trusted)
    assert made.exit_code == 0, made.stderr
    here = replace(options, key_dir=tmp_path / "mine", cc="/no/compiler", cache_dir=tmp_path / "none")
    gw.load(tmp_path / "here.om", options=here)
    assert said() == []


def test_a_package_compiled_again_is_signed_when_it_is_saved(
    package_path: Path, options: Options, tmp_path: Path, said: Callable[[], list[str]]
) -> None:
    mine = replace(options, key_dir=tmp_path / "mine")
    model = gw.load(package_path, options=mine)
    assert not (tmp_path / "mine").exists(), "loading writes no key"
    model.save(tmp_path / "here.om")
    assert len(said()) == 1
    gw.load(tmp_path / "here.om", options=replace(mine, cc="/no/compiler", cache_dir=tmp_path / "none"))
    assert said() == []


@pytest.mark.parametrize(
    ("change", "reason"), [("library", "another version"), ("isa", "contains kernels for v5")]
)
def test_parts_that_do_not_fit_this_machine_are_named(
    change: str,
    reason: str,
    package_path: Path,
    options: Options,
    tmp_path: Path,
    said: Callable[[], list[str]],
) -> None:
    manifest, members = manifest_of(package_path), members_of(package_path)
    ((isa, target),) = targets_of(manifest).items()
    kept = {name: data for name, data in members.items() if name not in ("signature", "manifest.json")}
    if change == "library":
        target["library"] = "0" * 64
    else:
        entry_of(manifest)["programs"] = [{"v5": target}]
        tasks, renamed = f"{PROGRAM}/{isa}/tasks.json", f"{PROGRAM}/v5/tasks.json"
        kept[renamed] = kept.pop(tasks)
        manifest["members"][renamed] = manifest["members"].pop(tasks)
    key = user_key(options.key_folder, create=False)
    gw.load(put_together(tmp_path / "other.om", manifest, kept, key), options=options)
    (text,) = said()
    assert reason in text and "--trust" not in text and "-o NEW.om" in text


# Folders that cannot be written


def unwritable(tmp_path: Path, kind: str) -> Path:
    """A folder that no one can make, root included."""
    (tmp_path / "file").touch()
    return {"in a file": tmp_path / "file" / "x", "in /proc": Path("/proc/graphwright/x")}[kind]


@pytest.mark.parametrize("kind", ["in a file", "in /proc"])
def test_without_cache_and_key_all_goes_on_with_one_warning_each(
    kind: str, classifier: Classifier, tmp_path: Path, said: Callable[[], list[str]]
) -> None:
    folder = unwritable(tmp_path, kind)
    options = Options(key_dir=folder / "keys", cache_dir=folder / "cache")
    for _ in range(2):
        model = gw.compile(classifier.onnx(), options=options)
    classifier.check(model)
    cache, key = sorted(said())
    assert str(folder / "cache") in cache and "GRAPHWRIGHT_CACHE_DIR" in cache
    assert str(folder / "keys") in key and "GRAPHWRIGHT_KEY_DIR" in key
    model.save(tmp_path / "unsigned.om")
    assert "signature" not in members_of(tmp_path / "unsigned.om")
    classifier.check(gw.load(tmp_path / "unsigned.om", trust=True, options=options))
    assert said() == []
    classifier.check(gw.load(tmp_path / "unsigned.om", options=options))
    assert ["at each start" in text for text in said()] == [True]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_compiling_continues_if_the_disk_fills_up(
    error: int,
    classifier: Classifier,
    tmp_path: Path,
    said: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(PrivateFolder, "write", full)
    monkeypatch.setattr("graphwright.package.sign.os.link", full)
    options = Options(key_dir=tmp_path / "keys", cache_dir=tmp_path / "cache")
    classifier.check(gw.compile(classifier.onnx(), options=options))
    assert len(said()) == 2
    assert list((tmp_path / "keys").iterdir()) == []


def test_a_full_disk_leaves_no_half_package(
    model: gw.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("graphwright.support.whole_file.os.fsync", full)
    with pytest.raises(OSError, match="No space") as caught:
        model.save(tmp_path / "model.om")
    assert caught.value.filename == str(tmp_path / "model.om")
    assert list(tmp_path.iterdir()) == []


def test_compiling_works_without_a_home_folder(
    classifier: Classifier, said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "GRAPHWRIGHT_CACHE_DIR", "GRAPHWRIGHT_KEY_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(config.Path, "home", homeless)
    classifier.check(gw.compile(classifier.onnx()))
    assert len(said()) == 2


def test_compilers_work_in_memory_if_the_disk_is_full(
    classifier: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", full)
    options = Options(key_dir=tmp_path / "keys", cache_dir=tmp_path / "cache")
    classifier.check(gw.compile(classifier.onnx(), options=options))
    monkeypatch.setattr("graphwright.support.temporary._IN_MEMORY", str(tmp_path / "nowhere"))
    with pytest.raises(gw.ToolchainError, match="TMPDIR"):
        gw.compile(classifier.onnx(), options=replace(options, cache_dir=tmp_path / "other"))


def test_the_command_continues_without_folders_that_it_can_write(tmp_path: Path) -> None:
    write_model(tmp_path / "model.onnx", op="Tanh")
    known = {name: text for name, text in os.environ.items() if not name.startswith(("GRAPHWRIGHT", "XDG"))}
    command = [sys.executable, "-m", "graphwright", "run", "model.onnx", "--shape", "x:2,4"]
    made = subprocess.run(
        command,
        env={**known, "HOME": "/proc/none"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode == 0, made.stderr
    for folder in ("/proc/none/.cache/graphwright", "/proc/none/.config/graphwright"):
        assert made.stderr.count(folder) == 1


def test_a_device_that_is_not_known_is_named(package_path: Path, options: Options, tmp_path: Path) -> None:
    manifest, members = manifest_of(package_path), members_of(package_path)
    kept = {name: data for name, data in members.items() if name not in ("signature", "manifest.json")}
    entry_of(manifest)["executable"]["device"] = "tpu"
    key = user_key(options.key_folder, create=False)
    with pytest.raises(gw.PackageError, match="device 'tpu', which is not registered"):
        gw.load(put_together(tmp_path / "other.om", manifest, kept, key), options=options)
