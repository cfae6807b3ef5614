"""Rotary embeddings (Su et al. 2021) as ONNX and ONNX Runtime have them."""

from __future__ import annotations

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.symbols import floordiv
from graphwright.ops.contrib.common import contribute
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.common import rank_of
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.split import Split
from graphwright.ops.core.unsqueeze import Unsqueeze


def rotated(i: Importer, x: Value, cosine: Value, sine: Value, interleaved: bool) -> Value:
    """``x`` of four axes with pairs of features turned by angles of which cosine and sine broadcast to it.

    Pairs are neighbours if ``interleaved``, else of the first and the second half. Features for which there
    are no angles stay.
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
    turned: Value = i.emit(
        Concat(-1),
        i.emit(Sub(), i.emit(Mul(), real, cosine), i.emit(Mul(), imaginary, sine)),
        i.emit(Add(), i.emit(Mul(), real, sine), i.emit(Mul(), imaginary, cosine)),
    )
    if interleaved:
        turned = i.emit(Reshape((0, 0, 0, 2 * half)), turned)
    return i.emit(Concat(-1), turned, *rest) if rest else turned


def looked_up(i: Importer, tables: tuple[Value, Value], positions: Value, heads_axis: int) -> list[Value]:
    """Rows of both tables, at positions of each batch or of all, as [.., row, feature] with an axis of heads.

    ``heads_axis`` counts from the back.
    """
    return [i.emit(Unsqueeze((heads_axis,)), i.emit(Gather(), table, positions)) for table in tables]


def _import(i: Importer) -> Value:
    """Rows of [B, S, N * H] or of [B, N, S, H]; one position alone is that of the first row."""
    x, positions = i.input(0), i.input(1)
    tables = (i.input(2), i.input(3))
    flat, shape = rank_of(x) == 3, x.type.dims
    length = shape[1] if flat else shape[2]
    if flat:
        given = int(i.attr("num_heads", 0))
        heads = given or floordiv(shape[2], 2 * tables[0].type.dims[1])
        x = i.emit(Reshape((0, 0, heads, floordiv(shape[2], heads))), x)
    if rank_of(positions) == 1:
        positions = i.emit(Add(), i.emit(Range((0, length, 1))), positions)
    cosine, sine = looked_up(i, tables, positions, -2 if flat else -3)
    turned = rotated(i, x, cosine, sine, bool(i.attr("interleaved", 0)))
    return i.emit(Reshape(shape), turned) if flat else turned


def _import_onnx(i: Importer) -> Value:
    """Rows of [B, S, N * H] or of [B, N, S, H]; angles by position, or of each row of each batch."""
    x, tables, positions = i.input(0), (i.input(1), i.input(2)), i.optional(3)
    flat, shape = rank_of(x) == 3, x.type.dims
    if flat:
        heads = int(i.attr("num_heads", 0))
        if heads < 1:
            raise i.fail("an input of 3 axes needs num_heads", "export the model again")
        x = i.emit(Reshape((0, 0, heads, floordiv(shape[2], heads))), x)
    heads_axis = -2 if flat else -3
    if positions is None:
        cosine, sine = (i.emit(Unsqueeze((heads_axis,)), table) for table in tables)
    else:
        cosine, sine = looked_up(i, tables, positions, heads_axis)
    turned = rotated(i, x, cosine, sine, bool(i.attr("interleaved", 0)))
    return i.emit(Reshape(shape), turned) if flat else turned


contribute(Gather, RotaryEmbedding=ranked(_import))
Gather.onnx = {**Gather.onnx, ("RotaryEmbedding", 23): ranked(_import_onnx)}
