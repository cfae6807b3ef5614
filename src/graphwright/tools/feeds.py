"""Makes arrays for the inputs of a model: those given by the user, and seeded random ones for the rest."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from graphwright.errors import Collector, Diagnostic, FeedError
from graphwright.executable.specs import TensorSpec
from graphwright.ir.sizes import SizeRange
from graphwright.ir.types import DType
from graphwright.runtime.feeds.input_shapes import input_shapes
from graphwright.support.message_text import did_you_mean
from graphwright.tools.arguments import NO_JSON, Sizes, as_array, read_json, read_value
from graphwright.tools.arrays import read_npy, read_npz

Array = np.ndarray[Any, Any]
MAX_ELEMENTS = 2**31
"""The most elements of one random input."""


def make_feeds(
    specs: Sequence[TensorSpec],
    given: Sequence[str] | None,
    shapes: Sizes,
    seed: int = 0,
    constraints: Sequence[str] = (),
) -> dict[str, Any]:
    """Feeds for ``specs``: those of ``given`` (``name=file.npy``, ``name=1.5``, ``all.npz``, a folder), else
    random.

    Random ones need sizes: of the model, of ``shapes``, or of a size that another input shares. A FeedError
    lists all unknown names, containers that are not given, and inputs with unknown sizes; its example sizes
    satisfy ``constraints``.
    """
    arrays = _given_feeds(specs, given or ())
    _require_containers(specs, arrays)
    tensors = [spec for spec in specs if spec.dtype.element is None]
    known = {spec.name: list(arrays[spec.name].shape) for spec in tensors if spec.name in arrays}
    sizes = input_sizes(specs, {**shapes, **known}, constraints)
    for index, spec in enumerate(specs):
        if spec.name not in arrays:
            arrays[spec.name] = random_array(
                spec.dtype, sizes[spec.name], np.random.default_rng([seed, index])
            )
    return {spec.name: arrays[spec.name] for spec in specs}


def shapes_of(feeds: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays of ``feeds``, which may also have lists and dicts."""
    return {name: array.shape for name, array in feeds.items() if hasattr(array, "shape")}


def _require_containers(specs: Sequence[TensorSpec], given: Mapping[str, Any]) -> None:
    faults = Collector(FeedError)
    for spec in specs:
        if spec.dtype.element is not None and spec.name not in given:
            message = f"input {spec.name!r} is {spec.dtype}, for which no random value can be made"
            flag = f"--input {shlex.quote(f'{spec.name}=VALUE')}"
            faults.add("feed-dtype", message, hint=f"set it: {flag}, in JSON or a .pb file")
    faults.raise_if_any()


def _given_feeds(specs: Sequence[TensorSpec], given: Sequence[str]) -> dict[str, Any]:
    faults = Collector(FeedError)
    by_name = {spec.name: spec for spec in specs}
    listed = f"the inputs are {', '.join(map(repr, by_name)) or 'none'}"
    values: dict[str, Any] = {}
    for text in given:
        named = [name for name in by_name if text.startswith(f"{name}=")]
        if named:
            name = max(named, key=len)
            values[name] = _read(text[len(name) + 1 :], by_name[name].dtype)
        elif text.endswith(".npz"):
            values |= read_npz(Path(text))
        elif Path(text).is_dir():
            values |= _read_folder(Path(text), specs)
        else:
            message = f"{text!r} is not INPUT=VALUE with an input of this model, an .npz file, or a folder"
            faults.add("feed-name", message, hint=listed)
    for name in values.keys() - by_name.keys():
        meant = did_you_mean([name], by_name)
        faults.add("feed-name", f"there is no input {name!r}", hint=f"{meant}{listed}")
    faults.raise_if_any()
    return {name: _fed(value, by_name[name].dtype, name) for name, value in values.items()}


