"""Makes a case smaller while it still shows its mismatch, and prints it as a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from graphwright.config import Options

from .attempt import Mismatch, attempt
from .blame import blamed
from .draft import Case
from .generate import generate
from .peers import session


def reproducer(seed: int, ops: Sequence[str], device: str) -> str:
    """A script that shows the first mismatch of a case, minimized until no single step makes it smaller."""
    options = Options.from_environment(device=device, threads=1)
    case = generate(seed, ops)
    found = attempt(case, options)
    if not found:
        return "# both engines agree"
    smaller, mismatch = minimized(*blamed(case, found[0], options), options)
    return script(smaller, mismatch)


def minimized(case: Case, mismatch: Mismatch, options: Options) -> tuple[Case, Mismatch]:
    """Applies steps that keep a mismatch of the kind, until there are none."""
    while True:
        for smaller in candidates(case, mismatch):
            found = [m for m in _attempted(smaller, options) if m.kind == mismatch.kind]
            if found:
                case, mismatch = smaller, found[0]
                break
        else:
            return case, mismatch


def _attempted(case: Case, options: Options) -> list[Mismatch]:
    try:
        return attempt(case, options)
    except Exception:  # the step broke the model
        return []


def candidates(case: Case, mismatch: Mismatch) -> Iterator[Case]:
    """Cases that are one step smaller."""
    if len(case.feeds) > 1 and mismatch.feed >= 0:
        yield replace(case, feeds=[case.feeds[mismatch.feed]])
        return
    graph = case.model.graph
    for output in graph.output if len(graph.output) > 1 else ():
        yield _with_outputs(case, [output.name])
    yield from _without_producers(case)
    for node in graph.node:
        for attribute in node.attribute:
            yield _without_attribute(case, node.name, attribute.name)
    yield from _static(case)


def _copy(case: Case) -> onnx.ModelProto:
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    return model


def _pruned(case: Case, model: onnx.ModelProto, feeds: list[dict[str, Any]]) -> Case:
    """Without nodes, weights and inputs that no output needs."""
    needed = {o.name for o in model.graph.output}
    kept = []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
            needed.update(n for a in node.attribute for inner in a.g.node for n in inner.input)
    for field, items in (
        ("node", kept[::-1]),
        *((f, _named(model, f, needed)) for f in ("input", "initializer")),
    ):
        copies = [type(item).FromString(item.SerializeToString()) for item in items]
        del getattr(model.graph, field)[:]
        getattr(model.graph, field).extend(copies)
    names = {i.name for i in model.graph.input}
    feeds = [{name: array for name, array in feed.items() if name in names} for feed in feeds]
    return replace(case, model=model, feeds=feeds, ops=tuple(n.op_type for n in model.graph.node))


def _named(model: onnx.ModelProto, field: str, names: set[str]) -> list[Any]:
    return [item for item in getattr(model.graph, field) if item.name in names]


def _with_outputs(case: Case, names: Sequence[str]) -> Case:
    model = _copy(case)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return _pruned(case, model, case.feeds)


def _without_producers(case: Case) -> Iterator[Case]:
    """An inner value becomes an input, with what ONNX Runtime gives for it."""
    outputs = {o.name for o in case.model.graph.output}
    for node in reversed(case.model.graph.node):
        for name in node.output:
            if not name or name in outputs:
                continue
            try:
                probe = _with_outputs(case, [name])
                values = [session(probe.model)(feed)[0] for feed in probe.feeds]
                kind = helper.np_dtype_to_tensor_dtype(values[0].dtype)
            except Exception:  # a sequence, or the peer refuses
                continue
            model = _copy(case)
            kept = [n for n in model.graph.node if name not in n.output]
            extra = helper.make_tensor_value_info(name, kind, [None] * values[0].ndim)
            for field, items in (("node", kept), ("input", [*model.graph.input, extra])):
                copies = [type(item).FromString(item.SerializeToString()) for item in items]
                del getattr(model.graph, field)[:]
                getattr(model.graph, field).extend(copies)
            feeds = [{**feed, name: value} for feed, value in zip(case.feeds, values, strict=True)]
            yield _pruned(case, model, feeds)


def _without_attribute(case: Case, node: str, attribute: str) -> Case:
    model = _copy(case)
    for item in model.graph.node:
        if item.name == node:
            kept = [
                onnx.AttributeProto.FromString(a.SerializeToString())
                for a in item.attribute
                if a.name != attribute
            ]
            del item.attribute[:]
            item.attribute.extend(kept)
    return replace(case, model=model)


def _static(case: Case) -> Iterator[Case]:
    """The model with all inputs declared with the fed shapes."""
    model = _copy(case)
    infos = [
        helper.make_tensor_value_info(i.name, i.type.tensor_type.elem_type, case.feeds[0][i.name].shape)
        for i in model.graph.input
    ]
    if len(case.feeds) > 1 or list(model.graph.input) == infos:
        return
    del model.graph.input[:]
    model.graph.input.extend(infos)
    yield replace(case, model=model)


def script(case: Case, mismatch: Mismatch) -> str:
    """Python that builds the model, runs both engines and prints both results."""
    graph = case.model.graph
    feed = case.feeds[max(mismatch.feed, 0)]
    lines = [f"# seed {mismatch.seed}: {mismatch.kind}: {mismatch.text}"]
    lines += [
        "import numpy as np, onnxruntime, graphwright as gw",
        "from onnx import helper, numpy_helper, ValueInfoProto",
    ]
    lines += ["nan, inf = np.nan, np.inf", "nodes = ["]
    for node in graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        text = "".join(f", {name}={value!r}" for name, value in attributes.items())
        domain = f", domain={node.domain!r}" if node.domain else ""
        lines.append(
            f"    helper.make_node({node.op_type!r}, {list(node.input)}, {list(node.output)}{domain}{text}),"
        )
    lines.append("]\ninputs = [")
    for info in graph.input:
        tensor = info.type.tensor_type
        shape = [d.dim_param or (d.dim_value if d.HasField("dim_value") else None) for d in tensor.shape.dim]
        given = shape if tensor.HasField("shape") else None
        lines.append(f"    helper.make_tensor_value_info({info.name!r}, {tensor.elem_type}, {given}),")
    lines.append("]\nweights = {")
    for weight in graph.initializer:
        lines.append(f"    {weight.name!r}: {_array(numpy_helper.to_array(weight))},")
    lines.append("}\nfeed = {")
    lines += [f"    {name!r}: {_array(array)}," for name, array in feed.items()]
    lines.append("}")
    outputs = ", ".join(f"ValueInfoProto(name={o.name!r})" for o in graph.output)
    imports = [(entry.domain, entry.version) for entry in case.model.opset_import]
    lines += [
        "constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]",
        f"graph = helper.make_graph(nodes, 'g', inputs, [{outputs}], constants)",
        f"imports = [helper.make_opsetid(*each) for each in {imports}]",
        f"model = helper.make_model(graph, opset_imports=imports, ir_version={case.model.ir_version})",
        "print('onnxruntime', onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed))",
        "print('graphwright', gw.compile(model.SerializeToString()).run(feed))",
    ]
    return "\n".join(lines)


def _array(array: np.ndarray[Any, Any]) -> str:
    return f"np.array({array.tolist()!r}, {array.dtype.name!r}).reshape({array.shape})"
