"""Which nodes can work on channel blocks, and what that saves: the layout pass decides by it.

A form says which operands and results are blocked when a node works on blocks; the others stay row-major.
Whoever registers a form here provides the kernels that do it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from graphwright.ir.constant import Constant, is_constant
from graphwright.ir.fused import Fused, region_of
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.op import Op, Trait, folding
from graphwright.ir.symbols import Dim, Range, SymbolTable, atoms, evaluate, product
from graphwright.ir.types import F32
from graphwright.layout.blocks import CHANNELS, can_be_blocked
from graphwright.layout.cut import INFINITE
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.split import Split
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.lrn import LRN
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.resize import Resize
from graphwright.ops.nn.spatial import Pool
from graphwright.records import dataclass, field

MAX_PLANAR_CHANNELS = 8
"""Up to so many input channels, a convolution reads planes: blocks would be mostly padding."""

ROW_MAJOR_GFLOPS = 85
"""What the implicit GEMM on row-major images reaches (AVX-512 at 144 GFLOP/s of multiply-adds)."""

ROW_MAJOR_TRANSPOSED_GFLOPS = 38
"""What the transposed convolution of row-major images reaches, which adds the products of each tap."""

DIRECT_GFLOPS = 120
"""What the direct convolution on blocks reaches on the same machine."""

WINOGRAD_GFLOPS = 220
"""What Winograd's forms come to, in the arithmetic of the direct one."""

DEPTHWISE_PLANE_NS = 50
"""What copying the rows of a small plane with their padding costs; measured from 7x7 to 112x112 pixels."""

DEPTHWISE_STORE_NS = 2
"""What each vector of a depthwise convolution's result costs besides its taps."""

POOL_ROW_NS = 12
"""What a row of a pooling's result costs besides its vectors, each about a nanosecond in planes."""

AVERAGE_ROW_NS = 8
"""What counting and dividing adds to it."""

BLOCKED_POOL_VECTOR_NS = 0.65
"""A vector of channels that a pooling combines with another one."""

PLANAR_VECTOR_NS = 0.4
"""A multiply-add of a vector of neighbouring pixels, whose load crosses cache lines."""

BLOCKED_VECTOR_NS = 0.25
"""A multiply-add of a vector of channels."""

MEMORY_GBPS = 10
"""What a pass over a large array reads and writes together."""

CACHED_BYTES = 4 << 20
"""What a transfer reads and writes up to this many bytes stays in the caches."""

CACHE_GBPS = 45
"""What a transfer within them reads and writes together."""

NOMINAL_SIZES = (64, 256, 1024, 4096, 16384)
"""What a size that is not known counts as: the first of these with which there is something to compute."""


@dataclass(frozen=True)
class LayoutChoice:
    """``operands`` and ``results`` by position; ``saves`` in nanoseconds against row-major."""

    operands: frozenset[int]
    results: frozenset[int]
    saves: float = 0.0


@dataclass(frozen=True)
class Blocks:
    """Blocks of so many ``lanes``, and what is known of sizes."""

    lanes: int
    symbols: SymbolTable = field(default_factory=SymbolTable)

    def nominal(self, dim: Dim) -> int:
        """What ``dim`` counts as (:func:`nominal`)."""
        return nominal(dim, self.symbols)


LayoutRule = Callable[[Node, Blocks], "LayoutChoice | str"]
"""The form of a node, or the reason why it has none."""

_RULES: dict[type[Op], LayoutRule] = {}


def form_of(node: Node, blocks: Blocks) -> LayoutChoice | str:
    """How ``node`` works on blocks of channels, or why it does not."""
    rule = _RULES.get(type(node.op))
    return rule(node, blocks) if rule is not None else f"{node.op.name} has no kernel for channel blocks"


