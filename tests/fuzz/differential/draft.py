"""A random ONNX graph while it grows, and the case that it becomes: a model with feeds of several sizes.

Dims are numbers or names of symbols. A symbol has the sizes that it may take, or is a function of earlier
symbols. So one random graph is compiled once and fed at many sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper, shape_inference

Array = np.ndarray[Any, Any]
Dim = int | str | None
"""A number, the name of a symbol, or None where the draft does not know it."""
Sizes = Mapping[str, int]
SIZES = (0, 1, 1, 2, 3, 3, 4, 5, 7)
FEEDS = 7
ONNX_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(int8)": "int8",
    "tensor(int16)": "int16",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(uint8)": "uint8",
    "tensor(uint16)": "uint16",
    "tensor(uint32)": "uint32",
    "tensor(uint64)": "uint64",
    "tensor(bool)": "bool",
    "tensor(string)": "object",
}
"""The element types that a draft feeds, as ONNX and NumPy name them."""
COMMON = ("float32", "float32", "float32", "float32", "int64", "int32", "bool", "uint8", "float64", "float16")
"""What is drawn where a type is free: mostly what models have."""


@dataclass(frozen=True)
class Value:
    """A tensor of the graph; ``dtype`` is a NumPy name, or empty if the draft does not know it."""

    name: str
    dtype: str
    dims: tuple[Dim, ...] | None

    @property
    def rank(self) -> int:
        assert self.dims is not None
        return len(self.dims)


Fill = Callable[[np.random.Generator, tuple[int, ...], Sizes], Array]
"""Elements of an input of a shape, for sizes of the symbols."""


@dataclass(frozen=True)
class Symbol:
    """The sizes that a symbol may have; ``of`` chooses one, given the earlier symbols."""

    choices: tuple[int, ...] = SIZES
    of: Callable[[Sizes, Random], int] | None = None


@dataclass(frozen=True)
class Input:
    """A fed tensor. ``control`` is one whose elements are indices, axes or sizes."""

    value: Value
    fill: Fill
    control: bool = False


@dataclass
class Case:
    """A model with its feeds."""

    seed: int
    model: onnx.ModelProto
    feeds: list[dict[str, Array]]
    ops: tuple[str, ...]
    controls: tuple[str, ...] = ()
    sizes: list[dict[str, int]] = field(default_factory=list)


class Impossible(Exception):
    """Raised if the drawn node does not fit the draft."""


class Draft:
    """Grows a graph node by node."""

    def __init__(self, seed: int, opset: int) -> None:
        self.seed, self.opset = seed, opset
        self.random = Random(seed)
        self.symbols: dict[str, Symbol] = {}
        self.inputs: list[Input] = []
        self.weights: dict[str, Array] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.values: list[Value] = []
        self.used: set[str] = set()
        self.names = 0
        self.strange = False
        """Whether floats may be NaN, infinite or huge: not where sums or products would spread them."""

    # Choices

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *options: Any) -> Any:
        return self.random.choice(options)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def schema(self, op: str) -> defs.OpSchema:
        try:
            schema = defs.get_schema(op, self.opset)
        except defs.SchemaError as error:
            raise Impossible(op) from error
        if schema.deprecated:
            raise Impossible(op)
        return schema

    def types(self, op: str, index: int = 0) -> list[str]:
        """The element types that input ``index`` of ``op`` may have."""
        formal = self.schema(op).inputs[index]
        return sorted({ONNX_TYPES[t] for t in formal.types if t in ONNX_TYPES})

    def dtype(self, allowed: Sequence[str]) -> str:
        common = [t for t in COMMON if t in allowed]
        chosen: str = self.pick(*common) if common and self.chance(0.8) else self.pick(*allowed)
        return chosen

    # Sizes

    def symbol(self, *choices: int, of: Callable[[Sizes, Random], int] | None = None) -> str:
        name = f"d{len(self.symbols)}"
        self.symbols[name] = Symbol(choices or SIZES, of)
        return name

    def dim(self, *choices: int) -> int | str:
        """A number, an earlier symbol, or a new symbol."""
        draw = self.random.random()
        known = [name for name, s in self.symbols.items() if s.of is None and s.choices == (choices or SIZES)]
        if draw < 0.25:
            chosen: int | str = self.pick(*(choices or SIZES))
            return chosen
        return self.random.choice(known) if known and draw < 0.5 else self.symbol(*choices)

    def dims(self, rank: int, *choices: int) -> tuple[int | str, ...]:
        return tuple(self.dim(*choices) for _ in range(rank))

    def twin(self, dim: Dim) -> int | str:
        """A dim of the same size: the same symbol, or another name for it."""
        assert dim is not None
        if isinstance(dim, int) or self.chance(0.7):
            return dim
        return self.symbol(of=lambda sizes, _: sizes[dim])

    def maybe_one(self, dim: Dim) -> int | str:
        """A dim that broadcasts with ``dim``."""
        draw = self.random.random()
        if draw < 0.15:
            return 1
        if draw < 0.75:
            return self.twin(dim)
        return self.symbol(of=lambda sizes, random: random.choice((1, self.size(dim, sizes))))

    def multiple(self, dim: Dim, factor: int) -> int | str:
        assert dim is not None
        return dim * factor if isinstance(dim, int) else self.symbol(of=lambda sizes, _: sizes[dim] * factor)

    @staticmethod
    def size(dim: Dim, sizes: Sizes) -> int:
        assert dim is not None
        return dim if isinstance(dim, int) else sizes[dim]

    def axis(self, rank: int) -> int:
        return self.random.randrange(-rank, rank) if rank else 0

    def axes(self, rank: int, least: int = 0) -> list[int]:
        """Different axes, some of them negative."""
        chosen = self.random.sample(range(rank), self.random.randint(min(least, rank), rank))
        return [a - rank if self.chance(0.3) else a for a in chosen]

    # Tensors

    def fresh(
        self, dtype: str, dims: Sequence[Dim], fill: Fill | None = None, control: bool = False
    ) -> Value:
        """A new input of the graph, or a weight if its shape is known."""
        value = Value(self.name("w" if control else "x"), dtype, tuple(dims))
        filled = fill or default_fill(self, dtype)
        static = all(isinstance(dim, int) for dim in dims)
        if static and not control and self.chance(0.3):
            rng = np.random.default_rng(self.random.randrange(2**32))
            shape = tuple(dim for dim in dims if isinstance(dim, int))
            try:
                with np.errstate(over="ignore", invalid="ignore"):
                    return self.weight(np.asarray(filled(rng, shape, {})).astype(dtype))
            except KeyError:  # its elements depend on a symbol
                pass
        self.inputs.append(Input(value, filled, control))
        self.values.append(value)
        return value

    def weight(self, array: Any) -> Value:
        array = np.asarray(array)
        value = Value(self.name("c"), array.dtype.name, array.shape)
        self.weights[value.name] = array
        return value

    def operand(
        self,
        dtypes: Sequence[str],
        ranks: Sequence[int] = (0, 1, 2, 2, 3, 3, 4),
        fill: Fill | None = None,
        known: bool = False,
        sizes: Sequence[int] = (),
    ) -> Value:
        """An earlier value, or a new input. ``known``: all dims must be numbers or symbols."""

        def fits(value: Value) -> bool:
            if value.dtype not in dtypes or value.dims is None or value.rank not in ranks:
                return False
            return not known or None not in value.dims

        fitting = [v for v in self.values if fits(v)] if fill is None and not sizes else []
        if fitting and self.chance(0.75):
            return self.random.choice(fitting[-4:])
        return self.fresh(self.dtype(dtypes), self.dims(self.pick(*ranks), *sizes), fill)

    def partner(self, value: Value, dtype: str = "", fill: Fill | None = None) -> Value:
        """A tensor that broadcasts with ``value``, whose dims are known."""
        assert value.dims is not None
        dims = [self.maybe_one(dim) for dim in value.dims[self.random.choice((0, 0, 0, 1, value.rank)) :]]
        return self.fresh(dtype or value.dtype, dims, fill)

    def control(self, array: Any, fed: float = 0.35) -> Value:
        """A tensor of indices, axes or sizes that are the same at all sizes: a constant, or fed."""
        array = np.asarray(array)
        if not self.chance(fed):
            return self.weight(array)
        return self.fresh(array.dtype.name, array.shape, lambda *_: array, control=True)

    # Nodes

    def node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        outputs: int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> list[Value]:
        """Appends a node. Returns its outputs, with the types that ONNX's shape inference finds."""
        names = [v.name if v is not None else "" for v in inputs]
        while names and not names[-1]:
            names.pop()
        results = [self.name("y") for _ in range(outputs)]
        node = helper.make_node(op, names, results, f"n{len(self.nodes)}", domain=domain, **attributes)
        self.used.update(names)
        self.nodes.append(node)
        made = [self._inferred(node, result, inputs) for result in results]
        self.values.extend(made)
        return made

    def _inferred(self, node: onnx.NodeProto, result: str, inputs: Sequence[Value | None]) -> Value:
        types = {v.name: _type_of(v) for v in inputs if v is not None and v.dtype}
        data = {
            v.name: numpy_helper.from_array(self.weights[v.name])
            for v in inputs
            if v is not None and v.name in self.weights
        }
        imports = [helper.make_opsetid("", self.opset)]
        if node.domain:
            return Value(result, "", None)
        try:
            found = shape_inference.infer_node_outputs(
                self.schema(node.op_type), node, types, data, opset_imports=imports, ir_version=10
            )
        except Exception:  # the draft need not know
            return Value(result, "", None)
        kind = found.get(result)
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.elem_type:
            return Value(result, "", None)
        tensor = kind.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
        if not tensor.HasField("shape"):
            return Value(result, dtype, None)
        dims = tuple(_dim(d) for d in tensor.shape.dim)
        return Value(
            result, dtype, tuple(d if isinstance(d, int) or d in self.symbols else None for d in dims)
        )

    # The end

    def case(self) -> Case:
        """The model, and feeds at several sizes."""
        outputs = [
            name
            for node in self.nodes
            for name in node.output
            if name and (name not in self.used or self.chance(0.2))
        ]
        sizes = self._sizes()
        feeds = [self._feed(chosen, k) for k, chosen in enumerate(sizes)]
        style = self.pick("open", "open", "open", "open", "static", "unnamed", "rankless")
        if style == "static":
            keep = self.random.randrange(len(feeds))
            feeds, sizes = [feeds[keep]] * 2, [sizes[keep]] * 2
        inputs = [self._declared(i.value, style, feeds[0]) for i in self.inputs]
        graph = helper.make_graph(
            self.nodes,
            "g",
            inputs,
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [
                numpy_helper.from_array(array, name)
                for name, array in self.weights.items()
                if name in self.used
            ],
        )
        domains = sorted({node.domain for node in self.nodes if node.domain})
        imports = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(name, 1) for name in domains)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=13 if self.opset > 25 else 10)
        controls = tuple(i.value.name for i in self.inputs if i.control)
        return Case(self.seed, model, feeds, tuple(n.op_type for n in self.nodes), controls, sizes)

    def _declared(self, value: Value, style: str, feed: Mapping[str, Array]) -> onnx.ValueInfoProto:
        kind = (
            TensorProto.STRING
            if value.dtype == "object"
            else helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
        )
        shape: Any = value.dims
        if style == "static":
            shape = feed[value.name].shape
        elif style == "rankless" and self.chance(0.5):
            shape = None
        elif style == "unnamed":
            shape = [None if isinstance(d, str) and self.chance(0.7) else d for d in value.dims or ()]
        return helper.make_tensor_value_info(value.name, kind, shape)

    def _sizes(self) -> list[dict[str, int]]:
        """Sizes: all ones first, then random ones."""
        made: list[dict[str, int]] = []
        for k in range(FEEDS if self.symbols else 2):
            sizes: dict[str, int] = {}
            for name, symbol in self.symbols.items():
                if symbol.of is not None:
                    sizes[name] = symbol.of(sizes, self.random)
                elif k == 0:
                    sizes[name] = max(1, min(symbol.choices))
                elif k == 1:
                    sizes[name] = max(symbol.choices)
                else:
                    sizes[name] = self.random.choice(symbol.choices)
            made.append(sizes)
        return made

    def _feed(self, sizes: Sizes, number: int) -> dict[str, Array]:
        rng = np.random.default_rng([self.seed, number])
        feed = {}
        for item in self.inputs:
            shape = tuple(self.size(d, sizes) for d in item.value.dims or ())
            with np.errstate(over="ignore", invalid="ignore"):
                feed[item.value.name] = np.asarray(item.fill(rng, shape, sizes)).astype(item.value.dtype)
        return feed


