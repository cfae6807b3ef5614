"""The onnx package's light models with real weights: as shipped, every weight is one repeated constant.

Weights become He-normal (He et al., "Delving Deep into Rectifiers", 2015), norms get random statistics, and
the last layer is scaled so that its outputs have a standard deviation of 1, whatever the depth of the model.
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
POSITIVE = {("BatchNormalization", 1), ("BatchNormalization", 4), ("Mul", 0), ("Mul", 1)}
"""Operands that scale or divide: drawn from (0.5, 1.5)."""
WEIGHTS = {("Conv", 1), ("Gemm", 1)}
RESHAPING = {"Unsqueeze", "Reshape"}


def write_light(name: str, file: Path, seed: int = 0) -> None:
    """Write the light model ``name`` to ``file`` with seeded weights as initializers."""
    model = onnx.load(DATA / f"light_{name}.onnx")
    fills = [n for n in model.graph.node if n.op_type == "ConstantOfShape"]
    shapes = {t.name: tuple(numpy_helper.to_array(t)) for t in model.graph.initializer}
    generator = np.random.default_rng(seed)
    for node in fills:
        array = draw(consumer(model.graph, node.output[0]), shapes[node.input[0]], generator)
        model.graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
        model.graph.node.remove(node)
    drop_unused(model.graph)
    normalize_last_layer(model)
    onnx.save(model, file)


def consumer(graph: onnx.GraphProto, name: str) -> tuple[str, int]:
    """The op type and input position that read ``name``, looking through reshaping ops."""
    for node in graph.node:
        for position, used in enumerate(node.input):
            if used != name:
                continue
            return consumer(graph, node.output[0]) if node.op_type in RESHAPING else (node.op_type, position)
    return ("", 0)


def draw(use: tuple[str, int], shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """A tensor fit for its use."""
    if use in POSITIVE:
        return generator.uniform(0.5, 1.5, shape).astype(np.float32)
    spread = math.sqrt(2 / max(1, math.prod(shape[1:]))) if use in WEIGHTS else 0.1
    return (generator.standard_normal(shape) * spread).astype(np.float32)


def drop_unused(graph: onnx.GraphProto) -> None:
    """Removes initializers that nothing reads, and the inputs of the same names."""
    used = {name for node in graph.node for name in node.input}
    kept = [t for t in graph.initializer if t.name in used]
    data = [i for i in graph.input if i.name in used and i.name not in {t.name for t in kept}]
    for field, values in ((graph.initializer, kept), (graph.input, data)):
        copies = [type(v).FromString(v.SerializeToString()) for v in values]
        del field[:]
        field.extend(copies)


def normalize_last_layer(model: onnx.ModelProto) -> None:
    """Scales the weights of the last layer that has weights, so that its outputs for a normally distributed
    input have a standard deviation of 1.
    """
    last = [n for n in model.graph.node if n.op_type in {op for op, _ in WEIGHTS}][-1]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.append(helper.make_tensor_value_info(last.output[0], onnx.TensorProto.FLOAT, None))
    probe.ir_version = 8
    (data,) = model.graph.input
    shape = [d.dim_value for d in data.type.tensor_type.shape.dim]
    onnxruntime = importlib.import_module("onnxruntime")  # other models are fetched without it
    session = onnxruntime.InferenceSession(probe.SerializeToString())
    (result,) = session.run(
        None, {data.name: np.random.default_rng(0).standard_normal(shape, dtype=np.float32)}
    )
    scale = np.float32(1 / max(float(np.std(result)), 1e-6))
    producers = {output: n for n in model.graph.node for output in n.output}
    name = last.input[1]
    while name in producers:
        name = producers[name].input[0]
    weights = next(t for t in model.graph.initializer if t.name == name)
    weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights) * scale, weights.name))
