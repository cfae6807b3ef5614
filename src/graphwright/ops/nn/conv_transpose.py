"""ConvTranspose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.arithmetic import Arithmetic
from graphwright.ir.interfaces.blocked_form import Blocked, BlockedForm, can_be_blocked, has_one_channel
from graphwright.ir.interfaces.output_channels import OutputChannels
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import (
    Array,
    Fact,
    Importer,
    Inference,
    InferError,
    Op,
    Sample,
    Trait,
    UnknownRank,
    arg,
    op,
)
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, maximum, product, symbol
from graphwright.ir.types import F32, F64, TensorType
from graphwright.ops.core.checks import FLOATS, need_dtype, same_dtype
from graphwright.ops.core.size_inference import number
from graphwright.ops.nn.spatial import (
    WINDOW_ATTRIBUTES,
    Windows,
    accumulator,
    halves,
    import_padding,
    need_bias,
    need_equal_ranks,
    span,
    tap,
    verify_groups,
    windows,
)
from graphwright.records import replace


@op("ConvTranspose")
class ConvTranspose(Arithmetic, BlockedForm, OutputChannels, PaddingRule, Op):
    """Transposed convolution of x[N, C, D...] with w[C, M/group, K...], plus the optional bias[M]: y[N, M,
    D'...].

    It is the adjoint of Conv with the same attributes. ``pads`` are cropped from the result,
    ``output_padding`` extends its end. ``output_shape`` or ``auto_pad`` determine both.
    """

    strides: tuple[int, ...] = ()
    pads: tuple[Dim, ...] = ()
    dilations: tuple[int, ...] = ()
    output_padding: tuple[Dim, ...] = ()
    group: int = 1
    auto_pad: str = ""
    output_shape: tuple[int, ...] = ()
    traits = Trait.CONTRACTION
    optional_inputs = frozenset({2})

    def verify(self) -> None:
        verify_groups(self.group, self.auto_pad)
        if any(isinstance(extra, int) and extra < 0 for extra in self.output_padding):
            raise InferError(f"the output paddings {list(self.output_padding)} must be at least 0")

    def windows(self, kernel: tuple[Dim, ...]) -> Windows:
        """The windows of the convolution, given the spatial sizes of the weight."""
        return windows(kernel, self.strides, self.dilations, self.pads)

    def fold_operands(self, x: Fact, w: Fact, bias: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        """Computes the pads. :meth:`infer` rejects lists of a wrong length."""
        if not (self.auto_pad or self.output_shape) or x.type.shape is None or w.type.shape is None:
            return None
        shape = self.windows(w.shape[2:])
        if len(self.output_shape) not in (0, shape.rank, shape.rank + 2) or x.rank != w.rank:
            return None
        wanted = self.output_shape[-shape.rank :] or [
            d * s for d, s in zip(x.shape[2:], shape.strides, strict=False)
        ]
        excess = [
            have - want for have, want in zip(self._full_sizes(shape, x.shape[2:]), wanted, strict=False)
        ]
        pads = halves([maximum(total, 0) for total in excess], self.auto_pad == "SAME_UPPER")
        padding = self.output_padding or (0,) * shape.rank
        extended = tuple(extra + maximum(-total, 0) for extra, total in zip(padding, excess, strict=False))
        folded = replace(self, pads=pads, output_padding=extended, auto_pad="", output_shape=())
        return folded, (0, 1) if bias is None else (0, 1, 2)

    def _full_sizes(self, shape: Windows, dims: tuple[Dim, ...]) -> list[Dim]:
        """The spatial sizes of the result before ``pads`` are cropped."""
        padding = self.output_padding or (0,) * shape.rank
        return [
            (dim - 1) * stride + span(size, dilation) + extra
            for dim, size, stride, dilation, extra in zip(
                dims, shape.kernel, shape.strides, shape.dilations, padding, strict=False
            )
        ]

    def infer(self, at: Inference, x: Fact, w: Fact, bias: Fact | None = None) -> TensorType:
        need_dtype(at, x, FLOATS)
        same_dtype(at, x, w, *([] if bias is None else [bias]))
        need_equal_ranks(at, x, w)
        if self.auto_pad or self.output_shape:
            if len(self.output_shape) not in (0, x.rank - 2, x.rank):
                raise at.fail(f"the output_shape is {list(self.output_shape)} for {x.rank - 2} spatial axes")
            raise UnknownRank
        shape = self.windows(w.shape[2:])
        shape.check(at)
        if len(self.output_padding) not in (0, shape.rank):
            raise at.fail(
                f"{len(self.output_padding)} output paddings for {shape.rank} spatial axes: one per axis"
            )
        at.equal(x.shape[1], w.shape[0], "channels of the input and of the weight")
        if isinstance(w.shape[0], int):
            at.divide(w.shape[0], self.group, "channels of the weight")
        features = w.shape[1] * self.group
        need_bias(at, bias, features)
        sizes = []
        for axis, size in enumerate(self._full_sizes(shape, x.shape[2:])):
            sizes.append(size - shape.pads[axis] - shape.pads[axis + shape.rank])
            at.at_least(sizes[-1], 0, f"spatial axis {axis} of the result")
        return TensorType(x.dtype, (x.shape[0], features, *sizes))

    def operations(self, node: Node) -> Dim:
        return 2 * product(node.operand(0).type.dims) * product(node.operand(1).type.dims[1:])

    def weights_by_channel(self, weights: Array) -> Array:
        channels, per_group, *_ = weights.shape
        grouped = weights.reshape(self.group, channels // self.group, per_group, -1)
        return grouped.swapaxes(1, 2).reshape(self.group * per_group, -1)

    def along_channels(self, scale: Array, weights: tuple[int, ...]) -> Array:
        """Rows of group g of the weights make the output channels g * M/group and following."""
        channels, per_group, *taps = weights
        by_row = np.repeat(scale.reshape(self.group, per_group), channels // self.group, axis=0)
        return by_row.reshape(channels, per_group, *(1 for _ in taps))

    def padding_leak(self, node: Node, padded: Padded) -> str:
        """Padding of a spatial axis would add to valid elements, because windows overlap."""
        weights = any(padded.axes(value) for value in node.inputs[1:])
        only_batch = padded.axes(node.operand(0)) <= {0} and not weights
        return "" if only_batch else "its windows overlap along a padded axis"

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """Convolutions with one group, or with groups of whole blocks. A result of one channel is row-major;
        this is supported if windows do not overlap.
        """
        x, w, y = operands[0], operands[1], node.output
        assert x is not None and w is not None
        if not all(is_constant(v) for v in operands[1:] if v is not None):
            return "its weights are not constant"
        if not all(isinstance(pad, int) for pad in self.pads):
            return "its pads are symbolic"
        cin, cout, *_ = w.type.sizes
        if self.group > 1 and (cin // self.group % lanes or cout % lanes):
            return f"groups of {cin // self.group} to {cout} channels do not fill blocks of {lanes}"
        single = has_one_channel(y) and not self.overlaps(w.type.dims[2:])
        if not can_be_blocked(x) or not (single or can_be_blocked(y)):
            return f"a transposed convolution of {x.type} to {y.type} has no channel-blocked form"
        return Blocked(results=frozenset()) if single else Blocked()

    def overlaps(self, kernel: Sequence[Dim]) -> bool:
        """Whether an output element is in several windows or in none, or is cropped."""
        window = self.windows(tuple(kernel))
        has_gaps = window.kernel != window.strides or set(window.dilations) != {1}
        return has_gaps or any(window.pads) or any(self.output_padding)

    def reference(self, x: Array, w: Array, bias: Array | None = None) -> Array:
        shape, dims, wide, groups = self.windows(w.shape[2:]), x.shape[2:], accumulator(x), self.group
        features, length = w.shape[1], int(np.prod(dims))
        full = [number(size) for size in self._full_sizes(shape, dims)]
        weights = w.astype(wide, copy=False).reshape(groups, -1, *w.shape[1:]).swapaxes(1, 2)
        columns = x.astype(wide, copy=False).reshape(len(x), groups, x.shape[1] // groups, length)
        out = np.zeros((len(x), groups, features, *full), wide)
        for position in shape.positions():
            part = np.matmul(weights[tap(position)], columns)
            out[shape.elements_of_tap(position, dims)] += part.reshape(len(x), groups, features, *dims)
        begins, ends = shape.pads[: shape.rank], shape.pads[shape.rank :]
        kept = tuple(slice(number(b), n - number(e)) for b, e, n in zip(begins, ends, full, strict=True))
        out = out.reshape(len(x), groups * features, *full)[tap(kept)]
        if bias is not None:
            out = out + bias.astype(wide).reshape(-1, *[1] * shape.rank)
        return np.array(out, dtype=x.dtype, order="C")


def _import(i: Importer) -> Any:
    pads, auto_pad = import_padding(i)
    transposed = ConvTranspose(
        strides=tuple(i.attr("strides", ())),
        pads=pads,
        dilations=tuple(i.attr("dilations", ())),
        output_padding=tuple(i.attr("output_padding", ())),
        group=i.attr("group", 1),
        auto_pad=auto_pad,
        output_shape=tuple(i.attr("output_shape", ())),
    )
    bias = i.optional(2)
    return i.emit(transposed, i.input(0), i.input(1), *([] if bias is None else [bias]))


ConvTranspose.onnx = {("ConvTranspose", 1): _import}
ConvTranspose.to_onnx = as_onnx(
    "ConvTranspose", WINDOW_ATTRIBUTES, output_padding="output_padding", output_shape="output_shape"
)
_X, _W = arg(F32, 2, 4, 3, 5), arg(F32, 4, 3, 3, 3)
ConvTranspose.samples = (
    Sample(ConvTranspose(), (_X, _W)),
    Sample(ConvTranspose((2, 2), (1, 1, 1, 1)), (arg(F32, symbol("N"), 4, symbol("H"), 5), _W, arg(F32, 3))),
    Sample(ConvTranspose((3, 2), (0, 1, 2, 0), (2, 1), (1, 0)), (_X, _W)),
    Sample(ConvTranspose((2, 2), group=2), (_X, _W, arg(F32, 6))),
    Sample(ConvTranspose((2, 2), auto_pad="SAME_UPPER"), (arg(F32, 2, 4, symbol("H"), 5), _W)),
    Sample(ConvTranspose((4, 4), auto_pad="SAME_LOWER"), (_X, _W)),
    Sample(ConvTranspose((2, 2), output_shape=(6, 9)), (_X, _W)),
    Sample(ConvTranspose((2,)), (arg(F64, 1, 2, 4), arg(F64, 2, 3, 2))),
    Sample(ConvTranspose(), (arg(F32, 1, 2, 2, 3, 2), arg(F32, 2, 2, 2, 2, 2))),
    Sample(ConvTranspose(), (_X, arg(F32, 3, 3, 3, 3)), "4 and 3 differ"),
    Sample(ConvTranspose(group=3), (_X, _W), "channels of the weight: 4 is not a multiple of 3"),
    Sample(ConvTranspose((4,), auto_pad="SAME_LOWER"), (_X, _W), "1 strides for 2 spatial axes"),
    Sample(ConvTranspose(output_padding=(-1, 0)), (_X, _W), "output paddings [-1, 0] must be at least 0"),
    Sample(ConvTranspose(), (_X, _W, arg(F32, 2)), "bias and features: 2 and 3 differ"),
    Sample(ConvTranspose(output_shape=(6, 9, 1)), (_X, _W), "for 2 spatial axes"),
    Sample(ConvTranspose(pads=(9, 0, 0, 0)), (_X, _W), "spatial axis 0 of the result: -4 is less than 0"),
)
