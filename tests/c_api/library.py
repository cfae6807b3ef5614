"""Calls libgraphwright.so and standalone libraries from Python through the functions of ``graphwright.h``;
for tests only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from graphwright.c_api import LIBRARY_FOLDER

Array = np.ndarray[Any, Any]
Callback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
NUMPY = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f32": np.float32, "f64": np.float64,
}  # fmt: skip
_RESULTS: dict[str, Any] = {
    "gw_api_version": c_uint32, "gw_version": c_char_p, "gw_error_text": c_char_p, "gw_status_name": c_char_p,
    "gw_dtype_name": c_char_p, "gw_dtype_bytes": c_size_t, "gw_entry_count": c_size_t,
    "gw_entry_name": c_char_p, "gw_input_count": c_size_t, "gw_output_count": c_size_t, "gw_input": c_void_p,
    "gw_output": c_void_p, "gw_tensor_name": c_char_p, "gw_tensor_symbol": c_char_p,
    "gw_tensor_size": c_int64, "gw_state_count": c_size_t, "gw_state": c_void_p,
    "gw_request_output_size": c_int64, "gw_request_output_bytes": c_size_t,
    "gw_request_output_data": c_void_p, "gw_close": None, "gw_options_destroy": None,
    "gw_request_destroy": None, "gw_trim": None,
}  # fmt: skip


def load(path: Path = LIBRARY_FOLDER / "libgraphwright.so", mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL:
    """A library whose functions have result types."""
    library = ctypes.CDLL(str(path), mode)
    for name, kind in _RESULTS.items():
        getattr(library, name).restype = kind
    return library


C = load()


class CError(Exception):
    """A call that failed: the name of its status, and its text."""

    def __init__(self, status: int, library: ctypes.CDLL) -> None:
        self.status = library.gw_status_name(status).decode()
        self.text = library.gw_error_text().decode()
        super().__init__(f"{self.status}: {self.text}")


def check(status: int, library: ctypes.CDLL = C) -> None:
    if status:
        raise CError(status, library)


class Model:
    """A model, or another entry of the package of ``owner``. Without ``source``: the model in ``library``."""

    def __init__(
        self,
        source: Path | bytes | str | None,
        *,
        trust: bool = False,
        keys: Sequence[Path] = (),
        owner: Any = None,
        library: ctypes.CDLL = C,
    ) -> None:
        self._owner, self.handle, self.c = owner, c_void_p(), library
        if source is None:
            check(library.gw_open_embedded(None, byref(self.handle)), library)
            return
        if owner is not None:
            assert isinstance(source, str)
            check(self.c.gw_entry(owner.handle, source.encode(), byref(self.handle)), self.c)
            return
        options = c_void_p()
        check(self.c.gw_options_create(byref(options)), self.c)
        try:
            check(self.c.gw_options_set_trust(options, int(trust)), self.c)
            for key in keys:
                check(self.c.gw_options_add_key_file(options, bytes(key)), self.c)
            if isinstance(source, bytes):
                check(
                    self.c.gw_open_memory(source, c_size_t(len(source)), options, byref(self.handle)), self.c
                )
            else:
                check(self.c.gw_open(str(source).encode(), options, byref(self.handle)), self.c)
        finally:
            self.c.gw_options_destroy(options)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *unused: object) -> None:
        self.c.gw_close(self.handle)

    @property
    def inputs(self) -> list[str]:
        return self._texts("input")

    @property
    def outputs(self) -> list[str]:
        return self._texts("output")

    @property
    def states(self) -> list[str]:
        return self._texts("state")

    def _texts(self, kind: str) -> list[str]:
        """Types as ``TensorSpec`` prints them."""
        count = getattr(self.c, f"gw_{kind}_count")(self.handle)
        at = getattr(self.c, f"gw_{kind}")
        return [_text(self.c, at(self.handle, c_size_t(index))) for index in range(count)]

    def dtype(self, index: int) -> Any:
        """The dtype of an output."""
        info = c_void_p(self.c.gw_output(self.handle, c_size_t(index)))
        return NUMPY[self.c.gw_dtype_name(self.c.gw_tensor_dtype(info)).decode()]

    def run(self, *arrays: Array, out: Sequence[Array | None] = ()) -> list[Array]:
        """Runs a new request once."""
        with Request(self) as request:
            request.feed(*arrays)
            request.give(*out)
            check(self.c.gw_request_run(request.handle), self.c)
            return request.results()


def _text(library: ctypes.CDLL, info: int) -> str:
    where = c_void_p(info)
    rank = library.gw_tensor_rank(where)
    dims = [
        library.gw_tensor_symbol(where, k) or str(library.gw_tensor_size(where, k)).encode()
        for k in range(rank)
    ]
    shape = "*" if rank < 0 else ", ".join(each.decode() for each in dims)
    dtype = library.gw_dtype_name(library.gw_tensor_dtype(where)).decode()
    return f"{library.gw_tensor_name(where).decode()}: {dtype}[{shape}]"


def sizes_of(array: Array) -> Any:
    return (c_int64 * array.ndim)(*array.shape)


class Request:
    """A request, and the arrays that it reads."""

    def __init__(self, model: Model) -> None:
        self.model, self.handle, self.c = model, c_void_p(), model.c
        self._held: dict[int, Array] = {}
        self._given: dict[int, Array] = {}
        check(self.c.gw_request_create(model.handle, byref(self.handle)), self.c)

    def __enter__(self) -> Request:
        return self

    def __exit__(self, *unused: object) -> None:
        self.c.gw_request_destroy(self.handle)

    def feed(self, *arrays: Array) -> None:
        for index, array in enumerate(arrays):
            array = self._held[index] = np.asarray(array, order="C")
            data, size = c_void_p(array.ctypes.data), c_size_t(array.nbytes)
            given = (self.handle, c_size_t(index), data, size, sizes_of(array), array.ndim)
            check(self.c.gw_request_set_input(*given), self.c)

    def give(self, *arrays: Array | None) -> None:
        for index, array in enumerate(arrays):
            if array is not None:
                self._given[index] = array
                data, size = c_void_p(array.ctypes.data), c_size_t(array.nbytes)
                check(self.c.gw_request_set_output(self.handle, c_size_t(index), data, size), self.c)

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of an output, after a plan is made."""
        rank = self.c.gw_request_output_rank(self.handle, c_size_t(index))
        return tuple(self.c.gw_request_output_size(self.handle, c_size_t(index), k) for k in range(rank))

    def results(self) -> list[Array]:
        """Copies of the outputs."""
        made = []
        for index in range(len(self.model.outputs)):
            data = self.c.gw_request_output_data(self.handle, c_size_t(index))
            size = self.c.gw_request_output_bytes(self.handle, c_size_t(index))
            raw = ctypes.string_at(data, size) if size else b""
            made.append(np.frombuffer(raw, self.model.dtype(index)).reshape(self.shape(index)))
        return made
