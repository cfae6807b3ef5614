"""Removes large weights from a model before the protobuf parser reads it, so that they are not copied.

This works on the wire format (protobuf.dev/programming-guides/encoding): it removes the raw data of
initializers of the main graph, and keeps all other bytes. A model in an unexpected format is not changed, so
that the parser reports the error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from graphwright.support.protobuf import LENGTH_DELIMITED, field_header

LARGE: Final = 1 << 16
"""Bytes from which on raw data is removed."""
_GRAPH, _INITIALIZER, _NAME, _RAW_DATA = 7, 5, 8, 9
"""Field numbers of ModelProto, GraphProto and TensorProto (twice) in onnx.proto."""
_FIXED: Final = {1: 8, 5: 4}
"""Number of bytes of the wire types with fixed size."""


class _Unexpected(Exception):
    """The bytes do not have the expected format."""


class _Field(NamedTuple):
    """``data[start:end]``; for wire type LENGTH_DELIMITED, its payload is ``data[payload:end]``."""

    number: int
    wire: int
    start: int
    payload: int
    end: int


def detach_weights(data: memoryview) -> tuple[bytes | memoryview, Mapping[str, memoryview]]:
    """The model with empty raw data in large initializers, and the removed data by name."""
    weights: dict[str, memoryview] = {}
    try:
        return _model(data, weights), weights
    except (_Unexpected, IndexError, UnicodeDecodeError):
        return data, {}


def _model(data: memoryview, weights: dict[str, memoryview]) -> bytes:
    fields = list(_fields(data, 0, len(data)))
    graphs = [field for field in fields if field.number == _GRAPH]
    if len(graphs) != 1 or graphs[0].wire != LENGTH_DELIMITED:  # protobuf would merge several
        raise _Unexpected
    return b"".join(
        _message(_GRAPH, _graph(data, field, weights))
        if field is graphs[0]
        else data[field.start : field.end]
        for field in fields
    )


def _graph(data: memoryview, graph: _Field, weights: dict[str, memoryview]) -> bytes:
    """The payload of the graph. Consecutive unchanged fields are copied together."""
    pieces: list[bytes | memoryview] = []
    done = graph.payload
    for field in _fields(data, graph.payload, graph.end):
        if field.number != _INITIALIZER or field.end - field.payload < LARGE:
            continue
        slim = _tensor(data, field, weights)
        if slim is not None:
            pieces += (data[done : field.start], _message(_INITIALIZER, slim))
            done = field.end
    return b"".join([*pieces, data[done : graph.end]])


def _tensor(data: memoryview, tensor: _Field, weights: dict[str, memoryview]) -> bytes | None:
    """The payload of an initializer without its raw data; None if it has no large raw data."""
    if tensor.wire != LENGTH_DELIMITED:
        raise _Unexpected
    fields = list(_fields(data, tensor.payload, tensor.end))
    raw = [field for field in fields if field.number == _RAW_DATA]
    names = [field for field in fields if field.number == _NAME]
    if len(raw) != 1 or len(names) != 1 or {raw[0].wire, names[0].wire} != {LENGTH_DELIMITED}:
        return None
    name = str(data[names[0].payload : names[0].end], "utf-8")
    if raw[0].end - raw[0].payload < LARGE:
        return None
    if name in weights:
        raise _Unexpected
    weights[name] = data[raw[0].payload : raw[0].end]
    return b"".join(
        _message(_RAW_DATA, b"") if field is raw[0] else data[field.start : field.end] for field in fields
    )


def _fields(data: memoryview, start: int, end: int) -> Iterator[_Field]:
    while start < end:
        tag, at = _varint(data, start)
        payload, wire = at, tag & 7
        if wire == LENGTH_DELIMITED:
            size, payload = _varint(data, at)
            stop = payload + size
        elif wire in _FIXED:
            stop = at + _FIXED[wire]
        elif wire == 0:
            stop = _varint(data, at)[1]
        else:
            raise _Unexpected
        if stop > end:
            raise _Unexpected
        yield _Field(tag >> 3, wire, start, payload, stop)
        start = stop


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """The number at ``at``, and the position after it."""
    value = shift = 0
    while shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
    raise _Unexpected


def _message(number: int, payload: bytes) -> bytes:
    return field_header(number, len(payload)) + payload
