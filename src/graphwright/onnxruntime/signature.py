"""The signature of an ONNX file: inputs and outputs with the names of their sizes, and metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from graphwright.executable.specs import TensorSpec
from graphwright.frontends.onnx.types import dtype_of_proto
from graphwright.records import dataclass, field
from graphwright.runtime.model import Model
from graphwright.session import ort_type_text
from graphwright.support.escaping import identifier

_NO_VERSION = 2**63 - 1
"""ONNX Runtime's version of a model whose file has none."""
Size = int | str | None
"""A number, the model's name for a size, or None for one without a name."""


@dataclass(frozen=True)
class NodeArg:
    """An input or output: its type, such as ``tensor(float)``, and its sizes.

    The shape is empty where the rank is not known, as it is for scalars.
    """

    name: str
    type: str
    _shape: Sequence[Size]

    @property
    def shape(self) -> list[Size]:
        """A new list, which scripts change: they replace names of sizes by numbers to make a feed."""
        return list(self._shape)

    def __hash__(self) -> int:
        return hash((self.name, self.type))

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


@dataclass
class ModelMetadata:
    """The source model's own texts."""

    custom_metadata_map: dict[str, str] = field(default_factory=dict)
    description: str = ""
    domain: str = ""
    graph_description: str = ""
    graph_name: str = ""
    producer_name: str = ""
    version: int = 0


@dataclass(frozen=True)
class Signature:
    """The signature of the model of a session."""

    inputs: list[NodeArg]
    outputs: list[NodeArg]
    overridable: list[NodeArg]
    metadata: ModelMetadata


def of_package(model: Model) -> Signature:
    """The signature of an .om, whose ONNX file is not available."""
    names: dict[str, Size] = {}
    for spec in model.inputs:
        unnamed = f"{identifier(spec.name)}_{{}}".format  # what sizes without a name are called
        for axis, size in enumerate(spec.shape or ()):
            names[str(size)] = None if size == unnamed(axis) else size
    inputs = [_arg(spec, names, None) for spec in model.inputs]
    outputs = [_arg(spec, names, None) for spec in model.outputs]
    return Signature(inputs, outputs, [], ModelMetadata(dict(model.metadata)))


def of_file(model: Model, proto: onnx.ModelProto) -> Signature:
    """The signature of a model that was compiled from ``proto``, with the names that it has for sizes."""
    declared = {info.name: _declared(info) for info in (*proto.graph.input, *proto.graph.output)}
    inputs = [NodeArg(s.name, ort_type_text(s.dtype), declared.get(s.name) or []) for s in model.inputs]
    names: dict[str, Size] = {}
    for spec, arg in zip(model.inputs, inputs, strict=True):
        names |= zip(map(str, spec.shape or ()), arg.shape, strict=False)
    outputs = [_arg(spec, names, declared.get(spec.name)) for spec in model.outputs]
    return Signature(inputs, outputs, _overridable(proto), _metadata(proto))


def shares_names(args: Sequence[NodeArg]) -> bool:
    """Whether several sizes have one name; ONNX Runtime does not require them to be equal."""
    names = [size for arg in args for size in arg.shape if isinstance(size, str)]
    return len(names) > len(set(names))


def breaks_names(args: Sequence[NodeArg], shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether sizes of one name differ in ``shapes``."""
    known: dict[Size, int] = {}
    pairs = [pair for arg in args for pair in zip(arg.shape, shapes.get(arg.name, ()), strict=False)]
    return any(known.setdefault(name, size) != size for name, size in pairs if isinstance(name, str))


def has_scalars(inputs: Sequence[TensorSpec]) -> bool:
    """Whether an input is a scalar. ONNX Runtime does not check the shape of the feed of a scalar, just as if
    its rank were unknown.
    """
    return any(_is_scalar(spec) for spec in inputs)


def fed_axes(inputs: Sequence[TensorSpec], shapes: Mapping[str, Sequence[int]]) -> frozenset[str]:
    """Inputs without axes that have some in ``shapes``."""
    return frozenset(spec.name for spec in inputs if _is_scalar(spec) and shapes.get(spec.name))


def _is_scalar(spec: TensorSpec) -> bool:
    return spec.shape == () and spec.dtype.element is None


def defaults_of(proto: onnx.ModelProto) -> set[str]:
    """Names of inputs that have an initializer, which a feed may replace."""
    if proto.ir_version < 4:  # before, all initializers had to be listed as inputs
        return set()
    return {info.name for info in proto.graph.input} & {tensor.name for tensor in proto.graph.initializer}


def _overridable(proto: onnx.ModelProto) -> list[NodeArg]:
    names = defaults_of(proto)
    infos = [info for info in proto.graph.input if info.name in names]
    return [NodeArg(i.name, ort_type_text(dtype_of_proto(i.type)), _declared(i) or []) for i in infos]


def _arg(spec: TensorSpec, names: Mapping[str, Size], declared: Sequence[Size] | None) -> NodeArg:
    """The NodeArg of ``spec``. A size is the number that inference proved, or else what the file declares, or
    else the name in ``names``, which has those of the sizes of inputs.
    """
    if spec.shape is None:
        return NodeArg(spec.name, ort_type_text(spec.dtype), list(declared or ()))
    shape: Sequence[int | str] = spec.shape
    if declared is None or len(declared) != len(shape):
        declared = [names.get(str(size)) for size in shape]
    sizes = [size if isinstance(size, int) else said for size, said in zip(shape, declared, strict=True)]
    return NodeArg(spec.name, ort_type_text(spec.dtype), sizes)


def _declared(info: onnx.ValueInfoProto) -> list[Size] | None:
    kind = info.type.optional_type.elem_type if info.type.HasField("optional_type") else info.type
    tensor = kind.tensor_type
    return [_size(dim) for dim in tensor.shape.dim] if tensor.HasField("shape") else None


def _size(dim: Any) -> Size:
    if dim.WhichOneof("value") == "dim_param":
        name: str = dim.dim_param
        return name or None
    known: int = dim.dim_value
    return known if dim.WhichOneof("value") == "dim_value" and known >= 0 else None


def _metadata(proto: onnx.ModelProto) -> ModelMetadata:
    texts: Mapping[str, str] = {entry.key: entry.value for entry in proto.metadata_props}
    graph = proto.graph
    return ModelMetadata(
        dict(texts),
        proto.doc_string,
        proto.domain,
        graph.doc_string,
        graph.name,
        proto.producer_name,
        proto.model_version if proto.HasField("model_version") else _NO_VERSION,
    )
