"""Releases the memory of parameters. They keep their sizes and strides, and their elements read as NaN.

A few pages whose bits are all one are mapped at all of their addresses, copy-on-write.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import torch

from graphwright._native import sample_memory
from graphwright.errors import Diagnostic, ModelError
from graphwright.torch.parameters import sampled_bytes

_CHUNK: Final = 4 << 20
_NONE, _READ_WRITE = 0, 3
_PRIVATE, _FIXED, _ANONYMOUS, _NO_RESERVE = 0x2, 0x10, 0x20, 0x4000
"""Constants of Linux's mmap(2)."""

_SAMPLES: Final[dict[int, int]] = {}
"""The addresses of released tensors, with a sample of their memory."""


def release(tensors: Sequence[torch.Tensor]) -> None:
    """Releases the memory of the tensors that are parameters and do not share memory."""
    for tensor in tensors:
        size = sampled_bytes(tensor)
        if isinstance(tensor, torch.nn.Parameter) and size and tensor.untyped_storage().nbytes() == size:
            tensor.data = _without_memory(tensor.detach(), size)


def refuse_released(named: Sequence[tuple[str, torch.Tensor]]) -> None:
    """Raises ModelError with all tensors whose memory was released."""
    faults = [
        Diagnostic(
            "released-weights",
            f"its memory, of shape {tuple(tensor.shape)}, was released, but another graph needs it",
            f"parameter {name}",
            "compile one graph for all shapes (dynamic=True), load the parameters again, or leave out "
            "release_weights",
        )
        for name, tensor in named
        if is_released(tensor)
    ]
    if faults:
        raise ModelError(*faults)


def is_released(tensor: torch.Tensor) -> bool:
    """Whether the memory of ``tensor`` was released, and nothing was written to it since."""
    known = _SAMPLES.get(tensor.data_ptr())
    return known is not None and known == sample_memory(tensor.data_ptr(), sampled_bytes(tensor))


def _without_memory(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """A tensor like ``tensor`` whose elements are NaN and that needs no memory."""
    flat = torch.frombuffer(_ones(size), dtype=tensor.dtype, count=tensor.numel())
    _SAMPLES[flat.data_ptr()] = sample_memory(flat.data_ptr(), size)
    return flat.as_strided(tensor.shape, tensor.stride())


def _ones(size: int) -> Any:
    """A buffer of ``size`` bytes with the value 255."""
    length, file = -(-size // _CHUNK) * _CHUNK, _file()
    start = _map(None, length, _NONE, _PRIVATE | _ANONYMOUS | _NO_RESERVE, -1)
    for offset in range(0, length, _CHUNK):
        _map(start + offset, _CHUNK, _READ_WRITE, _PRIVATE | _FIXED | _NO_RESERVE, file)
    buffer = (ctypes.c_ubyte * size).from_address(start)
    weakref.finalize(buffer, _unmap, start, length)
    return buffer


@cache
def _file() -> int:
    """An in-memory file of one chunk whose bits are all one."""
    file = os.memfd_create("graphwright released", os.MFD_CLOEXEC)
    os.write(file, b"\xff" * _CHUNK)
    return file


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


def _map(address: int | None, length: int, protection: int, flags: int, file: int) -> int:
    mapped = _libc().mmap(address, length, protection, flags, file, 0)
    if mapped is None or mapped == ctypes.c_void_p(-1).value:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(mapped)


def _unmap(start: int, length: int) -> None:
    _SAMPLES.pop(start, None)
    _libc().munmap(start, length)
