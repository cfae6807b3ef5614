"""Removes weights that the library contains from a model, which then runs only with the library."""

from __future__ import annotations

import onnx

from graphwright.autofusion.onnxruntime.operator_library import Library, Operator
from graphwright.errors import Diagnostic, ModelError
from graphwright.export.onnx import FUNCTION_DOMAIN, OnnxModel
from graphwright.records import replace
from graphwright.support.escaping import terminal


def without_weights(model: OnnxModel, library: Library) -> tuple[OnnxModel, Library]:
    """``model`` without weights and functions, and ``library`` with operators that receive no weights. Raises
    ModelError if ONNX Runtime runs a part of the model: that part would need its weights.
    """
    taken = {each.name: [fed >= 0 for _, fed in each.inputs] for each in library.operators}
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    graph = proto.graph
    for node in graph.node:
        if node.domain != FUNCTION_DOMAIN or node.op_type not in taken:
            example = terminal(node.name or node.op_type)
            message = f"cannot be packed: ONNX Runtime runs parts of the model, such as {example}"
            hint = "leave out --weights packed: --library lists these parts"
            raise ModelError(Diagnostic("weights", message, "the weights", hint))
        kept = [name for name, is_taken in zip(node.input, taken[node.op_type], strict=True) if is_taken]
        del node.input[:]
        node.input.extend(kept)
    del proto.functions[:]
    read = {name for node in graph.node for name in node.input} | {each.name for each in graph.output}
    initializers = [each for each in graph.initializer if each.name in read]
    del graph.initializer[:]
    graph.initializer.extend(initializers)
    weights = {name: array for name, array in model.weights.items() if name in read}
    operators = [replace(each, inputs=_passed(each)) for each in library.operators]
    return replace(model, proto=proto, weights=weights), replace(library, operators=operators)


def _passed(operator: Operator) -> tuple[tuple[int, int], ...]:
    """The inputs that the program of an operator receives."""
    return tuple((type, fed) for type, fed in operator.inputs if fed >= 0)
