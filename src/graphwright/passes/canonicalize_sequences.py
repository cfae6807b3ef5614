"""No sequence where it is built and taken apart at places that are known: its tensors are read themselves.

Whatever builds a sequence becomes a SequenceConstruct, and whatever reads one reads what that was made of.
"""

from __future__ import annotations

from collections.abc import Callable

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Match, Opt, P, Rest, Rule, Var
from graphwright.ir.op import Fact, Inference
from graphwright.ir.types import BOOL
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.split import Split
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.sequence.concat_from_sequence import ConcatFromSequence
from graphwright.ops.sequence.containers import counted
from graphwright.ops.sequence.optional import Optional
from graphwright.ops.sequence.optional_get_element import OptionalGetElement
from graphwright.ops.sequence.optional_has_element import OptionalHasElement
from graphwright.ops.sequence.sequence_at import SequenceAt
from graphwright.ops.sequence.sequence_construct import SequenceConstruct
from graphwright.ops.sequence.sequence_empty import SequenceEmpty
from graphwright.ops.sequence.sequence_erase import SequenceErase
from graphwright.ops.sequence.sequence_insert import SequenceInsert
from graphwright.ops.sequence.split_to_sequence import SplitToSequence
from graphwright.passes.base import RulePass

MOST_PIECES = 64
"""A split into more pieces stays one op."""

X, POSITION, SPLIT = Var("x"), Opt("position"), Opt("split")
ITEMS = Rest("items")
LIST = P((SequenceConstruct, SequenceEmpty), ITEMS)


def _items(m: Match) -> list[Value]:
    return [value for value in m.rest(ITEMS) if value is not None]


def _place(m: Match, beyond: int = 0) -> int | str:
    """The position counted from the front, or why it cannot be told; ``beyond`` is 1 where the end is one."""
    count = len(_items(m))
    last = count - 1 + beyond
    if m.optional(POSITION) is None:
        return last
    known = m.constant(POSITION)
    if known is None:
        return "the position is not known"
    try:
        return counted(int(known.reshape(())), count, last)
    except IndexError as error:
        return str(error)


def _known_place(beyond: int = 0) -> Callable[[Match], str | None]:
    def check(m: Match) -> str | None:
        at = _place(m, beyond)
        if isinstance(at, int) and at < 0:
            return "the sequence is empty"
        return at if isinstance(at, str) else None

    return check


def _at(m: Match, beyond: int = 0) -> int:
    at = _place(m, beyond)
    assert isinstance(at, int)
    return at


def _always(m: Match) -> None:
    return None


def _inserted(b: Builder, m: Match) -> Value:
    items, at = _items(m), _at(m, beyond=1)
    return _list(b, m, [*items[:at], m[X], *items[at:]])


def _erased(b: Builder, m: Match) -> Value:
    items, at = _items(m), _at(m)
    return _list(b, m, [*items[:at], *items[at + 1 :]])


def _list(b: Builder, m: Match, items: list[Value]) -> Value:
    element = m.root.output.type.dtype.element
    assert element is not None
    made: Value = b(SequenceConstruct(), *items) if items else b(SequenceEmpty(element))
    return made


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
    made: Value = items[0] if len(items) == 1 else b(Concat(op.axis), *items)
    return made


def _pieces(m: Match) -> tuple[tuple[int, ...], int] | str:
    """The sizes of the pieces, and their axis; or why they are not known."""
    op, x = m.op(SPLIT_UP), m[X]
    if x.type.shape is None:
        return "the rank is not known"
    builder = Builder(m.module, m.root.graph) if m.root.graph is not None else None
    assert builder is not None
    split = m.optional(SPLIT)
    fact = None if split is None else builder.fact(split) or Fact(split.type)
    axis = op.axis % len(x.type.shape)
    held = op.pieces(Inference(m.module.symbols, m.root.place), Fact(x.type), fact)
    if held is None:
        return "the sizes of the pieces are not known"
    if not 0 < len(held) <= MOST_PIECES:
        return f"{len(held)} pieces"
    if op.drop and split is None:
        return (1,) * len(held), axis
    return tuple(size for size in (piece.dims[axis] for piece in held) if isinstance(size, int)), axis


def _splits(m: Match) -> str | None:
    found = _pieces(m)
    return found if isinstance(found, str) else None


def _split(b: Builder, m: Match) -> Value:
    found = _pieces(m)
    assert not isinstance(found, str)
    sizes, axis = found
    made = b(Split(len(sizes), axis, sizes), m[X])
    parts = list(made) if isinstance(made, tuple) else [made]
    if m.op(SPLIT_UP).drop and m.optional(SPLIT) is None:
        parts = [b(Squeeze((axis,)), part) for part in parts]
    return _list(b, m, parts)


def _whole(m: Match) -> str | None:
    """Whether a Concat joins just the parts of one Split again."""
    if m.node(PARTED).outputs != m.root.inputs:
        return "its operands are not the parts of one Split in their order"
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
        Rule(
            "a sequence's tensor",
            P(SequenceAt, LIST, POSITION),
            _known_place(),
            lambda b, m: _items(m)[_at(m)],
        ),
        Rule("a sequence with one more", P(SequenceInsert, LIST, X, POSITION), _known_place(1), _inserted),
        Rule("a sequence with one less", P(SequenceErase, LIST, POSITION), _known_place(), _erased),
        Rule("a sequence joined", JOIN, _joinable, _joined),
        Rule("a split of known sizes", SPLIT_UP, _splits, _split),
        Rule("a split joined", CONCAT, _whole, lambda b, m: m[X]),
        Rule(
            "what an optional holds", P(OptionalGetElement, P(Optional, HELD)), _filled, lambda b, m: m[HELD]
        ),
        Rule("whether an optional holds", P(OptionalHasElement, P(Optional, HELD)), _always, _has),
    ),
)
"""The pass."""
