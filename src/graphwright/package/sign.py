"""Signatures of packages: an HMAC-SHA256 (RFC 2104) over the manifest, with a private key of the user."""

from __future__ import annotations

import errno
import hmac
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from graphwright.config import Options
from graphwright.errors import Diagnostic, OptionError, PackageError
from graphwright.log import warn_once

KEY_BYTES = 32
_LONGEST = 4096
"""The longest key in a file, in bytes."""


def user_key(folder: Path, *, create: bool) -> bytes | None:
    """The key in ``folder``, which is made if ``create``; None if there is none and none can be made.

    Raises PackageError for a key that other users may read, or that is a symbolic link or not a regular file.
    """
    path = folder / "signing.key"
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe would block
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return _made_key(path) if create else None
    except OSError as error:
        raise _unsafe(path, str(error)) from error
    try:
        return _checked_key(handle, path)
    finally:
        os.close(handle)


def known_keys(options: Options, given: Sequence[bytes | str | os.PathLike[str]] = ()) -> list[bytes]:
    """The trusted keys: ``given``, those of the options, and this user's own. Raises OptionError and
    PackageError.
    """
    if isinstance(given, bytes | str) or not isinstance(given, Iterable):
        raise _not_keys(f"they must be a list, not of type {type(given).__name__}")
    own = user_key(options.key_folder, create=False)
    return [*map(read_key, [*given, *options.keys]), *([own] if own else [])]


def _made_key(path: Path) -> bytes | None:
    """A new key; None with one warning if it cannot be saved."""
    try:
        return _new_key(path)
    except OSError as error:
        warn_once(
            f"key {path}",
            "packages are saved unsigned, and compiled again when they are loaded: %s cannot be "
            "written (%s); set another folder with key_dir (--key-dir, GRAPHWRIGHT_KEY_DIR)",
            path,
            error.strerror or error,
        )
        return None


def read_key(given: bytes | str | os.PathLike[str]) -> bytes:
    """The key ``given`` as bytes or as a path. Raises PackageError for a file that does not contain a key,
    and OptionError.
    """
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    if not isinstance(given, str | os.PathLike):
        raise _not_keys(f"a key must be bytes or the path of a file, not {given!r:.100}")
    path = Path(given)
    try:
        with open(path, "rb") as file:
            key = file.read(_LONGEST + 1)
    except OSError as error:
        raise _bad_key(path, f"cannot be read: {error.strerror or error}") from error
    if not KEY_BYTES <= len(key) <= _LONGEST:
        raise _bad_key(path, f"does not contain a key of {KEY_BYTES} bytes or more")
    return key


def _bad_key(path: Path, reason: str) -> PackageError:
    hint = "pass the file signing.key of the user who built the package, or its bytes"
    return PackageError(Diagnostic("key", reason, str(path), hint))


def _checked_key(handle: int, path: Path) -> bytes:
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise _unsafe(path, "it is not a file")
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise _unsafe(path, "it belongs to another user or others may read it")
    key = os.read(handle, KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise _unsafe(path, f"it does not have {KEY_BYTES} bytes")
    return key


def _new_key(path: Path) -> bytes:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = os.urandom(KEY_BYTES)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(key)
        os.link(temporary, path)  # the first of two processes wins
    except FileExistsError:
        existing = user_key(path.parent, create=False)
        if existing is None:
            raise PermissionError(errno.EACCES, "it exists but cannot be read", str(path)) from None
        key = existing
    finally:
        temporary.unlink()
    return key


def _unsafe(path: Path, reason: str) -> PackageError:
    return PackageError(
        Diagnostic("unsafe-key", f"the signing key is not usable: {reason}", str(path), "remove it")
    )


def _not_keys(reason: str) -> OptionError:
    return OptionError(Diagnostic("option", f"keys: {reason}", hint='as in keys=["builder.key"]'))


def signature(manifest: bytes, key: bytes) -> str:
    """The signature of a manifest, in hexadecimal digits."""
    return hmac.new(key, manifest, "sha256").hexdigest()


def is_signed(manifest: bytes, text: str, keys: Sequence[bytes]) -> bool:
    """Whether one of ``keys`` signed the manifest. Raises PackageError for a key that is too short."""
    if any(len(key) < KEY_BYTES for key in keys):
        raise PackageError(
            Diagnostic("unsafe-key", f"a key is shorter than {KEY_BYTES} bytes", hint="create a longer one")
        )
    return any(hmac.compare_digest(signature(manifest, key).encode(), text.encode()) for key in keys)