def transfer_ns(value: Value, blocks: Blocks) -> float:
    """What bringing ``value`` into the other layout costs."""
    channels = value.type.dims[CHANNELS]
    assert isinstance(channels, int)
    padded = -(-channels // blocks.lanes) * blocks.lanes
    size = blocks.nominal(value.type.bytes) * (1 + padded / channels)
    cached = min(size, CACHED_BYTES)
    return 1000 + cached / CACHE_GBPS + (size - cached) / MEMORY_GBPS


def _form(*ops: type[Op]) -> Callable[[LayoutRule], LayoutRule]:
    def register(rule: LayoutRule) -> LayoutRule:
        for op in ops:
            _RULES[op] = rule
        return rule

    return register


@_form(Conv)
def convolution(node: Node, blocks: Blocks) -> LayoutChoice | str:
    """Dense, grouped by whole blocks, or depthwise; of few channels from planes."""
    return _convolution(node, node.inputs, blocks)


def _convolution(node: Node, operands: Sequence[Value | None], blocks: Blocks) -> LayoutChoice | str:
    """``operands``: those of ``node``, as the graph around a region knows them."""
    op, x, w, y = node.op, operands[0], operands[1], node.output
    assert isinstance(op, Conv) and x is not None and w is not None
    single = _has_one_channel(y) and op.group == 1 and can_be_blocked(x)
    if not (single or can_be_blocked(y)) or x.type.dtype != y.type.dtype:
        return f"no convolution of {x.type} on channel blocks"
    if not all(is_constant(v) for v in operands[1:] if v is not None):
        return "its weights are not constant"
    cout, cin, *kernel = w.type.sizes
    flops = 2.0 * blocks.nominal(y.type.elements) * cin * math.prod(kernel)
    if cin == 1 and cout == op.group > 1:
        saves = _planar_depthwise_ns(y, kernel, blocks) - _blocked_depthwise_ns(y, kernel, blocks)
        return LayoutChoice(frozenset({0}), frozenset({0}), saves - _waste(y, blocks))
    if op.group > 1 and (cin % blocks.lanes or (cout // op.group) % blocks.lanes):
        return f"groups of {cin} to {cout // op.group} channels do not fill blocks of {blocks.lanes}"
    plain = op.group == 1 and kernel == [3, 3] and set(op.strides) <= {1}
    winograd = plain and min(cin, cout) >= blocks.lanes
    speed = WINOGRAD_GFLOPS if winograd else DIRECT_GFLOPS
    pixels = max(blocks.nominal(product(y.type.dims[CHANNELS + 1 :])), 1)  # in lanes there; channels here
    rows = flops * -(-pixels // blocks.lanes) * blocks.lanes / pixels / ROW_MAJOR_GFLOPS
    saves = rows - flops * -(-cout // blocks.lanes) * blocks.lanes / cout / speed
    planar = op.group == 1 and cin <= MAX_PLANAR_CHANNELS
    if single:
        return "planes become one" if planar else LayoutChoice(frozenset({0}), frozenset(), saves)
    return LayoutChoice(frozenset() if planar else frozenset({0}), frozenset({0}), saves)


def _planar_depthwise_ns(y: Value, kernel: Sequence[int], blocks: Blocks) -> float:
    """Planes one by one, their rows in vectors of which the last is seldom full."""
    rows, columns = (1, *y.type.dims[CHANNELS + 1 :])[-2:]
    vectors = blocks.nominal(rows) * -(-blocks.nominal(columns) // blocks.lanes)
    planes = blocks.nominal(product(y.type.dims[: CHANNELS + 1]))
    return planes * (
        DEPTHWISE_PLANE_NS + vectors * (DEPTHWISE_STORE_NS + math.prod(kernel) * PLANAR_VECTOR_NS)
    )


def _blocked_depthwise_ns(y: Value, kernel: Sequence[int], blocks: Blocks) -> float:
    """A vector of channels for each pixel; lanes beyond the last channel are counted as waste."""
    vectors = blocks.nominal(y.type.elements) / blocks.lanes
    return vectors * (DEPTHWISE_STORE_NS + math.prod(kernel) * BLOCKED_VECTOR_NS)


@_form(ConvTranspose)
def transposed_convolution(node: Node, blocks: Blocks) -> LayoutChoice | str:
    """Dense or grouped by whole blocks; into one channel if windows do not overlap."""
    return _transposed(node, node.inputs, blocks)


def _transposed(node: Node, operands: Sequence[Value | None], blocks: Blocks) -> LayoutChoice | str:
    """``operands``: those of ``node``, as the graph around a region knows them."""
    op, x, w, y = node.op, operands[0], operands[1], node.output
    assert isinstance(op, ConvTranspose) and x is not None and w is not None
    if not all(is_constant(v) for v in operands[1:] if v is not None):
        return "its weights are not constant"
    if not all(isinstance(pad, int) for pad in op.pads):
        return "its pads are not known"
    cin, cout, *kernel = w.type.sizes
    if op.group > 1 and (cin // op.group % blocks.lanes or cout % blocks.lanes):
        return f"groups of {cin // op.group} to {cout} channels do not fill blocks of {blocks.lanes}"
    single = _has_one_channel(y) and not overlaps(op, w.type.dims[2:])
    if not can_be_blocked(x) or not (single or can_be_blocked(y)):
        return f"no transposed convolution of {x.type} to {y.type} on channel blocks"
    flops = 2.0 * blocks.nominal(x.type.elements) * cout * math.prod(kernel)
    columns = cout * math.prod(kernel) if single else cout
    padded = flops * -(-columns // blocks.lanes) * blocks.lanes / columns
    saves = flops / ROW_MAJOR_TRANSPOSED_GFLOPS - padded / DIRECT_GFLOPS
    return LayoutChoice(frozenset({0}), frozenset() if single else frozenset({0}), saves)


def overlaps(op: ConvTranspose, kernel: Sequence[Dim]) -> bool:
    """Whether an output element is part of several windows, of none, or cropped away."""
    window = op.windows(tuple(kernel))
    return window.kernel != window.strides or any(window.pads) or any(op.output_padding)


@_form(MaxPool, AveragePool)
def pooling(node: Node, blocks: Blocks) -> LayoutChoice | str:
    """A vector of channels at a time."""
    if len(node.outputs) > 1:
        return "indices of maxima are in row-major order"
    x, y = node.operand(0), node.output
    if not can_be_blocked(x):
        return f"no pooling of {x.type} on channel blocks"
    assert isinstance(node.op, Pool)
    saves = _planar_pool_ns(node.op, x, y, blocks) - _blocked_pool_ns(node.op, x, y, blocks)
    return LayoutChoice(frozenset({0}), frozenset({0}), saves - _waste(y, blocks))


def _planar_pool_ns(op: Pool, x: Value, y: Value, blocks: Blocks) -> float:
    """Row by row in vectors, of which the last is seldom full: the rows of windows, then their columns."""
    kh, kw = (1, *op.kernel)[-2:]
    before, after = (-(-blocks.nominal(v.type.dims[-1]) // blocks.lanes) for v in (x, y))
    rows = blocks.nominal(product(y.type.dims[:-1]))
    divisors = AVERAGE_ROW_NS if isinstance(op, AveragePool) else 0
    return rows * (POOL_ROW_NS + divisors + kh * before + kw * after)


def _blocked_pool_ns(op: Pool, x: Value, y: Value, blocks: Blocks) -> float:
    """The same steps, a vector for each pixel."""
    kh, kw = (1, *op.kernel)[-2:]
    before, after = (blocks.nominal(v.type.dims[-1]) for v in (x, y))
    rows = blocks.nominal(product(y.type.dims[:-1])) / blocks.lanes
    return rows * (POOL_ROW_NS + (kh * before + kw * after) * BLOCKED_POOL_VECTOR_NS)


@_form(Concat)
def concatenation(node: Node, blocks: Blocks) -> LayoutChoice | str:
    """Along channels: memory side by side where operands are whole blocks."""
    op, y = node.op, node.output
    assert isinstance(op, Concat)
    operands = [node.operand(k) for k in range(len(node.inputs))]
    if not can_be_blocked(y) or not all(map(can_be_blocked, operands)):
        return f"no concatenation to {y.type} on channel blocks"
    if op.axis % len(y.type.dims) != CHANNELS:
        return f"a concatenation along axis {op.axis}"
    return LayoutChoice(frozenset(range(len(operands))), frozenset({0}), -_waste(y, blocks))


@_form(Split)
def splitting(node: Node, blocks: Blocks) -> LayoutChoice | str:
    """Along channels."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, Split)
    if not can_be_blocked(x) or not all(map(can_be_blocked, node.outputs)):
        return f"no split of {x.type} on channel blocks"
    if op.sizes is None or op.axis % len(x.type.dims) != CHANNELS:
        return "the split is along another axis, or at computed positions"
    return LayoutChoice(frozenset({0}), frozenset(range(len(node.outputs))), -_waste(x, blocks))


@_form(Resize)
def resizing(node: Node, blocks: Blocks) -> LayoutChoice | str:
    """Over the pixels, as the row-major kernel does."""
    op, x, y = node.op, node.operand(0), node.output
    assert isinstance(op, Resize)
    if not can_be_blocked(x) or x.type.dims[:2] != y.type.dims[:2]:
        return f"no resize of {x.type} on channel blocks"
    if len(node.inputs) > 1 or op.crops or op.antialias or op.coordinates == "tf_half_pixel_for_nn":
        return "it crops, uses antialiasing, computed sizes or an old coordinate mode"
    if op.scales is not None and len(op.scales) != len(x.type.dims):
        return "it scales only some axes"
    return LayoutChoice(frozenset({0}), frozenset({0}), -_waste(y, blocks))


@_form(LRN)
def local_response_normalization(node: Node, blocks: Blocks) -> LayoutChoice | str:
    """Has no other kernel."""
    if not can_be_blocked(node.output):
        return f"no normalisation of {node.output.type} on channel blocks"
    return LayoutChoice(frozenset({0}), frozenset({0}), INFINITE)


@_form(Fused)
def region(node: Node, blocks: Blocks) -> LayoutChoice | str:
    """Elementwise work, sums over pixels, and one convolution: each value has all channels, or one."""
    body, outer = region_of(node), dict(zip(region_of(node).inputs, node.inputs, strict=True))
    anchor = anchor_of(body)
    given = None if anchor is None else _anchor(anchor, [v and outer[v] for v in anchor.inputs], blocks)
    if isinstance(given, str):
        return given
    walked = walked_values(body)
    shape = max((v.type.shape or () for v in walked), key=len, default=())
    if given is not None and not given.results:
        return _into_planes(body, walked, shape, given)
    refusal = _cannot_walk(walked, shape) or next(filter(None, map(_moves, body)), None)
    if refusal is not None:
        return refusal
    blocked = {v for v in walked if has_channels(v, len(shape))}
    constants = {v for v in body.inputs if (source := outer[v]) is not None and is_constant(source)}
    passed = [v for v in (*body.inputs, *body.outputs) if v in blocked - constants]
    for value in passed:
        if len(value.type.dims) != len(shape) or not can_be_blocked(value):
            return f"no channel blocks of {value.type}"
    if anchor is not None and given is not None:
        image = anchor.operand(0)
        if not given.operands and image in blocked:
            return "the convolution reads the planar layout, other nodes of the region the blocked one"
        blocked |= {image} if given.operands else set()
    return LayoutChoice(
        frozenset(k for k, v in enumerate(body.inputs) if v in blocked - constants),
        frozenset(k for k, v in enumerate(body.outputs) if v in blocked),
        given.saves if given is not None else -sum(_waste(v, blocks) for v in passed),
    )


def _anchor(anchor: Node, operands: Sequence[Value | None], blocks: Blocks) -> LayoutChoice | str:
    """The form of a region's contraction; ``operands`` as the graph around it knows them."""
    if isinstance(anchor.op, Conv):
        return _convolution(anchor, operands, blocks)
    if isinstance(anchor.op, ConvTranspose):
        return _transposed(anchor, operands, blocks)
    return f"{anchor.op.name} has no kernel for channel blocks"


def _into_planes(
    body: Graph, walked: Sequence[Value], shape: Sequence[Dim], given: LayoutChoice
) -> LayoutChoice | str:
    """A region whose contraction reads blocks and gives one channel, which the rest walks."""
    image, rank = _anchor_image(body), len(shape)
    if image in walked or rank != len(image.type.dims) or any(has_channels(v, rank) for v in walked):
        return "the convolution has one output channel, other nodes of the region have more"
    return LayoutChoice(frozenset({body.inputs.index(image)}), frozenset(), given.saves)


def _anchor_image(body: Graph) -> Value:
    anchor = anchor_of(body)
    assert anchor is not None
    return anchor.operand(0)


def anchor_of(body: Graph) -> Node | None:
    """The contraction in a region."""
    return next((n for n in body if Trait.CONTRACTION in n.op.traits), None)


def walked_values(body: Graph) -> list[Value]:
    """Values that the loops of a region walk: all but what its contraction alone reads."""
    inputs = [v for v in body.inputs if any(Trait.CONTRACTION not in n.op.traits for n in v.users)]
    return [*inputs, *(v for n in body for v in n.outputs)]


def has_channels(value: Value, rank: int) -> bool:
    """Whether ``value``, broadcast to ``rank`` axes, has more than one channel."""
    axis = channel_axis(value, rank)
    return axis >= 0 and value.type.dims[axis] != 1


def channel_axis(value: Value, rank: int) -> int:
    """Where the channels of ``value`` are when it is broadcast to ``rank`` axes; negative if nowhere."""
    return len(value.type.dims) - rank + CHANNELS


def _has_one_channel(value: Value) -> bool:
    """Whether ``value`` is f32 images of one channel: those stay in planes."""
    shape = value.type.shape
    return value.type.dtype == F32 and shape is not None and len(shape) in (3, 4) and shape[CHANNELS] == 1


def _cannot_walk(walked: Sequence[Value], shape: Sequence[Dim]) -> str | None:
    """Why a region of these values cannot walk the channels of ``shape`` in blocks."""
    if len(shape) not in (3, 4):
        return f"a value with {len(shape)} axes has no channel blocks"
    counts = {v.type.dims[channel_axis(v, len(shape))] for v in walked if has_channels(v, len(shape))}
    if len(counts) != 1 or not all(isinstance(c, int) for c in counts):
        return f"values of {' and '.join(sorted(map(str, counts))) or 'no'} channels"
    return None


def _moves(node: Node) -> str | None:
    """Why a node of a region is no work on elements at their own place."""
    if isinstance(node.op, Constant) or Trait.CONTRACTION in node.op.traits:
        return None
    if Trait.REDUCTION in node.op.traits:
        fold = folding(node.op)
        folded = fold.resolved(len(node.operand(0).type.dims))
        stays = fold.keepdims and min(folded, default=0) > CHANNELS
        return None if stays else f"{node.op.name} reduces over or merges channels"
    stays = node.op.has_expression() and Trait.VIEW not in node.op.traits
    return None if stays else f"{node.op.name} moves elements"


def _waste(value: Value, blocks: Blocks) -> float:
    """Nanoseconds that the lanes which pad the last block of ``value`` cost when it is read or written."""
    channels = value.type.dims[CHANNELS]
    assert isinstance(channels, int)
    return blocks.nominal(value.type.bytes) / MEMORY_GBPS * (-channels % blocks.lanes) / channels


def nominal(dim: Dim, symbols: SymbolTable, guesses: Sequence[int] = NOMINAL_SIZES) -> int:
    """``dim`` with a guess for every size that is not known: the geometric mean of a range, for sizes differ
    by factors; of no range the first of ``guesses`` with which there is something to compute.
    """
    spans = {atom.name: symbols.ranges.get(atom.name, Range()) for atom in atoms(dim)}
    for unknown in guesses:
        guess = evaluate(dim, {name: _guess(span, unknown) for name, span in spans.items()})
        if guess > 0:
            return guess
    return 0


def _guess(span: Range, unknown: int) -> int:
    """A size within ``span``; ``unknown`` where that has no end."""
    return max(span.low, unknown) if span.high is None else math.isqrt(max(span.low, 1) * span.high)
