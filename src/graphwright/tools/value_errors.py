"""The error of each value that a compiled model writes to memory, against an evaluation in f64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import graphwright as gw
from graphwright.config import Options
from graphwright.frontends.onnx import load as load_onnx
from graphwright.passes.model_interface import keep_outputs
from graphwright.tools.check import all_feeds, distance, reference_outputs
from graphwright.tools.feeds import make_feeds


def value_errors(
    source: Path,
    values: Sequence[str],
    options: Options,
    *,
    shapes: Mapping[str, Any],
    constants: Mapping[str, Any],
    given: list[str] | None,
) -> dict[str, float]:
    """The relative error of each of ``values`` by name; names that the ONNX model ``source`` does not have
    are left out. The error is the root mean square of the differences, divided by that of the expected
    elements.

    The model is compiled again with these values as outputs, and run once, on the inputs ``given`` or on
    random ones. Raises EvaluationError if the model does not run in NumPy.
    """
    known = {value.name for node in load_onnx(str(source)).main for value in node.outputs}
    wanted = [name for name in dict.fromkeys(values) if name in known]
    if not wanted:
        return {}
    model = gw.compile(
        str(source), shapes=dict(shapes), constants=dict(constants), outputs=wanted, options=options
    )
    feeds = make_feeds(model.inputs, given, dict(shapes))
    reference = load_onnx(str(source), constants=constants)
    keep_outputs(reference, wanted)  # values in functions too, which are no outputs of the model's own nodes
    expected = reference_outputs(reference, all_feeds(reference, feeds, constants))
    results = model.run(feeds)
    return {name: distance(results[name], expected[name]).rms for name in wanted}
