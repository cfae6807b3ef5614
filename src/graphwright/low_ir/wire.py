"""The wire format of programs: flat little-endian int64 words, which ``runtime/native/program.c`` decodes.

Layout: magic, version, counts (inputs, outputs, instructions, buffers, tasks, blocks, kernels, hosts), then
these tables in this order. A list is encoded as its length and its items; names are left out. The words are
made from the plain lists in a package (:func:`graphwright.low_ir.serialize.to_plain`), so that loading a
package does not import the rest of the low IR.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final

from graphwright.ir.dtypes import DTYPES

MAGIC: Final = 0x31475250574C47
VERSION: Final = 2
SECTIONS: Final = ("inputs", "outputs", "shape", "buffers", "tasks", "blocks", "kernels", "hosts")
LAUNCH: Final = 0
"""The kind of tasks that launch a kernel."""
_NULL, _FUNCTION = -1, -2


def words_of(plain: dict[str, Any]) -> bytes:
    """Encodes a program given as plain lists. Raises OverflowError for a number beyond int64, and KeyError,
    TypeError or ValueError for malformed lists; the decoder checks everything else.
    """
    words = array("q", (MAGIC, VERSION))
    words.extend(len(plain[section]) for section in SECTIONS)
    for _, dtype, dims in (*plain["inputs"], *plain["outputs"]):
        words.extend((DTYPES[dtype].bytes, len(dims), *dims))
    for code, a, b, _ in plain["shape"]:
        words.extend((code, a, b))
    for storage, size, index, conflicts, _ in plain["buffers"]:
        words.extend((storage, size, index, len(conflicts), *conflicts))
    for task in plain["tasks"]:
        words.extend(_task(task))
    for first, count in plain["blocks"]:
        words.extend((first, count))
    for _, inputs, outputs in plain["hosts"]:
        words.extend((len(inputs) + len(outputs), len(inputs)))
        for operand in (*inputs, *outputs):
            words.extend(_host_operand(operand))
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


def _task(task: Sequence[Any]) -> list[int]:
    kind, operands, writes, kernel, args, grid, scratch, work, blocks, after, _, _ = task
    words = [kind, kernel, grid, scratch, work, len(operands)]
    for operand in operands:
        words += _operand(operand)
    for items in (writes, args, blocks, after):
        words.append(len(items))
        words += items
    return words


def _operand(operand: Sequence[int] | None) -> Sequence[int]:
    if operand is None:
        return _NULL, 0
    if len(operand) == 1:
        return _FUNCTION, operand[0]
    buffer, offset = operand
    return buffer, offset


def _host_operand(operand: tuple[str, Sequence[int]] | None) -> Iterable[int]:
    if operand is None:
        return (0, 0)
    dtype, dims = operand
    return (DTYPES[dtype].bytes, len(dims), *dims)
