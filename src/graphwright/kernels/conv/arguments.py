"""Arguments that the convolution kernels share."""

from __future__ import annotations

from graphwright.ir.symbols import Dim
from graphwright.kernels.library.arguments import Arguments
from graphwright.records import dataclass


@dataclass(frozen=True)
class ConvolutionArgs(Arguments):
    """The first arguments of a convolution. Trailing pads follow from od, oh and ow."""

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
        """The number of output pixels."""
        return self.od * self.oh * self.ow

    @property
    def taps(self) -> Dim:
        """The number of taps of a window."""
        return self.kd * self.kh * self.kw


@dataclass(frozen=True)
class StridedConvolutionArgs(ConvolutionArgs):
    """The arguments of kernels whose x and y may have any memory order. Strides are in elements."""

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
class Convolution2dArgs(Arguments):
    """The first arguments of a convolution over two axes. Trailing pads follow from oh and ow."""

    images: Dim
    groups: Dim
    """In channel blocks, more than one only if the channels of a group fill whole blocks, or if each channel
    is a group.
    """
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
    """Negative if leading rows are skipped."""
    pad_left: Dim
    dilation_h: Dim
    dilation_w: Dim


@dataclass(frozen=True)
class BlockedOperandArgs(Arguments):
    """The arguments after the sizes: strides in elements (of images, channel blocks and rows of x, of the
    residual and of y), and the activation.
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
