"""Finds the nodes that make results of a whole graph differ: each runs alone, on the peer's operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import GraphwrightError

from .attempt import Mismatch, compared, found, plain
from .compare import EPSILON
from .draft import Case
from .known import known
from .peers import Node, Peer, Refused, agrees, alone, constants, line
from .stochastic import RANGES

ROUNDED = "roundings that a later node amplifies: on the same operands, each node agrees"
NEARER = 16
RESULTS = ("values", "shape", "dtype")


def blamed(case: Case, mismatch: Mismatch, options: Options) -> tuple[Case, Mismatch]:
    """The node at fault as a case of its own; the whole case if no node alone shows the fault.

    A mismatch is explained if every node that differs is a known difference, or if graphwright's graph gives
    the same as its nodes one by one.
    """
    if mismatch.kind not in RESULTS:
        return case, mismatch
    feed, peer = case.feeds[mismatch.feed], Peer(case.model)
    try:
        values = peer.values(feed)
    except Refused:  # ONNX Runtime optimizes away what it cannot run
        return case, mismatch
    differing = [pair for node in peer.nodes if (pair := _node(case, node, values, options)) is not None]
    for single, found_there in differing:
        if known(found_there) is None:
            return single, found_there
    text = _whole(case, feed, options)
    if text:
        return case, replace(mismatch, text=f"{mismatch.text}; but one by one, {text}")
    if not differing and len(peer.nodes) == 1:
        return case, mismatch
    reasons = [reason.reason for _, there in differing if (reason := known(there)) is not None]
    return case, replace(mismatch, explained=(reasons or [ROUNDED])[0])


def _node(
    case: Case, node: Node, values: Mapping[str, Any], options: Options
) -> tuple[Case, Mismatch] | None:
    """A node on the peer's operands, where it gives something else."""
    if node.proto.op_type in RANGES:  # random numbers: attempt has looked at them
        return None
    model, feed = alone(case.model, node.proto, values)
    single = Case(case.seed, model, [dict(feed)], (node.proto.op_type,))
    want = [values[output.name] for output in model.graph.output]
    try:
        got = _run(model, feed, options)
    except GraphwrightError as error:
        if node.refused or node.proto.op_type.startswith("Optional"):  # alone, its operand is no optional
            return None
        return single, found(single, "refusal", node.judge, f"alone: {line(error)}", 0)
    text, output = compared(single.ops, got, want, node.judge != "ort")
    if not text:
        return None
    if node.refused:  # onnx's evaluator is no help: it does not check
        return single, found(single, "acceptance", "ort", f"alone: {node.refused}", 0)
    name = model.graph.output[output].name
    there = found(single, text.split()[0].strip(":"), node.judge, text, 0, name)
    agreed = node.judge != "onnx" and agrees(
        model,
        feed,
        lambda theirs: (
            not compared(single.ops, got, theirs, rough=True)[0]
            or nearer(got[output], want[output], theirs[output])
        ),
    )
    return single, replace(there, agreed=agreed, attributes=_attributes(case.model, node.proto))


def nearer(got: Any, want: Any, third: Any) -> bool:
    """Whether ``got`` is far nearer to a third opinion than ``want`` is: all of them are rounded."""
    arrays = [np.asarray(each) for each in (got, want, third)]
    if any(a.dtype.kind != "f" or a.shape != arrays[0].shape for a in arrays):
        return False
    ours, theirs, judge = (a.astype(np.float64) for a in arrays)
    finite = np.isfinite(ours) & np.isfinite(theirs) & np.isfinite(judge)
    return bool(finite.all() and NEARER * np.abs(ours - judge).max() < np.abs(theirs - judge).max())


def _attributes(model: onnx.ModelProto, node: onnx.NodeProto) -> str:
    """The opset, and attributes in the order of their names."""
    plainly = sorted((a for a in node.attribute if a.type not in (a.GRAPH, a.TENSOR)), key=lambda a: a.name)
    given = (f"{a.name}={helper.get_attribute_value(a)!r}" for a in plainly)
    return " ".join((f"opset={model.opset_import[0].version}", *given))


def _whole(case: Case, feed: Mapping[str, Any], options: Options) -> str:
    """The difference between the results of graphwright's graph and those of its nodes, run one by one."""
    values = {**constants(case.model), **feed}
    for node in case.model.graph.node:
        model, operands = alone(case.model, node, values)
        try:
            results = _run(model, operands, options)
        except GraphwrightError as error:
            return f"{node.name}: {line(error)}"
        values.update(zip((output.name for output in model.graph.output), results, strict=True))
    whole = _run(case.model, feed, options)
    random = {name for node in case.model.graph.node if node.op_type in RANGES for name in node.output}
    names = [output.name for output in case.model.graph.output]
    pairs = [(w, values[name]) for w, name in zip(whole, names, strict=True) if name not in random]
    epsilon = _narrowest(case.model)
    return compared(case.ops, [w for w, _ in pairs], [one for _, one in pairs], epsilon=epsilon)[0]


def _narrowest(model: onnx.ModelProto) -> float:
    """The epsilon of the narrowest floats of a graph: fused ops keep f32 where single ones round to them."""
    kinds = {info.type.tensor_type.elem_type for info in model.graph.input}
    kinds |= {weight.data_type for weight in model.graph.initializer}
    kinds |= {a.i for node in model.graph.node for a in node.attribute if a.name in ("to", "dtype")}
    names = (helper.tensor_dtype_to_np_dtype(kind).name for kind in kinds if kind)
    return max((EPSILON[name] for name in names if name in EPSILON), default=0.0)


def _run(model: onnx.ModelProto, feed: Mapping[str, Any], options: Options) -> list[Any]:
    compiled = gw.compile(model.SerializeToString(), options=options)
    return [plain(value) for value in compiled.run(dict(feed)).values()]
