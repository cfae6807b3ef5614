"""Trust: the kernels of a trusted package run; otherwise, graph and weights are compiled again."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.package.read import read_package
from graphwright.package.sign import KEY_BYTES, user_key
from tests.package.damage import PROGRAM, manifest_of, members_of, put_together, rebuilt, targets_of
from tests.package.models import Classifier

OTHER = bytes(range(KEY_BYTES))


@pytest.fixture
def stranger(options: Options, tmp_path: Path) -> Options:
    """A user without a key, who shares the kernel cache."""
    return replace(options, key_dir=tmp_path / "stranger")


@pytest.fixture
def no_compiler(stranger: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    """A user on a machine without a toolchain, whose cache is empty."""
    return replace(stranger, cc=str(tmp_path / "no-such-compiler"), cache_dir=tmp_path / "cache")


def test_own_build_runs_as_it_is(package_path: Path, options: Options, classifier: Classifier) -> None:
    loaded = gw.load(package_path, options=replace(options, cc="/no/compiler"))
    classifier.check(loaded)


def test_package_that_a_given_key_signed_runs_as_it_is(
    package_path: Path, no_compiler: Options, classifier: Classifier, tmp_path: Path
) -> None:
    signed = rebuilt(package_path, tmp_path / "signed.om", {}, OTHER)
    classifier.check(gw.load(signed, keys=[bytes(KEY_BYTES), OTHER], options=no_compiler))
    with pytest.raises(gw.ToolchainError):
        gw.load(signed, keys=[bytes(KEY_BYTES)], options=no_compiler)


def test_trust_runs_it_as_it_is(package_path: Path, no_compiler: Options, classifier: Classifier) -> None:
    classifier.check(gw.load(package_path, trust=True, options=no_compiler))


@pytest.mark.parametrize("mmap", [False, True])
def test_an_untrusted_package_is_compiled_again(
    package_path: Path, stranger: Options, classifier: Classifier, tmp_path: Path, mmap: bool
) -> None:
    hostile = {n: b"never looked at" for n in members_of(package_path) if n.startswith(PROGRAM)}
    path = rebuilt(package_path, tmp_path / "hostile.om", hostile)
    assert hostile and read_package(path).main.executable is None
    classifier.check(gw.load(path, options=stranger, mmap=mmap))


@pytest.fixture
def of_another_version(package_path: Path, options: Options, tmp_path: Path) -> Path:
    """A trusted package that was compiled for other library kernels than those here."""
    manifest, members = manifest_of(package_path), members_of(package_path)
    for target in targets_of(manifest).values():
        target["library"] = "0" * 64
    kept = {name: data for name, data in members.items() if name not in ("signature", "manifest.json")}
    key = user_key(options.key_folder, create=False)
    return put_together(tmp_path / "older.om", manifest, kept, key)


def test_a_package_for_other_library_kernels_is_compiled_again(
    of_another_version: Path, options: Options, no_compiler: Options, classifier: Classifier
) -> None:
    classifier.check(gw.load(of_another_version, options=options))
    with pytest.raises(gw.ToolchainError, match=r"another version.*graphwright\[toolchain\]"):
        gw.load(of_another_version, trust=True, options=no_compiler)


def test_metadata_is_kept_when_a_package_is_compiled_again(package_path: Path, stranger: Options) -> None:
    model, fresh = gw.load(package_path, trust=True), gw.load(package_path, options=stranger)
    assert (fresh.inputs, fresh.outputs, fresh.metadata) == (model.inputs, model.outputs, model.metadata)


def test_without_a_compiler_one_error_names_both_ways_out(package_path: Path, no_compiler: Options) -> None:
    with pytest.raises(gw.ToolchainError, match=r"trust=True.*graphwright\[toolchain\]") as caught:
        gw.load(package_path, options=no_compiler)
    assert str(package_path) in str(caught.value)


def test_signature_of_another_manifest_is_worth_nothing(
    package_path: Path, options: Options, tmp_path: Path
) -> None:
    key = user_key(options.key_folder, create=False)
    assert key is not None
    path = rebuilt(package_path, tmp_path / "forged.om", {"signature": members_of(package_path)["signature"]})
    with pytest.raises(gw.PackageError, match="signature"):
        read_package(path, keys=[key])


@pytest.mark.parametrize("key", [b"", b"short", bytes(KEY_BYTES - 1)])
def test_keys_that_can_be_guessed_are_rejected(package_path: Path, key: bytes) -> None:
    with pytest.raises(gw.PackageError, match="unsafe-key"):
        read_package(package_path, keys=[key])


def test_saving_does_not_sign_for_others(package_path: Path, options: Options, tmp_path: Path) -> None:
    """Saving a package that was loaded with ``trust=True`` does not sign it with the user's key."""
    foreign = rebuilt(package_path, tmp_path / "foreign.om", {}, OTHER)
    gw.load(foreign, trust=True, options=options).save(tmp_path / "again.om")
    own = user_key(options.key_folder, create=False)
    assert own is not None
    assert read_package(tmp_path / "again.om", keys=[own]).main.executable is None


def test_loading_and_saving_keeps_every_byte(package_path: Path, options: Options, tmp_path: Path) -> None:
    for mmap in (False, True):
        gw.load(package_path, options=options, mmap=mmap).save(tmp_path / "again.om")
        assert (tmp_path / "again.om").read_bytes() == package_path.read_bytes()


class TestUserKey:
    def test_is_made_once_and_only_for_its_user(self, tmp_path: Path) -> None:
        folder = tmp_path / "new" / "folder"
        assert user_key(folder, create=False) is None
        key = user_key(folder, create=True)
        assert key == user_key(folder, create=True) == user_key(folder, create=False)
        assert key is not None and len(key) == KEY_BYTES
        assert stat.S_IMODE((folder / "signing.key").stat().st_mode) == 0o600
        assert [p.name for p in folder.iterdir()] == ["signing.key"]

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666])
    def test_a_key_that_others_may_read_is_rejected(self, tmp_path: Path, mode: int) -> None:
        user_key(tmp_path, create=True)
        (tmp_path / "signing.key").chmod(mode)
        with pytest.raises(gw.PackageError, match="others may read"):
            user_key(tmp_path, create=False)

    @pytest.mark.parametrize("create", [False, True])
    def test_a_key_that_is_a_link_is_rejected(self, tmp_path: Path, create: bool) -> None:
        user_key(tmp_path / "real", create=True)
        (tmp_path / "signing.key").symlink_to(tmp_path / "real" / "signing.key")
        with pytest.raises(gw.PackageError, match="unsafe-key"):
            user_key(tmp_path, create=create)

    @pytest.mark.parametrize("size", [0, KEY_BYTES - 1, KEY_BYTES + 1])
    def test_a_key_of_another_size_is_rejected(self, tmp_path: Path, size: int) -> None:
        (tmp_path / "signing.key").write_bytes(bytes(size))
        (tmp_path / "signing.key").chmod(0o600)
        with pytest.raises(gw.PackageError, match="32 bytes"):
            user_key(tmp_path, create=False)

    def test_a_key_that_is_not_a_file_is_rejected(self, tmp_path: Path) -> None:
        (tmp_path / "a" / "signing.key").mkdir(parents=True)
        (tmp_path / "b").mkdir()
        os.mkfifo(tmp_path / "b" / "signing.key", 0o600)
        for folder in ("a", "b"):
            with pytest.raises(gw.PackageError, match="not a file"):
                user_key(tmp_path / folder, create=False)
