"""Makers of optionals, and of what maps over sequences."""

from __future__ import annotations

from onnx import helper

from .control import body
from .draft import Draft
from .makers import SIGNED, makes


@makes("Optional")
def optional(g: Draft, op: str) -> None:
    x = g.operand(SIGNED)
    if g.opset >= 18 and g.chance(0.3):  # it may be a tensor as well
        g.node("OptionalHasElement", [x])
        g.node("OptionalGetElement", [x])
        return
    (made,) = g.node(op, [x])
    g.node("OptionalHasElement", [made])
    g.node("OptionalGetElement", [made])


@makes("OptionalHasElement")
def no_element(g: Draft, op: str) -> None:
    if g.opset >= 18:
        g.node(op, [])


@makes("SequenceMap")
def sequence_map(g: Draft, op: str) -> None:
    x = g.operand(SIGNED, (1, 2), known=True)
    others = [g.fresh(x.dtype, [g.twin(d) for d in x.dims or ()]) for _ in range(g.pick(0, 1, 2))]
    (made,) = g.node("SequenceConstruct", [x, *others])
    inner = [helper.make_node(g.pick("Neg", "Abs"), ["s"], ["t"])]
    extra = g.fresh(x.dtype, [g.twin(d) for d in x.dims or ()]) if g.chance(0.5) else None
    if extra is not None:
        inner.append(helper.make_node("Add", ["t", "e"], ["u"]))
    kind = helper.np_dtype_to_tensor_dtype(helper.np.dtype(x.dtype))
    graph = body("body", inner, ["s", "e"] if extra else ["s"], ["u" if extra else "t"])
    for info in (*graph.input, *graph.output):
        info.CopyFrom(helper.make_tensor_value_info(info.name, kind, [None] * x.rank))
    (mapped,) = g.node(op, [made, *([extra] if extra else [])], body=graph)
    g.node("ConcatFromSequence", [mapped], axis=0, new_axis=g.pick(0, 1))


@makes("SequenceEmpty")
def sequence_empty(g: Draft, op: str) -> None:
    x = g.operand(("float32",), (1, 2))
    (made,) = g.node(op, [])
    (made,) = g.node("SequenceInsert", [made, x])
    g.node("SequenceLength", [made])
    g.node("ConcatFromSequence", [made], axis=g.axis(x.rank), new_axis=g.pick(0, 1))
