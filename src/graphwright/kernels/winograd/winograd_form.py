"""Chooses the form of Winograd convolution for a convolution of channel blocks, or the direct kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from graphwright.cost.nominal import nominal
from graphwright.ir.symbols import Dim, ceildiv
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.conv.blocked_convolution import BlockedConvolution, two_axes
from graphwright.kernels.kernel_choice import NotTaken, WhyNot
from graphwright.kernels.winograd import winograd_cost
from graphwright.kernels.winograd.winograd import Conv3x3
from graphwright.layout.blocks import is_blocked
from graphwright.records import dataclass

_LARGE_SIZES = (1024, 4096, 16384)
"""Nominal values of unknown sizes for the choice of a Winograd form: it must pay off for one of them."""


@dataclass(frozen=True)
class WinogradForm:
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


def _form_name(form: WinogradForm | None) -> str:
    """The name of a form in tuning records; None is the direct kernel."""
    return "direct" if form is None else str(form)


def faster_form(conv: BlockedConvolution, context: Context) -> WinogradForm | None:
    """The fastest Winograd form by prediction or measurement; None if the direct kernel is faster."""
    refusal = _refusal(conv, context)
    if refusal is not None:
        context.weighed.append(refusal)
        return None
    cout, cin = conv.w.type.sizes[:2]
    images = conv.x.type.dims[0]
    counts = two_axes(conv.call.node.output.type.dims)[2:]
    oh, ow = (nominal(dim, context.symbols, _LARGE_SIZES) for dim in counts)
    count = images if isinstance(images, int) else 1
    shape = Conv3x3(count, cin, cout, oh, ow, conv.window.dilations[0])
    ranked = winograd_cost.ranked(context.isa, shape, conv.in_bf16)
    forms = [None if form == "direct" else WinogradForm(form) for form in ranked]
    chosen = _chosen(conv, forms, context) if conv.is_static else forms[0]
    for form, ns in zip(forms, ranked.values(), strict=True):
        if form != chosen and (form is not None or conv.has_known_sizes):
            code = WhyNot.COST if form != forms[0] else WhyNot.MEASURED
            why = "" if conv.is_static else f"{ns / 1000:.1f} us for an image of {oh} x {ow}"
            context.weighed.append(NotTaken(_form_name(form), code, why, None if why else ns))
    return chosen


def _refusal(conv: BlockedConvolution, context: Context) -> NotTaken | None:
    """The reason why no Winograd form is used."""
    window = conv.window
    dilation = window.dilations[0]
    if (
        (window.kernel, window.strides) != ((3, 3), (1, 1))
        or window.dilations[1] != dilation
        or conv.group > 1
    ):
        why = "it supports only 3x3 kernels with stride 1, equal dilations and one group"
    elif dilation > 1 and conv.call.hook is not None:
        why = "with a dilation, it has no epilogue function"
    elif not (is_blocked(conv.x) and is_blocked(conv.call.node.output)):
        why = "it needs a channel-blocked input and output"
    elif not all(isinstance(pad, int) and pad <= 2 * dilation for pad in window.pads):
        why = "it supports pads of at most 2 pixels, times the dilation"
    elif context.numerics == "strict":
        return NotTaken("winograd", WhyNot.NUMERICS, "excluded by numerics=strict")
    else:
        return None
    return NotTaken("winograd", WhyNot.ILLEGAL, why)


def _chosen(
    conv: BlockedConvolution, forms: Sequence[WinogradForm | None], context: Context
) -> WinogradForm | None:
    """The chosen one of ``forms``, of which the first is predicted to be the fastest; None is the direct
    kernel.
    """
    halved = [WinogradForm(form.tile, halved=True) for form in forms if form is not None]
    names = {_form_name(form): form for form in (*forms, *halved)}
    epilogue, hook = conv.call.epilogue, conv.call.hook
    details = epilogue.args, epilogue.residual is not None, conv.bias is not None, hook is not None
    return names[context.choose("convolution", conv.call.node, list(names), *details)]
