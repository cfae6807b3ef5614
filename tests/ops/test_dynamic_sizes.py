"""Every op with every size of its inputs open: one compiled model, run with sizes of 0, 1 and 2 in turn.

``make test`` runs the first sample of each op, and one size of each kind; ``make sizes`` runs all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import graphwright as gw
import graphwright.ops
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Module, Role, Signature, Value
from graphwright.ir.op import Sample, registered_ops
from graphwright.ir.op.region_op import RegionOp
from graphwright.ir.symbols import Expr, evaluate, symbol
from graphwright.ir.types import TensorType

from .support import array_of, arrays_of, bindings, run_reference

graphwright.ops.load()
Sizes = dict[str, int]
REFUSED_OPEN = {
    ("ConvInteger", 2): "a zero point for each feature of a single feature is one for all",
    ("QLinearConv", 1): "a scale of one element may be one for each feature",
    ("Resize", 26): "not_larger takes the least of ratios, which are numbers",
    ("Resize", 27): "not_smaller takes the largest of ratios, which are numbers",
    **{("ScaledConv", k): "a scale of one image is one for all images" for k in (0, 1, 2, 3, 5, 6)},
}
"""Samples that need numbers for sizes, with the reason."""
NO_REFERENCE_SIZES = {
    *("Hardmax", "Compress", "ChannelsLastConv", "Conv", "ConvInteger", "ConvTranspose", "QLinearConv"),
    "Expand",
}
"""Ops whose NumPy meaning takes, or refuses, sizes of 0 that ONNX Runtime refuses, or takes."""


def is_open(sample: Sample) -> bool:
    """Whether the sample can have dynamic sizes: it has a tensor operand, and no symbols in its
    attributes.
    """
    attributes = [v for value in sample.op.attributes().values() for v in (value, *_items(value))]
    tensors = [arg.type for arg in sample.inputs if arg is not None]
    return (
        not sample.error
        and all(t.dtype.bits and t.shape is not None for t in tensors)
        and any(arg is not None and arg.values is None for arg in sample.inputs)
        and not any(isinstance(value, Expr) for value in attributes)
    )


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else ()


def cases() -> Iterator[Any]:
    """The samples: all but the first of each op are of the sweep."""
    for name, cls in registered_ops().items():
        if not cls.__module__.startswith("graphwright.ops.") or issubclass(cls, RegionOp):
            continue
        known = [(k, sample) for k, sample in enumerate(cls.samples) if is_open(sample)]
        known = [(k, sample) for k, sample in known if (name, k) not in REFUSED_OPEN]
        for place, (k, sample) in enumerate(known):
            marks = [pytest.mark.sweep] if place else []
            yield pytest.param(sample, not place, id=f"{name}-{k}", marks=marks)


def build(sample: Sample) -> tuple[Module, Sizes]:
    """The sample with a symbol for every size, and the sizes that it has."""
    known, sizes, specs = bindings(sample), Sizes(), []
    for number, arg in enumerate(sample.inputs):
        if arg is not None and arg.values is None:
            dims = []
            for dim in arg.type.dims:
                sizes[f"S{len(sizes)}"] = evaluate(dim, known)
                dims.append(symbol(f"S{len(sizes) - 1}"))
            specs.append((f"x{number}", TensorType(arg.type.dtype, tuple(dims))))
    module = Module()
    b, inputs = new_main_graph(module, specs)
    made = b(sample.op, *operands(sample, b, inputs), known=output_types(sample))
    outputs = made if isinstance(made, tuple) else (made,)
    b.graph.set_outputs(outputs, [f"y{number}" for number in range(len(outputs))])
    module.signatures["main"] = Signature((Role.DATA,) * len(inputs))
    return module, sizes


def output_types(sample: Sample) -> list[TensorType]:
    """The dtypes that an importer knows where ranks are not known."""
    b, _ = new_main_graph(Module(), [])
    values = [None if array is None else b.const(array) for array in arrays_of(sample)]
    made = b(sample.op, *values)
    outputs = made if isinstance(made, tuple) else (made,)
    return [TensorType(value.type.dtype, None) for value in outputs]


def operands(sample: Sample, b: Builder, inputs: list[Value]) -> Iterator[Value | None]:
    """Inputs where sizes are open, constants where the sample gives the elements."""
    left, arrays = iter(inputs), arrays_of(sample)
    for arg, array in zip(sample.inputs, arrays, strict=True):
        yield None if arg is None else next(left) if arg.values is None else b.const(array)


def variations(sizes: Sizes, is_short: bool) -> Iterator[Sizes]:
    """``sizes`` unchanged, then all sizes 1, then one size after the other 0, 1 and 2."""
    yield sizes
    yield dict.fromkeys(sizes, 1)
    for number in (0, 1, 2):
        for name in list(sizes)[:: len(sizes) or 1] if is_short else sizes:
            yield {**sizes, name: number}


def arrays_with(sample: Sample, sizes: Sizes) -> list[Any]:
    rng, left = np.random.default_rng(1), iter(sizes.values())
    arrays: list[Any] = arrays_of(sample)
    for number, arg in enumerate(sample.inputs):
        if arg is not None and arg.values is None:
            shape = tuple(next(left) for _ in arg.type.dims)
            sized = dataclasses.replace(arg, type=TensorType(arg.type.dtype, shape))
            arrays[number] = array_of(sized, {}, rng)
    return arrays


def expected_of(sample: Sample, arrays: list[Any]) -> list[Any] | None:
    """The result of the op's reference for these sizes; None if it rejects them."""
    open_ = [number for number, arg in enumerate(sample.inputs) if arg is not None and arg.values is None]
    types = [(f"x{n}", TensorType(sample.inputs[n].type.dtype, arrays[n].shape)) for n in open_]  # type: ignore[union-attr]
    try:
        b, inputs = new_main_graph(Module(), types)
        b(sample.op, *operands(sample, b, inputs))
        with np.errstate(all="ignore"):
            return list(run_reference(sample.op, arrays))
    except (gw.GraphwrightError, ArithmeticError, LookupError, ValueError):
        return None


def tensors(values: Iterable[Any]) -> list[Any]:
    """Results as arrays, those in sequences and maps too."""
    flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
    return [np.asarray([*item.values()]) if isinstance(item, dict) else item for item in flat]


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("sample, is_short", list(cases()))
def test_a_model_of_dynamic_sizes_is_right_at_each(sample: Sample, is_short: bool) -> None:
    module, known = build(sample)
    model = gw.compile(module)
    for sizes in variations(known, is_short):
        arrays = arrays_with(sample, sizes)
        expected = expected_of(sample, arrays)
        feeds = {spec.name: arrays[int(spec.name[1:])] for spec in model.inputs}
        if sample.op.name in NO_REFERENCE_SIZES and 0 in sizes.values():
            continue
        if expected is None:
            with pytest.raises(gw.GraphwrightError):
                model.run(feeds)
            continue
        for actual, wanted in zip(tensors(model.run(feeds).values()), tensors(expected), strict=True):
            assert actual.shape == wanted.shape, sizes
            close = 2e-2 if wanted.dtype.itemsize < 4 else 1e-3
            kind = np.complex128 if wanted.dtype.kind != "b" else np.bool_
            np.testing.assert_allclose(
                actual.astype(kind), wanted.astype(kind), close, close / 10, str(sizes)
            )
