"""One case through both engines, and what differs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import numpy_helper

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import GraphwrightError

from .compare import difference
from .draft import Case
from .makers import listed
from .peers import Run, Unsupported, reference, session

SINGLE = frozenset(
    listed("HardSigmoid HardSwish LeakyRelu Selu Elu Shrink ThresholdedRelu Celu Gelu BatchNormalization")
)
"""Ops whose attributes, or peers, are f32 where their operands are f64."""


@dataclass(frozen=True)
class Mismatch:
    """How the engines differ. ``kind`` is values, shape, dtype, refusal, acceptance or exception."""

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

    @property
    def group(self) -> str:
        """The same for mismatches that are likely to have one cause."""
        text = re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?|'[^']*'", "#", self.text)
        return f"{self.kind} | {self.peer} | {self.op or '+'.join(sorted(set(self.ops)))} | {text[:110]}"


def attempt(
    case: Case, options: Options, enter: Callable[[str], None] = lambda stage: None
) -> list[Mismatch]:
    """What differs: nothing where both agree or refuse. ``enter`` hears which engine is next."""
    enter("peer")
    peer, refused, theirs = "ort", "", None
    try:
        theirs = session(case.model)
    except Unsupported:
        peer, theirs = "onnx", _reference(case)
    except Exception as error:
        refused = _line(error)
    enter("graphwright")
    ours, fault = None, None
    try:
        ours = gw.compile(case.model.SerializeToString(), options=options)
    except GraphwrightError as error:
        fault = _line(error)
    except Exception as error:
        return [found(case, "exception", peer, f"compile: {type(error).__name__}: {error}")]
    if refused:
        return [] if fault else _ran_alone(case, ours, refused)
    if theirs is None:
        return []
    mismatches = []
    for number, feed in enumerate(case.feeds):
        mismatch = _feed(case, number, feed, ours, fault, theirs, peer, enter)
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
    numbers = [array.astype(np.float64) for array in arrays if array.dtype.kind in "iuf" and array.size]
    return any(not np.isfinite(array).all() or np.abs(array).max() > 1e4 for array in numbers)


def _reference(case: Case) -> Run | None:
    try:
        return reference(case.model)
    except Exception:  # it has no such op
        return None


def _ran_alone(case: Case, ours: Any, refused: str) -> list[Mismatch]:
    """ONNX Runtime refused the model: an error for each feed is expected."""
    for number, feed in enumerate(case.feeds):
        try:
            ours.run(dict(feed))
        except GraphwrightError:
            continue
        except Exception as error:
            return [found(case, "exception", "ort", f"run: {type(error).__name__}: {error}", number)]
        return [found(case, "acceptance", "ort", f"model: {refused}", number)]
    return []


def _feed(
    case: Case,
    number: int,
    feed: Mapping[str, Any],
    ours: Any,
    fault: str | None,
    theirs: Run,
    peer: str,
    enter: Callable[[str], None],
) -> Mismatch | None:
    def mismatch(kind: str, text: str) -> Mismatch:
        return found(case, kind, peer, text, number)

    want, refused = None, ""
    enter("peer")
    try:
        want = theirs(feed)
    except Exception as error:
        refused = _line(error)
    enter("graphwright")
    if fault:
        return None if refused else mismatch("refusal", f"compile: {fault}")
    try:
        got = list(ours.run(dict(feed)).values())
    except GraphwrightError as error:
        return None if refused else mismatch("refusal", f"run: {_line(error)}")
    except Exception as error:
        return mismatch("exception", f"run: {type(error).__name__}: {error}")
    if want is None:
        return mismatch("acceptance", f"feed: {refused}") if peer == "ort" else None
    for output, value, wanted in zip(case.model.graph.output, got, want, strict=True):
        text = difference(case.ops, _plain(value), wanted, peer == "onnx" or not SINGLE.isdisjoint(case.ops))
        if text:
            return found(case, text.split()[0].strip(":"), peer, text, number, output.name)
    return None


def _plain(value: Any) -> Any:
    return value if isinstance(value, list) or value is None else np.asarray(value)


def _line(error: Exception) -> str:
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return text.replace("[ONNXRuntimeError] : ", "").replace(
        "Non-zero status code returned while running ", ""
    )[:400]
