"""Runs a model elsewhere: by ONNX Runtime, and what that cannot run node by node.

A node for whose types ONNX Runtime has no kernel runs there on wider types, or by onnx's reference evaluator.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, TypeProto, helper
from onnx.reference import ReferenceEvaluator

from .makers import listed

Run = Callable[[Mapping[str, Any]], list[Any]]


class Unsupported(Exception):
    """Raised if ONNX Runtime has no kernel for a node, so that it cannot judge the model."""


class Refused(Exception):
    """Raised if no peer runs a feed, with ONNX Runtime's text. ``unjudged``: only because kernels are
    missing.
    """

    def __init__(self, text: str, unjudged: bool = False) -> None:
        super().__init__(text)
        self.unjudged = unjudged


def session(model: onnx.ModelProto, optimized: bool = True) -> Run:
    """ONNX Runtime on one thread; other exceptions than :class:`Unsupported` refuse the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.inter_op_num_threads = 4, 1, 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        made = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception as error:
        text = str(error)
        if (
            "NOT_IMPLEMENTED" in text
            or "NotImplemented" in type(error).__name__
            or "under development" in text
        ):
            raise Unsupported(text) from error
        raise
    return lambda feeds: list(made.run(None, dict(feeds)))


def reference(model: onnx.ModelProto) -> Run:
    """onnx's reference evaluator."""
    made = ReferenceEvaluator(model)

    def run(feeds: Mapping[str, Any]) -> list[Any]:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [plain(v) for v in made.run(None, dict(feeds))]

    return run


class Peer:
    """A model that the peers run. ``refused``: why ONNX Runtime rejects the whole model, or empty."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model, self.refused = model, ""
        self._whole: Run | None = None
        self._nodes: list[Node] | None = None
        try:
            self._whole = session(model)
        except Unsupported:
            pass
        except Exception as error:
            self.refused = line(error)

    @property
    def rough(self) -> bool:
        """Whether a peer that rounds in another type was the last one to run a node."""
        return self._nodes is not None and any(node.judge != "ort" for node in self._nodes)

    @property
    def nodes(self) -> list[Node]:
        if self._nodes is None:
            self._nodes = [Node(self.model, node) for node in self.model.graph.node]
        return self._nodes

    def run(self, feed: Mapping[str, Any]) -> tuple[list[Any], str]:
        """The outputs, and why ONNX Runtime itself refuses the feed, else empty. Raises :class:`Refused`."""
        refused = self.refused
        if self._whole is not None:
            try:
                return self._whole(feed), ""
            except Exception as error:
                refused = line(error)
        try:
            values = self.values(feed)
        except Refused as error:
            raise Refused(refused or str(error), error.unjudged and not refused) from error
        refused = refused or next((node.refused for node in self.nodes if node.refused), "")
        return [values[output.name] for output in self.model.graph.output], refused

    def values(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """All values of the graph, computed node by node."""
        values = {**constants(self.model), **feed}
        for node in self.nodes:
            values.update(node.run(values))
        return values


class Node:
    """One node of a model.

    ``judge`` is who ran it last: ort, wide (ONNX Runtime on wider types) or onnx; ``refused`` is why ONNX
    Runtime did not, where it has a kernel.
    """

    def __init__(self, model: onnx.ModelProto, node: onnx.NodeProto) -> None:
        self.model, self.proto, self.judge, self.refused = model, node, "", ""
        self._sessions: dict[bytes, Run | Exception] = {}

    def run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of a run. Raises :class:`Refused`."""
        single, feed = alone(self.model, self.proto, values)
        names = [output.name for output in single.graph.output]
        self.refused = ""
        for name, judge in (("ort", self._ort), ("wide", self._wide), ("onnx", _evaluated)):
            self.judge = name
            try:
                return dict(zip(names, _typed(single, judge(single, feed)), strict=True))
            except Unsupported:
                continue
            except Exception as error:
                self.refused = self.refused or ("" if self.judge == "onnx" else line(error))
        raise Refused(self.refused or f"no peer runs {self.proto.op_type}", not self.refused)

    def _ort(self, single: onnx.ModelProto, feed: Mapping[str, Any]) -> list[Any]:
        try:
            return self._session(single)(feed)
        except Unsupported:
            return self._session(_older(single))(feed)

    def _session(self, single: onnx.ModelProto) -> Run:
        key = single.SerializeToString()
        if key not in self._sessions:
            try:
                self._sessions[key] = session(single)
            except Exception as error:
                self._sessions[key] = error
        made = self._sessions[key]
        if isinstance(made, Exception):
            raise made
        return made

    def _wide(self, single: onnx.ModelProto, feed: Mapping[str, Any]) -> list[Any]:
        """The node on f32 and int64, or on f32 alone, if the op means the same for these types."""
        if self.proto.op_type in TYPED or self.refused:
            raise Unsupported
        try:
            return self._retyped(single, feed, WIDER)
        except Unsupported:
            pass
        try:
            return self._retyped(single, feed, ALL_FLOAT)
        except Exception as error:  # an operand may not be a float
            raise Unsupported from error

    def _retyped(
        self, single: onnx.ModelProto, feed: Mapping[str, Any], types: Mapping[str, type[Any]]
    ) -> list[Any]:
        weights = constants(single)
        values = {name: _as(value, types) for name, value in {**weights, **feed}.items()}
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        del model.graph.initializer[:]
        model.graph.initializer.extend(onnx.numpy_helper.from_array(values[name], name) for name in weights)
        results = self._ort(*alone(model, self.proto, values))
        kinds = [_kind_of(value) for value in feed.values()]
        if "i" in kinds or "u" in kinds:  # they may have been sums of many
            for result in results:
                _exact(result.astype(np.int64) if result.dtype.kind == "f" else result)
        return results


