"""Reads and writes arrays in ``.npy`` and ``.npz`` files, without pickle; files are written atomically."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphwright.errors import Diagnostic, FeedError
from graphwright.ir.types import DTYPES, dtype_of
from graphwright.support.escaping import identifier
from graphwright.support.unique_names import UniqueNames
from graphwright.support.whole_file import whole_file

Array = np.ndarray[Any, Any]
_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    MemoryError,
    KeyError,
    SyntaxError,
)


def read_npy(path: Path) -> Array:
    """The array in a ``.npy`` file. Raises FeedError."""
    loaded = _load(path)
    if not isinstance(loaded, np.ndarray):
        raise _unreadable(
            path, "it holds several arrays", "give an .npz file alone, without a name before it"
        )
    return loaded


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays in an ``.npz`` file by name. Raises FeedError."""
    loaded = _load(path)
    if isinstance(loaded, np.ndarray):
        raise _unreadable(path, "it holds one array, without a name", "give it as NAME=FILE.npy")
    try:
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except _UNREADABLE as error:
        raise _unreadable(path, str(error)) from error


def _load(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except _UNREADABLE as error:
        raise _unreadable(path, getattr(error, "strerror", None) or str(error)) from error


def _unreadable(path: Path, reason: str, hint: str = "") -> FeedError:
    return FeedError(Diagnostic("array-file", f"cannot be read as arrays: {reason}", str(path), hint))


def write_npy(path: Path, array: Array) -> None:
    """Writes one array."""
    with whole_file(path) as file:
        np.lib.format.write_array(file, _storable(array), allow_pickle=False)


def write_npz(path: Path, arrays: Mapping[str, Array]) -> dict[str, str]:
    """Writes ``arrays``; returns the name of each one in the file, which is its own name if this is a plain
    file name.
    """
    unique = UniqueNames()
    kept = {name: unique.take(name if _is_plain(name) else identifier(name, "output")) for name in arrays}
    with whole_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{kept[name]}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _storable(array), allow_pickle=False)
    return kept


def write_feeds(path: Path, feeds: Mapping[str, Array]) -> None:
    """Writes arrays of any names and dtypes to an ``.npz`` file for :func:`read_feeds`."""
    named = {f"input_{k}": array for k, array in enumerate(feeds.values())}
    dtypes = [dtype_of(array).name for array in feeds.values()]
    write_npz(path, {"names": np.array(list(feeds), str), "dtypes": np.array(dtypes, str), **named})


def read_feeds(path: Path) -> dict[str, Array]:
    """The arrays that :func:`write_feeds` wrote. Raises FeedError."""
    held = read_npz(path)
    arrays = {str(name): held[f"input_{k}"] for k, name in enumerate(held["names"])}
    return {
        name: array.view(DTYPES[str(dtype)].numpy) if array.dtype.kind == "V" else array
        for (name, array), dtype in zip(arrays.items(), held["dtypes"], strict=True)
    }


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Writes ``values``, which can be nested, by name; arrays become lists. Raises FeedError for complex
    numbers.
    """
    try:
        text = json.dumps(values, default=_listed, ensure_ascii=False)
    except TypeError as error:
        hint = "write an .npz, or choose others with --outputs"
        raise FeedError(Diagnostic("array-file", f"cannot be written: {error}", str(path), hint)) from error
    with whole_file(path) as file:
        file.write(text.encode())


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind not in "cV":
        return value.tolist()
    if isinstance(value, np.ndarray) and value.dtype.kind == "V":
        return value.astype(np.float64).tolist()
    raise TypeError(f"JSON has no {getattr(value, 'dtype', type(value).__name__)}")


def described(value: Any) -> str:
    """The type of an array, such as ``float32[2, 3]``; for a list or a dict, the number of its items."""
    if value is None:
        return "nothing"
    if isinstance(value, list | dict):
        return f"{type(value).__name__}[{len(value)}]"
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"


def _storable(array: Array) -> Array:
    """``array`` in a form that the file format supports: texts have a fixed width."""
    plain = np.asarray(array)
    return plain.astype(np.str_) if plain.dtype == object else plain


def _is_plain(name: str) -> bool:
    """Whether ``name`` is a safe file name for unzip tools."""
    parts = name.split("/")
    return name.isprintable() and "\\" not in name and len(name) < 200 and not {"", ".", ".."} & set(parts)
