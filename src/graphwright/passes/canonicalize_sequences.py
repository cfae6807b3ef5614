"""Removes sequences that are built and taken apart at known positions: readers read the
tensors directly.

Ops that build a sequence become a SequenceConstruct, and ops that read one read its operands.
"""

from __future__ import annotations

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Match, Opt, P, Rest, Rule, Var, always
from graphwright.ir.op import Fact, Inference
from graphwright.ir.types import BOOL
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.split import Split
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.sequence.concat_from_sequence import ConcatFromSequence
from graphwright.ops.sequence.containers import non_negative
from graphwright.ops.sequence.optional import Optional
from graphwright.ops.sequence.optional_get_element import OptionalGetElement
from graphwright.ops.sequence.optional_has_element import OptionalHasElement
from graphwright.ops.sequence.sequence_at import SequenceAt
from graphwright.ops.sequence.sequence_construct import SequenceConstruct
from graphwright.ops.sequence.sequence_empty import SequenceEmpty
from graphwright.ops.sequence.sequence_erase import SequenceErase
from graphwright.ops.sequence.sequence_insert import SequenceInsert
from graphwright.ops.sequence.split_to_sequence import SplitToSequence
from graphwright.passes.rule_pass import RulePass

MOST_PIECES = 64
"""The most pieces that a SplitToSequence is expanded to."""

X, POSITION, SPLIT = Var("x"), Opt("position"), Opt("split")
ITEMS = Rest("items")
LIST = P((SequenceConstruct, SequenceEmpty), ITEMS)


def _items(m: Match) -> list[Value]:
    return [value for value in m.rest(ITEMS) if value is not None]


def _position(m: Match, beyond: int = 0) -> int | str:
    """The position, counted from the front; or the reason why it is unknown or out of range. ``beyond`` is 1
    if the end of the sequence is a valid position too, as for an insertion.
    """
    count = len(_items(m))
    last = count - 1 + beyond
    if m.optional(POSITION) is None:
        return last if last >= 0 else "the sequence is empty"
    known = m.constant(POSITION)
    if known is None:
        return "the position is not known"
    try:
        return non_negative(int(known.reshape(())), count, last)
    except IndexError as error:
        return str(error)


def _element(_b: Builder, m: Match) -> Value | str:
    at = _position(m)
    return at if isinstance(at, str) else _items(m)[at]


def _inserted(b: Builder, m: Match) -> Value | str:
    items, at = _items(m), _position(m, beyond=1)
    return at if isinstance(at, str) else _list(b, m, [*items[:at], m[X], *items[at:]])


def _erased(b: Builder, m: Match) -> Value | str:
    items, at = _items(m), _position(m)
    return at if isinstance(at, str) else _list(b, m, [*items[:at], *items[at + 1 :]])


def _list(b: Builder, m: Match, items: list[Value]) -> Value:
    element = m.root.output.type.dtype.element
    assert element is not None
    sequence: Value = b(SequenceConstruct(), *items) if items else b(SequenceEmpty(element))
    return sequence


def _joinable(m: Match) -> str | None:
    items = _items(m)
    if not items:
        return "the sequence is empty"
    return "a rank is not known" if any(item.type.shape is None for item in items) else None


def _joined(b: Builder, m: Match) -> Value:
    op, items = m.op(JOIN), _items(m)
    if op.new:
        rank = len(items[0].type.dims) + 1
        items = [b(Unsqueeze((op.axis % rank,)), item) for item in items]
    joined: Value = items[0] if len(items) == 1 else b(Concat(op.axis), *items)
    return joined


def _pieces(m: Match) -> tuple[tuple[int, ...], int] | str:
    """The sizes of the pieces and their axis, or why they are not known."""
    op, x = m.op(SPLIT_UP), m[X]
    if x.type.shape is None:
        return "the rank is not known"
    assert m.root.graph is not None
    split = m.optional(SPLIT)
    fact = None if split is None else Builder(m.module, m.root.graph).fact(split) or Fact(split.type)
    axis = op.axis % len(x.type.shape)
    held = op.pieces(Inference(m.module.symbols, m.root.location), Fact(x.type), fact)
    if held is None:
        return "the sizes of the pieces are not known"
    if not 0 < len(held) <= MOST_PIECES:
        return f"it has {len(held)} pieces, not 1 to {MOST_PIECES}"
    if op.drop and split is None:
        return (1,) * len(held), axis
    return tuple(size for size in (piece.dims[axis] for piece in held) if isinstance(size, int)), axis


def _split(b: Builder, m: Match) -> Value | str:
    found = _pieces(m)
    if isinstance(found, str):
        return found
    sizes, axis = found
    results = b(Split(len(sizes), axis, sizes), m[X])
    parts = list(results) if isinstance(results, tuple) else [results]
    if m.op(SPLIT_UP).drop and m.optional(SPLIT) is None:
        parts = [b(Squeeze((axis,)), part) for part in parts]
    return _list(b, m, parts)


def _check_parts(m: Match) -> str | None:
    """None if a Concat joins all parts of one Split in order."""
    if m.node(PARTED).outputs != m.root.inputs:
        return "its operands are not all parts of one Split in order"
    rank = m[X].type.rank
    if rank is None or m.op(PARTED).axis % rank != m.op(CONCAT).axis % rank:
        return "the parts were split along another axis"
    return None


def _filled(m: Match) -> str | None:
    return "the optional is empty" if m.optional(HELD) is None else None


def _has(b: Builder, m: Match) -> Value:
    return b.const(m.optional(HELD) is not None, BOOL)


HELD = Opt("held")
PARTED = P(Split, X, Rest())
CONCAT = P(Concat, PARTED, Rest())
JOIN = P(ConcatFromSequence, LIST)
SPLIT_UP = P(SplitToSequence, X, SPLIT)

CANONICALIZE_SEQUENCES = RulePass(
    "canonicalize_sequences",
    (
        Rule("SequenceAt of a known sequence", P(SequenceAt, LIST, POSITION), always, _element),
        Rule("SequenceInsert into a known sequence", P(SequenceInsert, LIST, X, POSITION), always, _inserted),
        Rule("SequenceErase from a known sequence", P(SequenceErase, LIST, POSITION), always, _erased),
        Rule("ConcatFromSequence of a known sequence", JOIN, _joinable, _joined),
        Rule("SplitToSequence of known sizes", SPLIT_UP, always, _split),
        Rule("Concat of Split", CONCAT, _check_parts, lambda b, m: m[X]),
        Rule(
            "OptionalGetElement of Optional",
            P(OptionalGetElement, P(Optional, HELD)),
            _filled,
            lambda b, m: m[HELD],
        ),
        Rule("OptionalHasElement of Optional", P(OptionalHasElement, P(Optional, HELD)), always, _has),
    ),
)
"""The pass."""