WIDER: Mapping[str, type[Any]] = {"f": np.float32, "i": np.int64, "u": np.int64}
ALL_FLOAT: Mapping[str, type[Any]] = dict.fromkeys("fiub", np.float32)
MORE_TYPES = (22, 24, 25, 28)
"""Opsets that only let more types in, for most ops."""


def _older(single: onnx.ModelProto) -> onnx.ModelProto:
    """The same node in the previous opset, if the later version only added types."""
    (node,), opset = single.graph.node, single.opset_import[0]
    if node.domain:
        raise Unsupported
    since = onnx.defs.get_schema(node.op_type, opset.version).since_version
    if since not in MORE_TYPES:
        raise Unsupported
    older = onnx.ModelProto()
    older.CopyFrom(single)
    older.opset_import[0].version = since - 1
    return older


TYPED = frozenset(
    listed(
        "BitCast Cast CastLike QuantizeLinear DequantizeLinear QLinearMatMul QLinearConv MatMulInteger "
        "ConvInteger DynamicQuantizeLinear BitShift If Loop Scan EyeLike ConstantOfShape "
        "SequenceConstruct SequenceInsert SplitToSequence SequenceEmpty"
    )
)
"""Ops whose meaning depends on the types of their operands."""


def _as(value: Any, types: Mapping[str, type[Any]]) -> Any:
    if not isinstance(value, np.ndarray):
        raise Unsupported
    kind = "f" if value.dtype.name == "bfloat16" else value.dtype.kind
    return _exact(value).astype(types.get(kind, value.dtype))


def _exact(value: Any) -> Any:
    """The numbers as f32 if that is exact for integers. Raises :class:`Unsupported`."""
    if value.dtype.kind in "iu" or value.dtype == np.float64:
        numbers = np.abs(value[np.isfinite(value)].astype(np.float64))
        if numbers.max(initial=0) > (2**24 if value.dtype.kind in "iu" else 2**40):
            raise Unsupported
    return value


def _kind_of(value: Any) -> str:
    return str(value.dtype.kind)


def _evaluated(single: onnx.ModelProto, feed: Mapping[str, Any]) -> list[Any]:
    return reference(single)(feed)


def _typed(single: onnx.ModelProto, results: list[Any]) -> list[Any]:
    """Arrays of the types of the standard, as ONNX Runtime returns small floats as integers."""
    graph = onnx.shape_inference.infer_shapes(single).graph
    kinds = [output.type.tensor_type.elem_type for output in graph.output]
    return [_of_kind(result, kind) for result, kind in zip(results, kinds, strict=True)]


def _of_kind(value: Any, kind: int) -> Any:
    if not kind or not isinstance(value, np.ndarray) or kind == TensorProto.STRING:
        return value
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if value.dtype == dtype:
        return value
    small = dtype.kind == "V" or dtype.name.startswith(("float8", "bfloat"))
    return value.view(dtype) if small and value.dtype.itemsize == dtype.itemsize else value.astype(dtype)


def constants(model: onnx.ModelProto) -> dict[str, Any]:
    return {w.name: onnx.numpy_helper.to_array(w) for w in model.graph.initializer}


def operands(node: onnx.NodeProto) -> Iterator[str]:
    """The names of the values that a node and its regions read, without duplicates."""
    seen: set[str] = set()
    for name in (*node.input, *(n for a in node.attribute for n in _captured(a.g))):
        if name and name not in seen:
            seen.add(name)
            yield name


def _captured(graph: onnx.GraphProto) -> Iterator[str]:
    made = {i.name for i in graph.input} | {w.name for w in graph.initializer}
    for node in graph.node:
        yield from (name for name in operands(node) if name not in made)
        made.update(node.output)
    yield from (o.name for o in graph.output if o.name not in made)


def alone(
    model: onnx.ModelProto, node: onnx.NodeProto, values: Mapping[str, Any]
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A model of one node, with dynamic sizes, and its feed; weights of the model stay weights."""
    weights = {w.name: w for w in model.graph.initializer}
    read = list(operands(node))
    fed = {name: values[name] for name in read if name not in weights}
    graph = helper.make_graph(
        [node],
        "g",
        [onnx.ValueInfoProto(name=name, type=_type(value)) for name, value in fed.items()],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
        [weights[name] for name in read if name in weights],
    )
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version), fed


def _type(value: Any) -> TypeProto:
    """The type with dynamic sizes, except lists of sizes, axes or indices, whose length determines ranks."""
    if isinstance(value, list):
        element = _type(value[0]) if value else helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        return helper.make_sequence_type_proto(element)
    array = np.asarray(value)
    kind = TensorProto.STRING if array.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(array.dtype)
    is_list = array.ndim == 1 and array.dtype.kind == "i"
    return helper.make_tensor_type_proto(kind, array.shape if is_list else [None] * array.ndim)


def agrees(node: onnx.ModelProto, feed: Mapping[str, Any], matches: Callable[[Sequence[Any]], bool]) -> bool:
    """Whether onnx's reference evaluator gives outputs that match."""
    try:
        return matches(reference(node)(feed))
    except Exception:  # it has no such op, or refuses
        return False


def line(error: Exception) -> str:
    """The first line of an error, without ONNX Runtime's prefix."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return text.replace("[ONNXRuntimeError] : ", "").replace(
        "Non-zero status code returned while running ", ""
    )[:400]


def plain(value: Any) -> Any:
    return value if isinstance(value, list) or value is None else np.asarray(value)
