"""One case through both engines, and what differs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import numpy_helper

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import GraphwrightError

from . import stochastic
from .compare import difference
from .draft import Case
from .makers import listed
from .peers import Peer, Refused, line, plain

SINGLE = frozenset(
    listed("HardSigmoid HardSwish LeakyRelu Selu Elu Shrink ThresholdedRelu Celu Gelu BatchNormalization")
)
"""Ops whose attributes, or peers, are f32 where their operands are f64."""


@dataclass(frozen=True)
class Mismatch:
    """The difference between the engines. ``kind`` is values, shape, dtype, refusal, acceptance, exception or
    unjudged.
    """

    seed: int
    kind: str
    peer: str
    ops: tuple[str, ...]
    text: str
    feed: int = -1
    op: str = ""
    """The op at fault, where the text or the output names its node."""
    strange: bool = False
    """Whether elements are not finite, or so large that sums overflow."""
    agreed: bool = False
    """Whether onnx's reference evaluator gives what graphwright gives, and not what ONNX Runtime gives."""
    attributes: str = ""
    """The attributes of the node at fault, if it is known, as ``name=value``, separated by blanks."""
    explained: str = ""
    """The reason why it is no fault, if this was found without the table of known differences."""

    @property
    def group(self) -> str:
        """A key that mismatches with the same likely cause share."""
        text = re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?|'[^']*'", "#", self.text)
        return f"{self.kind} | {self.peer} | {self.op or '+'.join(sorted(set(self.ops)))} | {text[:110]}"


def attempt(
    case: Case, options: Options, enter: Callable[[str], None] = lambda stage: None
) -> list[Mismatch]:
    """The differences; none if both agree or refuse. ``enter`` is called with the next engine."""
    enter("peer")
    peer = Peer(case.model)
    enter("graphwright")
    ours, fault = None, None
    try:
        ours = gw.compile(case.model.SerializeToString(), options=options)
    except GraphwrightError as error:
        fault = line(error)
    except Exception as error:
        return [found(case, "exception", "ort", f"compile: {type(error).__name__}: {error}")]
    if peer.refused and fault:
        return []
    mismatches = []
    for number, feed in enumerate(case.feeds):
        mismatch = _feed(case, number, feed, ours, fault, peer, enter)
        if mismatch is not None:
            mismatches.append(mismatch)
            if fault:
                break
    return mismatches


def found(case: Case, kind: str, peer: str, text: str, feed: int = -1, output: str = "") -> Mismatch:
    """A mismatch, with the op that made ``output`` or that the text names."""
    named = re.search(r"\bnode (n\d+)|Name:'(n\d+)|: (n\d+): |[(\"](n\d+)[\")]", text)
    node = next((g for g in named.groups() if g), "") if named else ""
    op = next((n.op_type for n in case.model.graph.node if output in n.output or n.name == node), "")
    return Mismatch(case.seed, kind, peer, case.ops, text, feed, op, is_strange(case, feed))


def is_strange(case: Case, feed: int) -> bool:
    """Whether NaN, infinity or numbers beyond 10^4 are fed, or stand in the model."""
    fed = list(case.feeds[feed].values()) if feed >= 0 else []
    arrays = fed + [numpy_helper.to_array(weight) for weight in case.model.graph.initializer]
    return any(_strange(array) for array in arrays)


def _strange(array: Any) -> bool:
    if isinstance(array, list):
        return any(map(_strange, array))
    if array.dtype.kind not in "iuf" or not array.size:
        return False
    numbers = array.astype(np.float64)
    return bool(not np.isfinite(numbers).all() or np.abs(numbers).max() > 1e4)


def _feed(
    case: Case,
    number: int,
    feed: Mapping[str, Any],
    ours: Any,
    fault: str | None,
    peer: Peer,
    enter: Callable[[str], None],
) -> Mismatch | None:
    def mismatch(kind: str, text: str) -> Mismatch:
        return found(case, kind, "ort", text, number)

    want, refused, unjudged = None, "", False
    enter("peer")
    try:
        want, refused = peer.run(feed)
    except Refused as error:
        refused, unjudged = str(error), error.unjudged
    enter("graphwright")
    if fault:
        return None if refused else mismatch("refusal", f"compile: {fault}")
    try:
        got = list(ours.run(_strided(feed) if case.seed % 4 == 0 else dict(feed)).values())
    except GraphwrightError as error:
        return None if refused else mismatch("refusal", f"run: {line(error)}")
    except Exception as error:
        return mismatch("exception", f"run: {type(error).__name__}: {error}")
    if want is None:
        return mismatch("unjudged" if unjudged else "acceptance", f"feed: {refused}")
    text, output = _random(case, got, want)
    if not text:
        text, output = compared(case.ops, got, want, peer.rough)
    if not text:
        return None
    name = case.model.graph.output[output].name
    return found(case, text.split()[0].strip(":"), "ort", text, number, name)


def _strided(feed: Mapping[str, Any]) -> dict[str, Any]:
    """The same arrays with gaps between elements, reversed along the first axis."""
    return {name: _apart(array) if array.ndim else array for name, array in feed.items()}


def _apart(array: Any) -> Any:
    room = np.empty((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    view = room[..., ::2][::-1]
    view[...] = array
    return view


def _random(case: Case, got: list[Any], want: list[Any]) -> tuple[str, int]:
    """The fault of random numbers; valid ones are copied to ``want``."""
    producers = {name: node.op_type for node in case.model.graph.node for name in node.output}
    for number, output in enumerate(case.model.graph.output):
        op = producers.get(output.name, "")
        if op in stochastic.RANGES:
            text = stochastic.difference(op, plain(got[number]), want[number])
            if text:
                return text, number
            want[number] = plain(got[number])
    return "", -1


def compared(
    ops: Sequence[str], got: Sequence[Any], want: Sequence[Any], rough: bool = False, epsilon: float = 0.0
) -> tuple[str, int]:
    """The fault of the first output that differs, and its number; an empty text if there is none."""
    for number, (value, wanted) in enumerate(zip(got, want, strict=True)):
        text = difference(ops, plain(value), wanted, rough or not SINGLE.isdisjoint(ops), epsilon)
        if text:
            return text, number
    return "", -1
