"""Convolutions on channel blocks: depthwise, direct, or Winograd if that is predicted to be faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from graphwright.cost.nominal import nominal
from graphwright.ir.graph import Value
from graphwright.ir.interfaces.arithmetic import operations_of
from graphwright.ir.symbols import Dim, ceildiv, numbers
from graphwright.ir.types import F32, Layout
from graphwright.kernels.candidates.blocks import block_strides
from graphwright.kernels.candidates.context import Context, Contraction
from graphwright.kernels.candidates.packing import packed, repeated
from graphwright.kernels.conv import (
    bf16_direct,
    blocked_depthwise,
    direct,
    winograd,
    winograd_cost,
    winograd_transforms,
)
from graphwright.kernels.conv.sliding import Sliding, sliding
from graphwright.kernels.conv.winograd import Conv3x3
from graphwright.kernels.kernel_choice import NotTaken, WhyNot
from graphwright.kernels.launch import Launch, Run, only_where
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.strides import row_major_strides
from graphwright.layout.blocks import is_blocked
from graphwright.ops.nn.spatial import Windows
from graphwright.records import dataclass

_LARGE_SIZES = (1024, 4096, 16384)
"""Nominal values of unknown sizes for the choice of a Winograd form: it must pay off for one of them."""


@dataclass(frozen=True)
class Form:
    """A Winograd convolution with tiles of m x m pixels. ``halved``: half as many tiles per block as are
    predicted to fit the L2 cache.
    """

    tile: Literal[2, 4]
    halved: bool = False

    def __str__(self) -> str:
        return f"winograd {self.tile}x{self.tile}{' in half blocks' if self.halved else ''}"

    def blocking(self, predicted: tuple[Dim, Dim]) -> tuple[Dim, Dim]:
        """The tiles per block and groups per unit, derived from the ``predicted`` ones."""
        tiles, groups = predicted
        return (ceildiv(tiles, 2) if self.halved else tiles), groups


def _form_name(form: Form | None) -> str:
    """The name of a form in tuning records; None is the direct kernel."""
    return "direct" if form is None else str(form)


_SHORT_ROW = 8
"""Rows of fewer pixels leave a tile half empty."""


@dataclass(frozen=True)
class BlockedConvolution:
    """A convolution over two spatial axes with a channel-blocked result; ``w`` and ``bias`` are constants."""

    call: Contraction
    x: Value
    w: Value
    bias: Value | None
    group: int
    window: Windows
    in_bf16: bool = False
    scale: Value | None = None
    """A scale of the input channels, for each image or shared: it multiplies the weights before each launch.
    If it differs by image, each image becomes a group with weights of its own.
    """

    def launch(self, context: Context) -> Launch | Run | str:
        """The kernel that is predicted to be the fastest, or the reason why none supports the epilogue. If
        this depends on unknown sizes, the result has two launches, one of which has a grid of 0 in each run.
        """
        epilogue = self.call.epilogue
        if epilogue.scale != 1 or (self.bias is not None and epilogue.bias is not None):
            return "the kernel cannot scale, or add a second bias, when it stores"
        if epilogue.bias is not None and epilogue.bias.layout is None:
            return "its bias is computed"
        if epilogue.residual is not None and not is_blocked(self.call.node.output):
            return "its residual is not channel-blocked"
        if self.in_bf16:
            return self._launch_in_bf16(context)
        if self.group > 1 and self.w.type.dims[1] == 1:
            return self._depthwise(context)
        form = self._winograd_form(context)
        if form is None:
            return self._direct(context)
        winograd, pays = self._winograd(form, context)
        if not self._has_both:  # with several images, Winograd pays off even more
            return winograd
        operations = operations_of(self.call.node)
        instead = only_where(1 - pays, self._direct(context), operations)
        return Run((instead, only_where(pays, winograd, operations)))

    def _winograd_form(self, context: Context) -> Form | None:
        """The Winograd form that is faster than the direct kernel, by prediction or measurement."""
        refusal = self._winograd_refusal(context)
        if refusal is not None:
            context.weighed.append(refusal)
            return None
        cout, cin = self.w.type.sizes[:2]
        images = self.x.type.dims[0]
        counts = two_axes(self.call.node.output.type.dims)[2:]
        oh, ow = (nominal(dim, context.symbols, _LARGE_SIZES) for dim in counts)
        count = images if isinstance(images, int) else 1
        ranked = winograd_cost.ranked(context.isa, Conv3x3(count, cin, cout, oh, ow), self.in_bf16)
        forms = [None if form == "direct" else Form(form) for form in ranked]
        chosen = self._chosen(forms, context) if self._is_static else forms[0]
        for form, ns in zip(forms, ranked.values(), strict=True):
            if form != chosen and not (form is None and self._has_both):
                code = WhyNot.COST if form != forms[0] else WhyNot.MEASURED
                why = "" if self._is_static else f"{ns / 1000:.1f} us for an image of {oh} x {ow}"
                context.weighed.append(NotTaken(_form_name(form), code, why, None if why else ns))
        return chosen

    @property
    def _has_both(self) -> bool:
        """Whether a choice between Winograd and the direct kernel remains for run time."""
        return not all(isinstance(size, int) for size in self._sizes)

    def _winograd_refusal(self, context: Context) -> NotTaken | None:
        """The reason why no Winograd form is used."""
        window = self.window
        if (window.kernel, window.strides, window.dilations) != ((3, 3), (1, 1), (1, 1)) or self.group > 1:
            why = "it supports only 3x3 kernels with stride 1, dilation 1 and one group"
        elif not (is_blocked(self.x) and is_blocked(self.call.node.output)):
            why = "it needs a channel-blocked input and output"
        elif not all(isinstance(pad, int) and pad <= 2 for pad in window.pads):
            why = "it supports pads of at most 2 pixels"
        elif context.numerics == "strict":
            return NotTaken("winograd", WhyNot.NUMERICS, "excluded by numerics=strict")
        else:
            return None
        return NotTaken("winograd", WhyNot.ILLEGAL, why)

    def _chosen(self, forms: Sequence[Form | None], context: Context) -> Form | None:
        """The chosen one of ``forms``, of which the first is predicted to be the fastest; None is the direct
        kernel.
        """
        halved = [Form(form.tile, halved=True) for form in forms if form is not None]
        names = {_form_name(form): form for form in (*forms, *halved)}
        epilogue, hook = self.call.epilogue, self.call.hook
        details = epilogue.args, epilogue.residual is not None, self.bias is not None, hook is not None
        return names[context.choose("convolution", self.call.node, list(names), *details)]

    def _winograd(self, form: Form, context: Context) -> tuple[Launch, Dim]:
        """The launch, and a Dim that is 1 if it is predicted to be faster than the direct kernel, else 0."""
        cout, cin = self.w.type.sizes[:2]
        m, isa, images, sizes = form.tile, context.isa, self.x.type.dims[0], self._sizes
        blocking = form.blocking(winograd.blocking(m, isa, Conv3x3(images, cin, cout, *sizes[2:])))
        args = winograd.WinogradArgs(*(
            images, cin, cout, *sizes, *self.window.pads[:2], *block_strides(self.x), *self._strides,
            *self.call.epilogue.args, *blocking,
        ))  # fmt: skip
        launch = self.call.launch(
            winograd.SYMBOLS[m],
            self._operands(winograd.ABI, self._transformed(m, context), context),
            args,
            winograd.grid(m, isa, args),
            winograd.scratch_bytes(m, isa, args),
            winograd_cost.work_ns(m, isa, args),
        )
        return launch, winograd_cost.pays(m, isa, args)

    def _transformed(self, m: int, context: Context) -> Value:
        cout, cin = self.w.type.sizes[:2]
        isa = context.isa
        return context.derived(
            self.w,
            f"winograd {m}",
            winograd_transforms.transformed_shape(cout, cin, m, isa),
            lambda out, w: winograd_transforms.transform_weights(out, w, m, isa),
            F32,
        )

    def _depthwise(self, context: Context) -> Launch:
        images, channels, *_ = self.x.type.dims
        args = blocked_depthwise.BlockedDepthwiseArgs(*(
            images, channels, 1, 1, *self._sizes, *self._taps, *block_strides(self.x), *self._strides,
            *self.call.epilogue.args,
        ))  # fmt: skip
        isa = context.isa
        return self.call.launch(
            blocked_depthwise.SYMBOL,
            self._operands(blocked_depthwise.ABI, self._packed(((0, isa.lanes),), context), context),
            args,
            blocked_depthwise.grid(isa, args),
            blocked_depthwise.scratch_bytes(isa, args),
            blocked_depthwise.work_ns(isa, args),
        )

    def _launch_in_bf16(self, context: Context) -> Launch | str:
        """A convolution in bf16. For large images, Winograd in f32 with rounded weights is faster."""
        form = self._winograd_form(context) if self._is_static else None
        return self._direct_in_bf16(context) if form is None else self._winograd(form, context)[0]

    @property
    def _is_static(self) -> bool:
        return all(isinstance(size, int) for size in (self.x.type.dims[0], *self._sizes))

    def _direct_in_bf16(self, context: Context) -> Launch | str:
        isa, args = context.isa, self._direct_args(context)
        if self.group > 1 or not is_blocked(self.x) or self.w.type.sizes[1] % 2:
            return "the bf16 kernel needs one group, channel blocks, and an even number of input channels"
        return self.call.launch(
            bf16_direct.SYMBOL,
            self._operands(direct.ABI, self._pairs(context), context),
            args,
            bf16_direct.grid(isa, args),
            bf16_direct.scratch_bytes(isa, args),
            bf16_direct.work_ns(isa, args),
        )

    def _pairs(self, context: Context) -> Value:
        """The bf16 weights as pairs of input channels."""
        shape, isa = numbers(two_axes(self.w.type.dims)), context.isa
        if shape[1] % (2 * isa.lanes) == 0:
            return context.packed(
                self.w, bf16_direct.weights_layout(isa), bf16_direct.weights_view(shape, isa)
            )
        return context.derived(
            self.w,
            "pairs of channels",
            bf16_direct.packed_shape(shape, isa),
            lambda out, w: bf16_direct.pack_weights(out, w.reshape(shape), isa),
        )

    def _direct(self, context: Context) -> Launch:
        isa, args, planar = context.isa, self._direct_args(context), not is_blocked(self.x)
        outputs = (0, isa.lanes)
        return self.call.launch(
            direct.PLANAR_SYMBOL if planar else direct.SYMBOL,
            self._operands(
                direct.ABI,
                self._packed((outputs,) if planar else ((1, isa.lanes), outputs), context),
                context,
            ),
            args,
            direct.grid(isa, args),
            (direct.planar_scratch_bytes if planar else direct.scratch_bytes)(isa, args),
            direct.work_ns(isa, args, planar),
        )

    def _direct_args(self, context: Context) -> direct.DirectArgs:
        cout, cin = self.w.type.sizes[:2]
        lanes, planar = context.isa.lanes, not is_blocked(self.x)
        axes, pixels = self._direct_axes(context), self._pixels(lanes)
        *image, _ = row_major_strides(two_axes(self.x.type.dims))[:3] if planar else block_strides(self.x)
        *result, _ = self._strides[3:]
        pixel, row = (1 if planar else lanes), axes.counts[-1] * pixels[0]
        added = (*result, row) if self.call.epilogue.residual is not None else (0, 0, 0)
        return direct.DirectArgs(*(
            *self._images_and_groups, cin, cout // self.group, *axes.height_width, *image,
            axes.sizes[-1] * pixel, pixel, *added, *result, row, *pixels, 1, 1, *self.call.epilogue.args,
        ))  # fmt: skip

    @property
    def _images_and_groups(self) -> tuple[Dim, Dim]:
        images = self.x.type.dims[0]
        return (1, images) if self._differs_by_image else (images, self.group)

    @property
    def _differs_by_image(self) -> bool:
        return self.scale is not None and self.scale.type.dims[0] != 1

    def _direct_axes(self, context: Context) -> Sliding:
        """The spatial axes; short rows are joined if windows are one column wide, so that tiles are full."""
        counts = two_axes(self.call.node.output.type.dims)[2:]
        axes = sliding(self.window, two_axes(self.x.type.dims)[2:], counts)
        short = nominal(counts[-1], context.symbols) < _SHORT_ROW
        return axes.merged() if short else axes.without_single_axes()

    @property
    def _sizes(self) -> tuple[Dim, ...]:
        """The height and width of the image, then those of the result."""
        return (*two_axes(self.x.type.dims)[2:], *two_axes(self.call.node.output.type.dims)[2:])

    @property
    def _taps(self) -> tuple[Dim, ...]:
        """The kernel sizes, strides, leading pads and dilations."""
        window = self.window
        return (*window.kernel, *window.strides, *window.pads[:2], *window.dilations)

    def _pixels(self, lanes: int) -> tuple[int, int]:
        """The elements between pixels of the result, and the number of its contiguous channels."""
        return (lanes, lanes) if is_blocked(self.call.node.output) else (1, 1)

    @property
    def _strides(self) -> tuple[Dim, ...]:
        """The strides of the residual, then those of the result."""
        result = self.call.node.output
        planes = row_major_strides(two_axes(result.type.dims))[:3]
        own = block_strides(result) if is_blocked(result) else planes
        return (*(own if self.call.epilogue.residual is not None else (0, 0, 0)), *own)

    def _packed(self, blocks: tuple[tuple[int, int], ...], context: Context) -> Value:
        w = self.w
        shape = None if len(w.type.dims) == 4 else numbers(two_axes(w.type.dims))
        layout = Layout((0, 1, 2, 3), blocks, zero_padded=True)
        return packed(w, layout, self.call.node, context, shape, self.scale)

    def _operands(self, abi: Abi, weights: Value, context: Context) -> tuple[Value | None, ...]:
        bias, call = self._bias(context), self.call
        in_place = abi is not winograd.ABI  # Winograd's tiles are faster if they are in L1
        y = call.tiles if call.hook is not None and in_place else call.result
        return abi.ordered(x=self.x, w=weights, bias=bias, residual=call.epilogue.residual, y=y)

    def _bias(self, context: Context) -> Value | None:
        """The bias padded to whole channel blocks, repeated for each group."""
        bias = self._bias_of_a_group(context)
        if bias is None or not self._differs_by_image:
            return bias
        return repeated(bias, self.x.type.dims[0], self.call.node, context)

    def _bias_of_a_group(self, context: Context) -> Value | None:
        if self.bias is None:
            return self.call.epilogue.bias
        layout = Layout((0,), ((0, context.isa.lanes),), zero_padded=True)
        whole = self.bias.type.dims[0] % context.isa.lanes == 0
        return self.bias if whole else context.packed(self.bias, layout)


def two_axes(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """A shape with exactly two spatial axes."""
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])