def _type_of(value: Value) -> onnx.TypeProto:
    kind = (
        TensorProto.STRING
        if value.dtype == "object"
        else helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    )
    return helper.make_tensor_type_proto(kind, value.dims)


def _dim(dim: Any) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value >= 0:  # onnx infers -2 where no window fits
        return int(dim.dim_value)
    return str(dim.dim_param) or None


# Elements


def default_fill(draft: Draft, dtype: str) -> Fill:
    """Small integers, whose float sums and products are exact, or arbitrary numbers."""
    if dtype == "object":
        return words
    if dtype == "bool":
        return lambda rng, shape, _: rng.integers(0, 2, shape).astype(bool)
    if not dtype.startswith("float"):
        return extremes(dtype) if draft.chance(0.15) else integers(0 if dtype.startswith("u") else -4, 5)
    return specials if draft.strange and draft.chance(0.7) else draft.pick(integers(-4, 5), normal)


def integers(low: int, high: int) -> Fill:
    return lambda rng, shape, _: rng.integers(low, high, shape)


def uniform(low: float, high: float) -> Fill:
    return lambda rng, shape, _: rng.uniform(low, high, shape)


def normal(rng: np.random.Generator, shape: tuple[int, ...], _: Sizes) -> Array:
    return rng.standard_normal(shape) * 2


def specials(rng: np.random.Generator, shape: tuple[int, ...], _: Sizes) -> Array:
    """Some elements are NaN, infinite, negative zeros, subnormal or large."""
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 60000.0, -1e30, 0.5, -1.5, 2.5])
    return np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), rng.standard_normal(shape))


def nonzero(rng: np.random.Generator, shape: tuple[int, ...], _: Sizes) -> Array:
    return rng.integers(1, 6, shape)


def extremes(dtype: str) -> Fill:
    info = np.iinfo(dtype)
    some = np.array([info.min, info.max, info.max - 1, 0, 1, 2, 3], dtype)
    return lambda rng, shape, _: rng.choice(some, shape)


def words(rng: np.random.Generator, shape: tuple[int, ...], _: Sizes) -> Array:
    some = np.array(["", "a", "b", "ab", "A b", "ab c", "x,y", "3", "zz zz"], object)
    return np.asarray(rng.choice(some, shape), object)
