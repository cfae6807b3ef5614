"""A convolution with channel blocks: its sizes, strides, weights and operands, as its kernels take them."""

from __future__ import annotations

from graphwright.ir.graph import Value
from graphwright.ir.symbols import Dim, numbers
from graphwright.ir.types import Layout
from graphwright.kernels.candidates.blocks import block_strides
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.contractions import Contraction
from graphwright.kernels.candidates.packing import packed, repeated
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.strides import row_major_strides
from graphwright.layout.blocks import is_blocked
from graphwright.ops.nn.spatial import Windows
from graphwright.records import dataclass


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

    @property
    def has_known_sizes(self) -> bool:
        """Whether the sizes of an image are known; their number may be dynamic."""
        return all(isinstance(size, int) for size in self.sizes)

    @property
    def is_static(self) -> bool:
        """Whether the number of images is known too."""
        return self.has_known_sizes and isinstance(self.x.type.dims[0], int)

    @property
    def sizes(self) -> tuple[Dim, ...]:
        """The height and width of the image, then those of the result."""
        return (*two_axes(self.x.type.dims)[2:], *two_axes(self.call.node.output.type.dims)[2:])

    @property
    def taps(self) -> tuple[Dim, ...]:
        """The kernel sizes, strides, leading pads and dilations."""
        window = self.window
        return (*window.kernel, *window.strides, *window.pads[:2], *window.dilations)

    def pixels(self, lanes: int) -> tuple[int, int]:
        """The elements between pixels of the result, and the number of its contiguous channels."""
        return (lanes, lanes) if is_blocked(self.call.node.output) else (1, 1)

    @property
    def strides(self) -> tuple[Dim, ...]:
        """The strides of the residual, then those of the result."""
        result = self.call.node.output
        planes = row_major_strides(two_axes(result.type.dims))[:3]
        own = block_strides(result) if is_blocked(result) else planes
        return (*(own if self.call.epilogue.residual is not None else (0, 0, 0)), *own)

    @property
    def differs_by_image(self) -> bool:
        """Whether each image has weights of its own."""
        return self.scale is not None and self.scale.type.dims[0] != 1

    @property
    def images_and_groups(self) -> tuple[Dim, Dim]:
        """The numbers that the direct kernel receives: images with weights of their own are groups."""
        images = self.x.type.dims[0]
        return (1, images) if self.differs_by_image else (images, self.group)

    def packed(self, blocks: tuple[tuple[int, int], ...], context: Context) -> Value:
        """The weights with ``blocks`` of axes, as a layout has them, multiplied by the scale."""
        w = self.w
        shape = None if len(w.type.dims) == 4 else numbers(two_axes(w.type.dims))
        layout = Layout((0, 1, 2, 3), blocks, zero_padded=True)
        return packed(w, layout, self.call.node, context, shape, self.scale)

    def operands(
        self, abi: Abi, weights: Value, context: Context, *, in_place: bool = True
    ) -> tuple[Value | None, ...]:
        """The operands of a kernel. ``in_place``: it stores tiles where the epilogue function finds them, not
        in scratch memory first.
        """
        bias, call = self._bias(context), self.call
        y = call.tiles if call.hook is not None and in_place else call.result
        return abi.ordered(x=self.x, w=weights, bias=bias, residual=call.epilogue.residual, y=y)

    def _bias(self, context: Context) -> Value | None:
        """The bias padded to whole channel blocks, repeated for each group."""
        bias = self._bias_of_a_group(context)
        if bias is None or not self.differs_by_image:
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
