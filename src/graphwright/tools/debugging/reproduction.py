"""Writes a folder with the smallest model that still shows a fault, its feeds and a script."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

import graphwright as gw
from graphwright.config import Options
from graphwright.frontends.onnx import load as load_onnx
from graphwright.ir.op import Array
from graphwright.records import dataclass, fields
from graphwright.support.escaping import terminal
from graphwright.support.whole_folder import write_folder
from graphwright.tools.check import distance, reference_outputs
from graphwright.tools.debugging.program_values import outputs_of
from graphwright.tools.debugging.submodel import Candidate

MODEL: Final = "reduced.onnx"
FEEDS: Final = "feeds.npz"
EXPECTED: Final = "expected.npz"
SCRIPT: Final = "reproduce.py"
_TEXT: Final = '''"""{title}

Run it in this folder: python {script}. The exit status is 1 while an output leaves the tolerance.
"""

import sys

import numpy as np

import graphwright as gw
from graphwright.tools.debugging.program_values import outputs_of

TOLERANCE = {tolerance!r}
OPTIONS = {options!r}


def arrays(file):
    with np.load(file) as held:
        return [held[name] for name in held.files]


model = gw.compile({model!r}, options=OPTIONS)
feeds = dict(zip((spec.name for spec in model.inputs), arrays({feeds!r}), strict=True))
results = outputs_of(model, feeds)  # memory that no task writes holds NaN
worst = 0.0
for (name, result), expected in zip(results.items(), arrays({expected!r}), strict=True):
    wide = expected.astype(np.float64)
    scale = np.abs(wide[np.isfinite(wide)]).max(initial=0.0) or 1.0
    same = (result == wide) | (np.isnan(result.astype(np.float64)) & np.isnan(wide))
    apart = np.where(same, 0.0, np.abs(result.astype(np.float64) - wide)) / scale
    error = float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))
    print(f"{{name}}: off by {{error:.2e}} of its greatest magnitude")
    worst = max(worst, error)
sys.exit(worst > TOLERANCE)
'''


@dataclass(frozen=True)
class Reproduction:
    """A part of a model that shows a fault, and its expected outputs."""

    part: Candidate
    expected: Mapping[str, Array]


def shows(part: Candidate, options: Options, limit: float) -> Reproduction | None:
    """``part`` with its expected outputs, if the outputs of graphwright differ from these; None otherwise, or
    if the part cannot be compiled, fed or evaluated.
    """
    try:
        model = gw.compile(part.proto, options=options)
        feeds = {spec.name: part.feeds[spec.name] for spec in model.inputs}
        expected = reference_outputs(load_onnx(part.proto), feeds)
        results = outputs_of(model, feeds)
    except Exception:  # a crash of the compiler is another fault
        return None
    apart = max(distance(results[name], expected[name]).most for name in results)
    return None if apart <= limit else Reproduction(part, expected)


def write(folder: Path, found: Reproduction, title: str, options: Options, limit: float) -> None:
    """Writes ``found`` to the new ``folder`` atomically. Raises OSError."""
    names = [info.name for info in found.part.proto.graph.input]
    given = {name: found.part.feeds[name] for name in names}
    script = _TEXT.format(
        title=terminal(title).replace("\\", "/").replace('"', "'"),
        script=SCRIPT,
        tolerance=limit,
        options=_changed(options),
        model=MODEL,
        feeds=FEEDS,
        expected=EXPECTED,
    )
    contents = {
        MODEL: found.part.proto.SerializeToString(),
        FEEDS: _npz(given),
        EXPECTED: _npz(found.expected),
        SCRIPT: script,
    }
    write_folder(folder, contents)


def _changed(options: Options) -> dict[str, object]:
    """The options that affect the code and differ from the defaults, as source for a script."""
    values = {o.name: getattr(options, o.name) for o in fields(Options) if o.metadata["in_key"]}
    default = Options()
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, str | int) and value != getattr(default, name)
    }


def _npz(arrays: Mapping[str, Array]) -> bytes:
    """The bytes of an .npz file with ``arrays``, named by their numbers."""
    data = io.BytesIO()
    np.savez(data, *arrays.values())
    return data.getvalue()
