"""What the args of convolutions have in common."""

from __future__ import annotations

from graphwright.ir.symbols import Dim
from graphwright.kernels.library.arguments import Arguments
from graphwright.records import dataclass


@dataclass(frozen=True)
class ConvolutionArgs(Arguments):
    """The first args of a convolution. Pads at the end follow from od, oh, ow."""

    images: Dim
    groups: Dim
    cin: Dim
    """Input channels per group."""
    cout: Dim
    """Output channels per group."""
    d: Dim
    h: Dim
    w: Dim
    od: Dim
    oh: Dim
    ow: Dim
    kd: Dim
    kh: Dim
    kw: Dim
    stride_d: Dim
    stride_h: Dim
    stride_w: Dim
    pad_front: Dim
    pad_top: Dim
    pad_left: Dim
    dilation_d: Dim
    dilation_h: Dim
    dilation_w: Dim

    @property
    def pixels(self) -> Dim:
        """Of the output."""
        return self.od * self.oh * self.ow

    @property
    def taps(self) -> Dim:
        """Of a window."""
        return self.kd * self.kh * self.kw


@dataclass(frozen=True)
class StridedConvolutionArgs(ConvolutionArgs):
    """Of those whose x and y lie in any memory order: strides in elements."""

    x_n: Dim
    x_c: Dim
    x_d: Dim
    x_h: Dim
    x_w: Dim
    y_n: Dim
    y_c: Dim
    y_d: Dim
    y_h: Dim
    y_w: Dim
    act: Dim
    """0 none, 1 relu."""


@dataclass(frozen=True)
class BlockedConvolutionArgs(Arguments):
    """The first args of a convolution of images in blocks of channels. Pads at the end follow from oh, ow."""

    images: Dim
    groups: Dim
    """More than one only if channels of a group fill whole blocks, or each channel is a group."""
    cin: Dim
    """Input channels per group."""
    cout: Dim
    """Output channels per group."""
    h: Dim
    w: Dim
    oh: Dim
    ow: Dim
    kh: Dim
    kw: Dim
    stride_h: Dim
    stride_w: Dim
    pad_top: Dim
    """Negative where rows are left out."""
    pad_left: Dim
    dilation_h: Dim
    dilation_w: Dim


@dataclass(frozen=True)
class BlockedOperandArgs(Arguments):
    """What follows the sizes: strides in elements, of images, blocks of channels and rows of x, of the
    residual and of y; and what the store does.
    """

    x_n: Dim
    x_cb: Dim
    x_h: Dim
    r_n: Dim
    r_cb: Dim
    r_h: Dim
    y_n: Dim
    y_cb: Dim
    y_h: Dim
    act: Dim
    """0 none, 1 relu, 2 clip to [lo, hi]."""
    lo: Dim
    """The bits of an f32, as are those of ``hi``."""
    hi: Dim