def _read(text: str, dtype: DType) -> Any:
    """The value that ``text`` contains, or that the file named ``text`` contains, for an input of
    ``dtype``.
    """
    if text.endswith(".pb"):
        return _read_pb(Path(text), dtype)
    if dtype.element is None:
        return read_value(text, "--input")
    if text.endswith(".npz") and dtype.kind == "sequence":
        return list(read_npz(Path(text)).values())
    if text.endswith(".npy"):
        return read_npy(Path(text))
    value = read_json(text)
    if value is NO_JSON:
        form = "an .npz or .pb file nor JSON" if dtype.kind == "sequence" else "a .pb file nor JSON"
        raise typer.BadParameter(
            f"{text!r} is {dtype}, but the value is neither {form}", param_hint="--input"
        )
    return value


def _read_folder(folder: Path, specs: Sequence[TensorSpec]) -> dict[str, Any]:
    """Reads a folder of ONNX test data: ``input_0.pb`` is the first input, and so on."""
    files = [folder / f"input_{k}.pb" for k in range(len(specs))]
    found = sum(1 for _ in folder.glob("input_*.pb"))
    if found != len(files) or not all(file.is_file() for file in files):
        message = f"has {found} files input_K.pb; the model has {len(specs)} inputs"
        hint = "give each separately, as NAME=FILE.pb"
        raise FeedError(Diagnostic("array-file", message, str(folder), hint))
    return {spec.name: _read_pb(file, spec.dtype) for file, spec in zip(files, specs, strict=True)}


def _read_pb(path: Path, dtype: DType) -> Any:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FeedError(Diagnostic("array-file", f"cannot be read: {error}", str(path))) from error
    from graphwright.frontends.onnx import values  # needs onnx, which an .om does not

    return values.read_value(data, dtype, str(path))


def _fed(value: Any, dtype: DType, name: str) -> Any:
    """``value`` converted for an input of ``dtype``: lists become arrays, and JSON keys become integers."""
    if dtype.element is None:
        return _typed(as_array(value, dtype.numpy, name), dtype)
    if dtype.kind == "optional":
        return None if value is None else _fed(value, dtype.element, name)
    if dtype.kind == "sequence" and isinstance(value, list):
        return [_fed(item, dtype.element, name) for item in value]
    if dtype.key is not None and isinstance(value, dict):
        return {_key(key, dtype.key, name): item for key, item in value.items()}
    form = 'an object, as in {"a": 1.5}' if dtype.key is not None else "a list"
    raise FeedError(Diagnostic("feed-dtype", f"input {name!r} is {dtype}: give {form}, not {value!r:.60}"))


def _key(key: str | int, dtype: DType, name: str) -> str | int:
    if not dtype.is_integer:
        return key
    try:
        return int(key)
    except ValueError as error:
        raise FeedError(Diagnostic("feed-dtype", f"input {name!r}: key {key!r} is not an integer")) from error


def _typed(array: Array, dtype: DType) -> Array:
    """Restores dtypes that the file format lacks: they are read as raw bytes, and strings as fixed-width
    text.
    """
    wanted = dtype.numpy
    if array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:
        return array.view(wanted)
    return array.astype(object) if array.dtype.kind in "SU" and wanted.kind == "O" else array


def input_sizes(
    specs: Sequence[TensorSpec],
    shapes: Mapping[str, Sequence[int | str | SizeRange | None]],
    constraints: Sequence[str] = (),
) -> dict[str, tuple[int, ...]]:
    """The shape of every input: ``shapes`` override those of the model, and sizes of the same name are equal.
    A range counts as its smallest size that is not 0.
    """
    given = {name: list(map(_smallest, sizes)) for name, sizes in shapes.items()}
    return input_shapes(specs, given, constraints)


def _smallest(size: int | str | SizeRange | None) -> int | str | None:
    if not isinstance(size, SizeRange):
        return size
    return size.smallest if (size.low, size.high) != (0, None) else None


def random_array(dtype: DType, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """A random array: standard normal for floats; 0 and 1 for integers, which may be indices of a short
    axis.
    """
    if np.prod(shape, dtype=object) > MAX_ELEMENTS:
        raise FeedError(Diagnostic("feed-size", f"{shape} is too large for a random input"))
    if dtype.is_float or dtype.kind == "complex":
        return generator.standard_normal(shape, np.float32).astype(dtype.numpy)
    if dtype.kind == "string":
        return np.full(shape, "text", object)
    return generator.integers(0, 2, shape).astype(dtype.numpy)
