"""Import of the RotaryEmbedding ops of ONNX and ONNX Runtime: rotary position embeddings (Su et al. 2021)."""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ir.symbols import floordiv
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.split import Split
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where


def rotated(i: Importer, x: Value, cosine: Value, sine: Value, interleaved: bool) -> Value:
    """``x``, of four axes, with pairs of features rotated. Cosine and sine of the angles broadcast to ``x``.

    A pair is two adjacent features if ``interleaved``, else a feature of the first half and one of the second
    half. Features at the end for which there are no angles are not rotated.
    """
    half, features = cosine.type.dims[-1], x.type.dims[-1]
    rest: list[Value] = []
    if 2 * half != features:
        x, *rest = i.emit(Split(2, -1, (2 * half, features - 2 * half)), x)
    if interleaved:
        x = i.emit(Reshape((0, 0, 0, half, 2)), x)
        cosine, sine = (i.emit(Unsqueeze((-1,)), part) for part in (cosine, sine))
    size = 1 if interleaved else half
    real, imaginary = i.emit(Split(2, -1, (size, size)), x)
    result: Value = i.emit(
        Concat(-1),
        i.emit(Sub(), i.emit(Mul(), real, cosine), i.emit(Mul(), imaginary, sine)),
        i.emit(Add(), i.emit(Mul(), real, sine), i.emit(Mul(), imaginary, cosine)),
    )
    if interleaved:
        result = i.emit(Reshape((0, 0, 0, 2 * half)), result)
    return i.emit(Concat(-1), result, *rest) if rest else result


def looked_up(i: Importer, tables: tuple[Value, Value], positions: Value, heads_axis: int) -> list[Value]:
    """The rows of both tables at ``positions``, [B, S] or [S], with an axis of size 1 for the heads at the
    negative index ``heads_axis``.
    """
    return [i.emit(Unsqueeze((heads_axis,)), i.emit(Gather(), table, positions)) for table in tables]


def _import(i: Importer) -> Value:
    """ONNX Runtime's op on [B, S, N * H] or [B, N, S, H]. A single position is that of the first row."""
    x, positions = i.input(0), i.input(1)
    tables = (i.input(2), i.input(3))
    flat, shape = rank_of(x) == 3, x.type.dims
    length = shape[1] if flat else shape[2]
    if flat:
        heads = int(i.attr("num_heads", 0))
        size = floordiv(shape[2], heads) if heads else 2 * tables[0].type.dims[1]
        x = i.emit(Reshape((0, 0, heads or -1, size)), x)
    if rank_of(positions) == 1:
        positions = i.emit(Add(), i.emit(Range((0, length, 1))), positions)
    cosine, sine = looked_up(i, tables, positions, -2 if flat else -3)
    y = rotated(i, x, cosine, sine, bool(i.attr("interleaved", 0)))
    return i.emit(Reshape(shape), y) if flat else y


def _import_multimodal(i: Importer) -> Value:
    """MRotaryEmbedding, on [B, S, N * H] or [B, N, S, H]. The positions [3, B, S] are those in time, height
    and width; each pair of features is rotated by one of them.
    """
    x, positions, tables = i.input(0), i.input(1), (i.input(2), i.input(3))
    flat, shape, half = rank_of(x) == 3, x.type.dims, tables[0].type.dims[1]
    sections = tuple(map(int, i.required_attr("mrope_section")))
    if len(sections) != 3 or sum(sections) != half:
        raise i.fail(
            f"mrope_section is {list(sections)}; it must have 3 elements, whose sum is {half}, the number of "
            "columns of the tables",
            "export the model again",
        )
    if flat:
        given = int(i.attr("num_heads", 0))
        heads = given or floordiv(shape[2], 2 * half)
        x = i.emit(Reshape((0, 0, heads, floordiv(shape[2], heads))), x)
    streams = _streams(sections, bool(i.attr("mrope_layout", 0)))
    cosine, sine = (
        _selected(i, rows, streams) for rows in looked_up(i, tables, positions, -2 if flat else -3)
    )
    y = rotated(i, x, cosine, sine, bool(i.attr("interleaved", 0)))
    return i.emit(Reshape(shape), y) if flat else y


def _selected(i: Importer, rows: Value, streams: Array) -> Value:
    """The columns of rows[3, ...] whose first index is their element of ``streams``."""
    time, height, width = (i.emit(Squeeze((0,)), part) for part in i.emit(Split(3, 0, (1, 1, 1)), rows))
    is_height, is_width = (i.const(streams == number) for number in (1, 2))
    selected: Value = i.emit(Where(), is_width, width, i.emit(Where(), is_height, height, time))
    return selected


def _streams(sections: tuple[int, ...], interleaved: bool) -> Array:
    """Which position rotates each pair of features: 0 (time), 1 (height) or 2 (width). Sections follow each
    other, or height and width are every third pair while their sections last.
    """
    if not interleaved:
        return np.repeat(np.arange(3), sections)
    pairs = np.arange(sum(sections))
    ends = 3 * np.array(sections)[pairs % 3]
    return np.where(pairs < ends, pairs % 3, 0)


def _import_onnx(i: Importer) -> Value:
    """ONNX's op on [B, S, N * H] or [B, N, S, H]. Without positions, the tables are those of each row, [B, S,
    ...].
    """
    x, tables, positions = i.input(0), (i.input(1), i.input(2)), i.optional(3)
    flat, shape = rank_of(x) == 3, x.type.dims
    if flat:
        heads = int(i.attr("num_heads", 0))
        if heads < 1:
            raise i.fail(
                "num_heads is missing; it is required for an input of 3 axes", "export the model again"
            )
        x = i.emit(Reshape((0, 0, heads, floordiv(shape[2], heads))), x)
    heads_axis = -2 if flat else -3
    if positions is None:
        cosine, sine = (i.emit(Unsqueeze((heads_axis,)), table) for table in tables)
    else:
        cosine, sine = looked_up(i, tables, positions, heads_axis)
    y = rotated(i, x, cosine, sine, bool(i.attr("interleaved", 0)))
    return i.emit(Reshape(shape), y) if flat else y


register_contrib(Gather, RotaryEmbedding=ranked(_import), MRotaryEmbedding=ranked(_import_multimodal))
Gather.onnx = {**Gather.onnx, ("RotaryEmbedding", 23): ranked(_import_onnx)}
