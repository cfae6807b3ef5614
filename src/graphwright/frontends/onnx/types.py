"""Converts between ONNX types and graphwright types, and checks operands against op schemas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

import onnx
from onnx import defs

from graphwright.frontends.onnx.dtypes import dtype_from_onnx, onnx_number
from graphwright.frontends.onnx.faults import Fault, text
from graphwright.ir.dtypes import ONNX_NAMES
from graphwright.ir.graph import Value
from graphwright.ir.inference.infer import MAX_BYTES
from graphwright.ir.symbols import Dim, SymbolTable
from graphwright.ir.types import MAX_RANK, DType, TensorType, map_of, optional_of, sequence_of
from graphwright.records import dataclass
from graphwright.support.escaping import identifier
from graphwright.support.message_text import counted

Binding = int | str | None
"""A size that the caller gives: a number, the name of a symbol, or None for the size of the model."""


_UNKNOWN = frozenset(
    ("", "?", "*", "-1", "none", "null", "nan", "any", "unk", "unknown", "dynamic", "undefined")
)
"""Names that exporters use for any unknown size. Two sizes with such a name can differ."""


class Dims:
    """The symbols of a model. Dims with the same name share a symbol; each dim without a usable name gets a
    new one.
    """

    def __init__(self, symbols: SymbolTable) -> None:
        self._symbols = symbols
        self._named: dict[str, Dim] = {}

    def bind(self, name: str, size: int) -> None:
        """Binds ``name`` to a number wherever it occurs. Raises Fault if it is bound to another one."""
        if self._named.setdefault(name, size) != size:
            raise Fault("shapes", f"size {name!r} is bound to {self._named[name]} and to {size}")

    def named(self, name: str) -> Dim:
        """The dim that all dimensions of this name share."""
        if name not in self._named:
            self._named[name] = self._symbols.fresh(identifier(name, "s"))
        return self._named[name]

    def fresh(self, value: str, axis: int) -> Dim:
        """A fresh symbol, named after its value and axis."""
        return self._symbols.fresh(f"{identifier(value)}_{axis}")


def usable_name(dim: onnx.TensorShapeProto.Dimension) -> str:
    """The name of a dimension; empty if it has none, or if the name only means unknown."""
    name = text(dim.dim_param) if dim.WhichOneof("value") == "dim_param" else ""
    return "" if name.strip().casefold() in _UNKNOWN else name


def tensor_type(info: onnx.ValueInfoProto, dims: Dims, bound: Sequence[Binding] | None = None) -> TensorType:
    """The declared type of a graph input, with unknown sizes replaced by those in ``bound``. Raises Fault."""
    name, declared = text(info.name), info.type
    if declared.WhichOneof("value") in ("sequence_type", "optional_type", "map_type"):
        if bound is not None:
            raise Fault("shapes", f"{name!r} is not a tensor and has no shape")
        return TensorType(dtype_of_proto(declared), ())
    if declared.WhichOneof("value") != "tensor_type":
        kind = declared.WhichOneof("value") or "no type"
        raise Fault(
            "input-type",
            f"the input has {kind}; only tensors, sequences, optionals and maps are supported",
            "unpack it outside the model",
        )
    dtype = dtype_from_onnx(declared.tensor_type.elem_type)
    sizes = declared.tensor_type.shape.dim if declared.tensor_type.HasField("shape") else None
    if sizes is None and bound is None:
        return TensorType(dtype, None)
    rank = len(bound or ()) if sizes is None else len(sizes)
    if rank > MAX_RANK:
        raise Fault("input-type", f"the rank is {rank}, but at most {MAX_RANK} is supported")
    shape = tuple(
        _dim(None if sizes is None else sizes[axis], None if bound is None else bound[axis], name, axis, dims)
        for axis in range(rank)
    )
    found = TensorType(dtype, shape)
    if found.is_static and prod(found.sizes) * found.dtype.bytes > MAX_BYTES:
        raise Fault("size", f"{found} exceeds the addressable memory")
    return found


def _dim(
    declared: onnx.TensorShapeProto.Dimension | None, bound: Binding, name: str, axis: int, dims: Dims
) -> Dim:
    size = declared.dim_value if declared is not None and declared.WhichOneof("value") == "dim_value" else 0
    if size > 0:  # exporters write 0 and -1 for "unknown"
        return int(size)
    if isinstance(bound, int):
        return bound
    if bound is not None:
        return dims.named(bound)
    shared = "" if declared is None else usable_name(declared)
    return dims.named(shared) if shared else dims.fresh(name, axis)


def shape_text(info: onnx.ValueInfoProto) -> str:
    """The declared shape of a tensor, such as ``[N, 3]``; ``[*]`` if its rank is unknown."""
    if not info.type.tensor_type.HasField("shape"):
        return "[*]"
    sizes = (
        usable_name(d) or (str(d.dim_value) if d.dim_value > 0 else "?")
        for d in info.type.tensor_type.shape.dim
    )
    return f"[{', '.join(sizes)}]"


def dtype_of_proto(declared: onnx.TypeProto) -> DType:
    """The dtype for an ONNX type: the element type of a tensor, or a container dtype. Raises Fault."""
    match declared.WhichOneof("value"):
        case "tensor_type":
            return dtype_from_onnx(declared.tensor_type.elem_type)
        case "sequence_type":
            return sequence_of(dtype_of_proto(declared.sequence_type.elem_type))
        case "optional_type":
            return optional_of(dtype_of_proto(declared.optional_type.elem_type))
        case "map_type":
            return map_of(
                dtype_from_onnx(declared.map_type.key_type), dtype_of_proto(declared.map_type.value_type)
            )
        case other:
            message = f"{other or 'no type'} is not supported"
            raise Fault("dtype", message, "tensors, sequences, optionals and maps are supported")


def type_proto(type: TensorType) -> onnx.TypeProto:
    """The type as an ONNX TypeProto."""
    proto = onnx.TypeProto()
    if type.dtype.element is not None and type.dtype.key is not None:
        proto.map_type.key_type = onnx_number(type.dtype.key)
        proto.map_type.value_type.CopyFrom(type_proto(TensorType(type.dtype.element, ())))
        return proto
    if type.dtype.element is not None:
        inner = proto.sequence_type if type.dtype.kind == "sequence" else proto.optional_type
        inner.elem_type.CopyFrom(type_proto(TensorType(type.dtype.element, None)))
        return proto
    proto.tensor_type.elem_type = onnx_number(type.dtype)
    if type.shape is not None:
        proto.tensor_type.shape.SetInParent()
        for size in type.shape:
            dim = proto.tensor_type.shape.dim.add()
            if isinstance(size, int):
                dim.dim_value = size
            else:
                dim.dim_param = str(size)
    return proto


@cache
def onnx_type_text(dtype: DType) -> str:
    """The name of a type in the ONNX specification, such as ``tensor(float)`` and ``seq(tensor(float))``."""
    if dtype.element is not None and dtype.key is not None:
        return f"map({ONNX_NAMES[dtype.key.name]}, {ONNX_NAMES[dtype.element.name]})"
    if dtype.element is not None:
        return f"{'seq' if dtype.kind == 'sequence' else 'optional'}({onnx_type_text(dtype.element)})"
    return f"tensor({ONNX_NAMES[dtype.name]})"


def check_operands(inputs: Sequence[Value | None], outputs: int, schema: defs.OpSchema) -> None:
    """Raises Fault for operands that the schema does not allow: a wrong number, missing ones, and dtypes that
    violate the type constraints of the op.
    """
    rules = _operand_rules(schema)
    call, least, most = rules.call, rules.least, rules.most
    present = len(inputs)
    if not least <= present <= most:
        bound = least if present < least else most
        limit = "" if least == most else "at least " if present < least else "at most "
        raise Fault("schema", f"{call} takes {limit}{counted(bound, 'input')}, not {present}")
    if outputs > rules.most_outputs:
        raise Fault("schema", f"{call} has at most {counted(rules.most_outputs, 'output')}, not {outputs}")
    chosen: dict[str, tuple[str, DType]] = {}
    for position, value in enumerate(inputs):
        formal = _formal_at(rules, position)
        if value is None:
            if formal.is_single:
                raise Fault(
                    "schema", f"{call} needs input {position} ({formal.name})", "export the model again"
                )
            continue
        _check_dtype(value.type.dtype, position, formal, chosen, schema)


@dataclass(frozen=True)
class _Formal:
    """The declaration of an operand in a schema. ``allowed``: the names of its types."""

    name: str
    parameter: str
    allowed: frozenset[str]
    is_single: bool
    is_shared: bool
    """Whether all operands with the same type parameter must have the same type."""


@dataclass(frozen=True)
class _OperandRules:
    call: str
    least: int
    most: int
    most_outputs: int
    formals: tuple[_Formal, ...]


@cache
def _operand_rules(schema: defs.OpSchema) -> _OperandRules:
    """The operand declarations of ``schema``. Cached, because onnx creates new lists at each access."""
    allowed = {c.type_param_str: frozenset(c.allowed_type_strs) for c in schema.type_constraints}
    formals = tuple(
        _Formal(
            formal.name,
            formal.type_str,
            allowed.get(formal.type_str, frozenset({formal.type_str})),
            formal.option == defs.OpSchema.FormalParameterOption.Single,
            formal.type_str in allowed and formal.is_homogeneous,
        )
        for formal in schema.inputs
    )
    call = f"{schema.name}-{schema.since_version}"
    least = schema.min_input
    while least and schema.inputs[least - 1].option == defs.OpSchema.FormalParameterOption.Optional:
        least -= 1  # Loop counts two optional operands in min_input
    return _OperandRules(call, least, schema.max_input, schema.max_output, formals)


def _first_opset_with(type_name: str, position: int, schema: defs.OpSchema) -> int | None:
    """The first opset after that of ``schema`` in which this input of the op can be of the type."""
    later = [
        other.since_version
        for other in defs.get_all_schemas_with_history()
        if (other.name, other.domain) == (schema.name, schema.domain)
        and other.since_version > schema.since_version
        and type_name in _formal_at(_operand_rules(other), position).allowed
    ]
    return min(later, default=None)


def _formal_at(rules: _OperandRules, position: int) -> _Formal:
    """The declaration of an input. The last one is that of all inputs after it."""
    return rules.formals[min(position, len(rules.formals) - 1)]


def _check_dtype(
    dtype: DType,
    position: int,
    formal: _Formal,
    chosen: dict[str, tuple[str, DType]],
    schema: defs.OpSchema,
) -> None:
    what = f"input {position} ({formal.name})"
    if onnx_type_text(dtype) not in formal.allowed:
        later = _first_opset_with(onnx_type_text(dtype), position, schema)
        hint = f"cast it, or export the model again{f' with opset {later} or later' if later else ''}"
        raise Fault("schema", f"{what} cannot be {dtype} in {schema.name}-{schema.since_version}", hint)
    if not formal.is_shared:
        return
    first, other = chosen.setdefault(formal.parameter, (what, dtype))
    if other != dtype:
        raise Fault(
            "dtype", f"{what} is {dtype}, but {first} is {other}: they must be equal", "cast one of them"
        )
