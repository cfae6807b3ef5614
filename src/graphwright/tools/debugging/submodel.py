"""Makes parts of an ONNX model models of their own: edges that are cut become inputs with the values of a
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from graphwright.frontends.onnx.catalog import node_name
from graphwright.frontends.onnx.order import reads
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module, Value
from graphwright.ir.op import Array
from graphwright.ir.types import F32
from graphwright.records import dataclass

_MOST_SIZES: Final = 16
"""An integer tensor of at most this number of elements may contain sizes or axes: if it is cut off, it
becomes a constant.
"""
_IR_VERSION: Final = 4
"""The IR version from which on initializers need not be inputs."""


@dataclass(frozen=True)
class Candidate:
    """A part of a model: the numbers of its nodes, the model, and feeds of its inputs as far as their values
    are known.
    """

    nodes: tuple[int, ...]
    proto: onnx.ModelProto
    feeds: Mapping[str, Array]


class Divisible:
    """A model that can be divided into parts. ``values`` are the values of a run, by name."""

    def __init__(self, proto: onnx.ModelProto, values: Mapping[str, Array]) -> None:
        self._proto, self._values = proto, values
        self._reads = [reads(node) for node in proto.graph.node]
        self._makers = {n: k for k, node in enumerate(proto.graph.node) for n in node.output if n}
        self._initial = {tensor.name: tensor for tensor in proto.graph.initializer}
        self._sparse = {tensor.values.name for tensor in proto.graph.sparse_initializer}
        self._inputs = {info.name: info for info in proto.graph.input if info.name not in self._initial}
        self._results = [info.name for info in proto.graph.output]

    def __len__(self) -> int:
        return len(self._proto.graph.node)

    def named(self, sources: Iterable[str]) -> list[int]:
        """The numbers of the nodes that diagnostics name so."""
        wanted = set(sources)
        return [k for k, node in enumerate(self._proto.graph.node) if node_name(node) in wanted]

    def neighbors(self, nodes: Iterable[int]) -> list[int]:
        """``nodes`` with the producers of their operands and the readers of their results."""
        known = set(nodes)
        read = {name for number in known for name in self._reads[number]}
        defined = {name for number in known for name in self._proto.graph.node[number].output}
        known |= {self._makers[name] for name in read if name in self._makers}
        known |= {number for number, names in enumerate(self._reads) if names & defined}
        return sorted(known)

    def part(self, nodes: Iterable[int], outputs: Sequence[str] | None = None) -> Candidate:
        """The model of ``nodes``, and of the producers of values that cannot be inputs. ``outputs`` are the
        outputs to keep; None keeps all values that other nodes read or that are outputs of the model.
        """
        kept = self._closed(nodes)
        defined = {name for number in kept for name in self._proto.graph.node[number].output if name}
        read = {name for number in kept for name in self._reads[number] if name} - defined
        elsewhere = {n for k, names in enumerate(self._reads) if k not in kept for n in names}
        ends = defined & (elsewhere | set(self._results)) or defined
        order = [n for number in sorted(kept) for n in self._proto.graph.node[number].output if n in ends]
        results = [name for name in order if outputs is None or name in outputs]
        return self._model(sorted(kept), read, results)

    def _closed(self, nodes: Iterable[int]) -> set[int]:
        """``nodes``, and the producers of values that cannot be inputs."""
        kept, pending = set(nodes), list(nodes)
        while pending:
            for name in self._reads[pending.pop()]:
                maker = self._makers.get(name)
                if maker is not None and maker not in kept and not self._can_be_cut(name):
                    kept.add(maker)
                    pending.append(maker)
        return kept

    def _can_be_cut(self, name: str) -> bool:
        return name in self._values or name in self._inferred

    @cached_property
    def _inferred(self) -> dict[str, onnx.ValueInfoProto]:
        """The types of values that the run did not compute, as declared in the model or inferred by ONNX."""
        try:
            graph = shape_inference.infer_shapes(self._proto).graph
        except Exception:  # it raises exceptions of its own types for invalid models
            graph = self._proto.graph
        infos = [*graph.value_info, *graph.output]
        return {i.name: i for i in infos if i.type.tensor_type.elem_type}

    def _model(self, nodes: Sequence[int], read: set[str], results: Sequence[str]) -> Candidate:
        proto = onnx.ModelProto()
        proto.CopyFrom(self._frame)
        graph = proto.graph
        graph.node.extend(self._proto.graph.node[number] for number in nodes)
        feeds: dict[str, Array] = {}
        for name in sorted(read, key=self._position):
            if name in self._initial:
                graph.initializer.append(self._initial[name])
            elif name in self._sparse:
                continue
            elif name not in self._inputs and name in self._values and self._is_constant(name):
                graph.initializer.append(numpy_helper.from_array(self._values[name], name))
            else:
                graph.input.append(self._input(name))
                if name in self._values:
                    feeds[name] = self._values[name]
        graph.sparse_initializer.extend(
            s for s in self._proto.graph.sparse_initializer if s.values.name in read
        )
        graph.output.extend(self._output(name) for name in results)
        return Candidate(tuple(nodes), proto, feeds)

    @cached_property
    def _frame(self) -> onnx.ModelProto:
        """The model without the nodes and values of its graph."""
        frame = onnx.ModelProto()
        frame.CopyFrom(self._proto)
        for field in ("node", "initializer", "sparse_initializer", "input", "output", "value_info"):
            frame.graph.ClearField(field)
        frame.ir_version = max(frame.ir_version, _IR_VERSION)
        return frame

    @cached_property
    def _order(self) -> dict[str, int]:
        return {name: k for k, name in enumerate((*self._inputs, *self._initial, *self._makers))}

    def _position(self, name: str) -> int:
        return self._order.get(name, len(self._order))

    def _is_constant(self, name: str) -> bool:
        """Whether a value that is cut off becomes a constant: it depends on no input, or may contain
        sizes.
        """
        array = self._values[name]
        return name not in self._depending or (array.dtype.kind in "iu" and array.size <= _MOST_SIZES)

    @cached_property
    def _depending(self) -> set[str]:
        """The names of values that depend on inputs."""
        names = set(self._inputs)
        for number, node in enumerate(self._proto.graph.node):
            if self._reads[number] & names:
                names.update(node.output)
        return names

    def _input(self, name: str) -> onnx.ValueInfoProto:
        if name in self._values:
            return _info(name, self._values[name])
        return self._inputs[name] if name in self._inputs else self._inferred[name]

    def _output(self, name: str) -> onnx.ValueInfoProto:
        """The output ``name``, with its shape if known."""
        outputs: dict[str, onnx.ValueInfoProto] = {info.name: info for info in self._proto.graph.output}
        known = outputs.get(name)
        if known is not None and known.type.tensor_type.HasField("shape"):
            return known
        if name in self._values:
            return _info(name, self._values[name])
        if known is not None:
            return known
        return self._inferred.get(name, onnx.ValueInfoProto(name=name))


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def read_onnx(path: Path) -> onnx.ModelProto:
    """The model in a file, with external weights."""
    return onnx.load(str(path))


def values_of(module: Module, arrays: Sequence[Array]) -> dict[str, Array]:
    """The values of a run of the entry, by name, computed in f64 and converted to their own types; only those
    that an ONNX file can store.
    """
    found: dict[str, Array] = {}

    def note(value: Value, array: object) -> None:
        if value.name and value.graph is module.main and _is_plain(array):
            assert isinstance(array, np.ndarray)
            is_wide = array.dtype == np.float64 and value.type.dtype is F32
            found[value.name] = array.astype(np.float32) if is_wide else array

    for value, array in zip(module.main.inputs, arrays, strict=True):
        note(value, array)
    with np.errstate(all="ignore"):
        evaluate_module(module, arrays, wide=True, observe=note)
    return found


def _is_plain(array: object) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind in "biuf"
