"""Chooses the algorithm of a convolution of channel blocks: direct, or Winograd with tiles of 2 x 2 or 4 x 4
pixels.

:mod:`graphwright.layout.convolution_costs` estimates its time before, for the choice of layouts;
:mod:`graphwright.kernels.bands.chains` decides afterwards which of the chosen kernels run in bands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal

from graphwright.cost.images import bf16_direct_work, direct_work
from graphwright.cost.nominal import nominal
from graphwright.cost.predict import predict
from graphwright.ir.symbols import Dim, ceildiv, evaluate, maximum, minimum, numbers
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.conv.blocked_convolution import BlockedConvolution, two_axes
from graphwright.kernels.kernel_choice import NotTaken, WhyNot
from graphwright.kernels.winograd import winograd_cost
from graphwright.kernels.winograd.winograd import Conv3x3, WinogradArgs, dense_args
from graphwright.layout.blocks import is_blocked
from graphwright.layout.convolution_costs import can_be_winograd
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

_LARGE_SIZES: Final = (1024, 4096, 16384)
"""Nominal values of unknown sizes: Winograd must be faster for one of them."""


@dataclass(frozen=True)
class Winograd:
    """Winograd convolution with tiles of m x m pixels. ``halved``: half as many tiles per block as are
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


Algorithm = Literal["direct"] | Winograd


def choose_algorithm(conv: BlockedConvolution, context: Context) -> Algorithm:
    """The fastest algorithm by prediction or measurement. If the sizes of the image are unknown, Winograd is
    chosen where it is faster for some size: see :func:`is_faster`.
    """
    refusal = _refusal(conv, context)
    if refusal is not None:
        context.weighed.append(refusal)
        return "direct"
    cout, cin = conv.w.type.sizes[:2]
    images = conv.x.type.dims[0]
    counts = two_axes(conv.call.node.output.type.dims)[2:]
    oh, ow = (nominal(dim, context.symbols, _LARGE_SIZES) for dim in counts)
    count = images if isinstance(images, int) else 1
    shape = Conv3x3(count, cin, cout, oh, ow, conv.window.dilations[0])
    predicted = ranked(context.isa, shape, conv.in_bf16)
    fastest, *_ = predicted
    chosen = _measured(conv, list(predicted), context) if conv.is_static else fastest
    for algorithm, ns in predicted.items():
        if algorithm != chosen and (algorithm != "direct" or conv.has_known_sizes):
            code = WhyNot.COST if algorithm != fastest else WhyNot.MEASURED
            why = "" if conv.is_static else f"{ns / 1000:.1f} us for an image of {oh} x {ow}"
            context.weighed.append(NotTaken(str(algorithm), code, why, None if why else ns))
    return chosen


def is_faster(algorithm: Winograd, isa: Isa, args: WinogradArgs) -> Dim:
    """1 if ``algorithm`` is predicted to be faster than direct convolution, else 0; for sizes known only at
    run time.
    """
    cin, cout = numbers((args.cin, args.cout))
    direct = _direct_ns(isa, Conv3x3(args.images, cin, cout, args.oh, args.ow))
    return minimum(1, maximum(0, direct - winograd_cost.work_ns(algorithm.tile, isa, args)))


@lru_cache(maxsize=winograd_cost.KEPT)
def ranked(isa: Isa, conv: Conv3x3, in_bf16: bool = False) -> Mapping[Algorithm, int]:
    """The predicted nanoseconds of each algorithm on dense blocked images of static sizes, fastest first.
    ``in_bf16``: the direct convolution is in bf16.
    """
    costs: dict[Algorithm, Dim] = {"direct": _direct_ns(isa, conv, in_bf16)}
    for algorithm in (Winograd(2), Winograd(4)):
        args = dense_args(algorithm.tile, isa, conv, pads=(1, 1, 1, 1))
        costs[algorithm] = winograd_cost.work_ns(algorithm.tile, isa, args)
    known = {algorithm: evaluate(cost, {}) for algorithm, cost in costs.items()}
    return {algorithm: known[algorithm] for algorithm in sorted(known, key=known.__getitem__)}


def _direct_ns(isa: Isa, conv: Conv3x3, in_bf16: bool = False) -> Dim:
    """The predicted time of direct convolution."""
    pixels = conv.images * conv.oh * conv.ow
    if in_bf16:
        return predict(bf16_direct_work(isa.lanes, pixels, conv.cin, conv.cout, 9, pixels), isa.machine)
    return predict(direct_work(isa.lanes, pixels, conv.cout, 9 * conv.cin), isa.machine)


def _refusal(conv: BlockedConvolution, context: Context) -> NotTaken | None:
    """The reason why Winograd cannot be chosen."""
    window = conv.window
    dilation = window.dilations[0]
    if not can_be_winograd(window, conv.group):
        why = "it supports only 3x3 kernels with stride 1, equal dilations and one group"
    elif dilation > 1 and conv.call.hook is not None:
        why = "with a dilation, it has no epilogue function"
    elif not (is_blocked(conv.x) and is_blocked(conv.call.node.output)):
        why = "it needs a channel-blocked input and output"
    elif not all(isinstance(pad, int) and pad <= 2 * dilation for pad in window.pads):
        why = "it supports pads of at most 2 pixels, times the dilation"
    elif conv.in_bf16 and not conv.is_static:
        why = "for a convolution in bf16, it needs static sizes"
    elif context.numerics == "strict":
        return NotTaken("winograd", WhyNot.NUMERICS, "excluded by numerics=strict")
    else:
        return None
    return NotTaken("winograd", WhyNot.ILLEGAL, why)


def _measured(conv: BlockedConvolution, algorithms: Sequence[Algorithm], context: Context) -> Algorithm:
    """The fastest one of ``algorithms`` by measurement; without measurements the first."""
    halved = [Winograd(each.tile, halved=True) for each in algorithms if isinstance(each, Winograd)]
    names = {str(algorithm): algorithm for algorithm in (*algorithms, *halved)}
    epilogue, hook = conv.call.epilogue, conv.call.hook
    details = epilogue.args, epilogue.residual is not None, conv.bias is not None, hook is not None
    return names[context.choose("convolution", conv.call.node, list(names), *details)]
