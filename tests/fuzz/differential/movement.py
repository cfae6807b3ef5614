"""Makers of what moves, selects or counts elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .draft import Array, Draft, Fill, Sizes, Value, integers, uniform
from .makers import FLOATS, INDICES, SIGNED, makes


@makes("Shape")
def shape(g: Draft, op: str) -> None:
    attributes = {}
    if g.opset >= 15 and g.chance(0.5):
        attributes = {n: g.random.randint(-5, 5) for n in ("start", "end") if g.chance(0.6)}
    g.node(op, [g.operand(g.types(op))], **attributes)


@makes("Flatten")
def flatten(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3, 4))
    axis = g.random.randint(-x.rank if g.opset >= 11 else 0, x.rank)
    g.node(op, [x], **({"axis": axis} if g.chance(0.8) else {}))


@makes("Transpose")
def transpose(g: Draft, op: str) -> None:
    x = g.operand(g.types(op))
    perm = g.random.sample(range(x.rank), x.rank)
    g.node(op, [x], **({"perm": perm} if perm and g.chance(0.8) else {}))


def axes_node(g: Draft, op: str, x: Value, axes: list[int], since: int = 13) -> None:
    """A node whose axes are an attribute before opset ``since``, then an operand."""
    if g.opset < since:
        g.node(op, [x], axes=[a % max(x.rank, 1) for a in axes] if g.opset < 11 else axes)
    else:
        g.node(op, [x, g.control(np.array(axes, np.int64), fed=0.15)])


@makes("Squeeze")
def squeeze(g: Draft, op: str) -> None:
    dims = [g.pick(1, g.dim()) for _ in range(g.pick(1, 2, 3, 4))]
    x = g.fresh(g.dtype(g.types(op)), dims)
    ones = [k - (len(dims) if g.opset >= 11 and g.chance(0.3) else 0) for k, d in enumerate(dims) if d == 1]
    if g.chance(0.3):
        g.node(op, [x])
    else:
        axes_node(g, op, x, g.random.sample(ones, g.random.randint(min(1, len(ones)), len(ones))) or [0])


@makes("Unsqueeze")
def unsqueeze(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (0, 1, 2, 3))
    rank = x.rank + g.pick(1, 1, 2)
    axes = g.random.sample(range(rank), rank - x.rank)
    if g.opset >= 11:
        axes = [a - rank if g.chance(0.3) else a for a in axes]
    if g.opset < 13:
        g.node(op, [x], axes=axes)
    else:
        g.node(op, [x, g.control(np.array(axes, np.int64), fed=0.15)])


@makes("Reshape")
def reshape(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3, 4), known=True)
    dims, style = x.dims or (), g.pick("merge", "merge", "flat", "computed", "split")
    zero: dict[str, Any] = {"allowzero": g.pick(0, 1)} if g.opset >= 14 and g.chance(0.2) else {}
    if style == "computed":
        g.node(op, [x, fed_shape(g, dims)], **zero)
        return
    target = [-1]
    if style == "merge":
        keep = g.random.randrange(len(dims))
        target = [0] * keep + [-1]
    elif style == "split":
        numbers = [d for d in dims if isinstance(d, int) and d > 0]
        target = g.random.sample([-1, g.pick(*numbers, 1)], 2)
    g.node(op, [x, g.control(np.array(target, np.int64))], **zero)


def fed_shape(g: Draft, dims: tuple[Any, ...]) -> Value:
    """A target shape given as input: random factors of the number of elements, one of them sometimes -1."""
    rank = g.pick(1, 2, 3)

    def target(rng: np.random.Generator, _: tuple[int, ...], sizes: Sizes) -> Array:
        left = math.prod(g.size(d, sizes) for d in dims)
        parts = []
        for _ in range(rank - 1):
            factor = int(rng.choice([f for f in range(1, left + 1) if left % f == 0] or [0]))
            parts.append(factor)
            left = left // factor if factor else 0
        return np.array([*parts, left if rng.random() < 0.6 or not left else -1], np.int64)

    return g.fresh("int64", [rank], target, control=True)


@makes("Expand")
def expand(g: Draft, op: str) -> None:
    x = g.fresh(g.dtype(g.types(op)), [g.pick(1, 1, g.dim()) for _ in range(g.pick(0, 1, 2, 3))])
    dims = x.dims or ()
    extra = g.pick(0, 0, 1)

    def target(rng: np.random.Generator, _: tuple[int, ...], sizes: Sizes) -> Array:
        inner = [g.size(d, sizes) for d in dims]
        wide = [int(rng.integers(0, 4)) if n == 1 else int(rng.choice([n, 1])) for n in inner]
        return np.array([*rng.integers(1, 3, extra), *wide], np.int64)

    if g.chance(0.5):
        g.node(op, [x, g.fresh("int64", [len(dims) + extra], target, control=True)])
        return
    constant = [g.pick(1, 2, 3) if d == 1 else 1 for d in dims]
    g.node(op, [x, g.control(np.array([*[2] * extra, *constant], np.int64))])


@makes("Tile")
def tile(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3))
    g.node(op, [x, g.control(np.array([g.pick(0, 1, 1, 2, 3) for _ in range(x.rank)], np.int64))])


@makes("Concat")
def concat(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3), known=True)
    axis = g.axis(x.rank)
    others = []
    for _ in range(g.pick(0, 1, 1, 2)):
        dims = [g.twin(d) for d in x.dims or ()]
        dims[axis] = g.dim()
        others.append(g.fresh(x.dtype, dims))
    g.node(op, g.random.sample([x, *others], len(others) + 1), axis=axis % x.rank if g.opset < 11 else axis)


@makes("Split")
def split(g: Draft, op: str) -> None:
    rank = g.pick(1, 2, 3)
    axis = g.axis(rank)
    style = g.pick("sizes", "sizes", "equal", "fed")
    parts = [g.pick(0, 1, 2, 3) for _ in range(g.pick(1, 2, 3))]
    dims = list(g.dims(rank))
    if style == "equal":
        dims[axis] = g.multiple(g.dim(1, 2, 3), len(parts))
    elif style == "sizes" or g.opset < 13:
        dims[axis] = sum(parts) if g.chance(0.6) else g.symbol(sum(parts))
    x = g.fresh(g.dtype(g.types(op)), dims)
    attributes: dict[str, Any] = {"axis": axis if g.opset >= 11 else axis % rank}
    if style == "equal":
        attributes |= {"num_outputs": len(parts)} if g.opset >= 18 else {}
        g.node(op, [x], len(parts), **attributes)
    elif g.opset < 13:
        g.node(op, [x], len(parts), split=parts, **attributes)
    elif style == "sizes":
        g.node(op, [x, g.control(np.array(parts, np.int64))], len(parts), **attributes)
    else:
        g.node(op, [x, fed_parts(g, dims[axis], len(parts))], len(parts), **attributes)


def fed_parts(g: Draft, dim: Any, count: int) -> Value:
    def parts(rng: np.random.Generator, _: tuple[int, ...], sizes: Sizes) -> Array:
        total = g.size(dim, sizes)
        return np.diff([0, *np.sort(rng.integers(0, total + 1, count - 1)), total])

    return g.fresh("int64", [count], parts, control=True)


@makes("Slice")
def slice_of(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3))
    axes = g.axes(x.rank, 1)
    wide = (-(2**63), -(2**31), -100, -3, -2, -1, 0, 0, 1, 2, 3, 100, 2**31 - 1, 2**63 - 1)
    starts, ends = ([g.pick(*wide) for _ in axes] for _ in range(2))
    if g.opset < 10:
        g.node(op, [x], starts=starts, ends=ends, axes=[a % x.rank for a in axes])
        return
    steps = [g.pick(1, 1, 2, 3, -1, -2, 100, -(2**63) + 1) for _ in axes]
    kind = g.pick("int64", "int64", "int32")
    bounded = np.iinfo(kind)
    operands = [
        np.clip(np.array(v, np.int64), bounded.min, bounded.max).astype(kind)
        for v in (starts, ends, axes, steps)
    ]
    count = g.pick(4, 4, 3) if len(axes) < x.rank or g.chance(0.7) else 4
    g.node(op, [x, *(g.control(v) for v in operands[:count])])


@makes("Pad")
def pad(g: Draft, op: str) -> None:
    modes = ["constant", "constant", "reflect", "edge", *(["wrap"] if g.opset >= 19 else [])]
    mode = g.pick(*modes)
    x = g.operand(g.types(op), (1, 2, 3), sizes=(0, 1, 2, 3, 5) if mode == "constant" else (2, 3, 4, 5))
    if x.dtype == "object":
        mode = "constant"
    low = -1 if mode in ("constant", "edge") else 0
    if g.opset < 11:
        pads = [g.random.randint(low, 2) for _ in range(2 * x.rank)]
        g.node(op, [x], mode=mode, pads=pads, **({"value": 1.5} if g.chance(0.5) else {}))
        return
    axes = g.axes(x.rank, 1) if g.opset >= 18 and g.chance(0.4) else None
    pads = [g.random.randint(low, 2) for _ in range(2 * len(axes if axes is not None else range(x.rank)))]
    fill = "a" if x.dtype == "object" else 1
    value = g.control(np.array(fill, x.dtype)) if mode == "constant" and g.chance(0.6) else None
    given = g.control(np.array(axes, g.pick(*INDICES))) if axes is not None else None
    g.node(op, [x, g.control(np.array(pads, np.int64)), value, given], mode=mode)


def places(g: Draft, bound: Any, negative: bool = True) -> Fill:
    """Indices into an axis of ``bound``."""

    def fill(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> Array:
        size = max(g.size(bound, sizes), 1)
        return rng.integers(-size if negative else 0, size, shape)

    return fill


@makes("Gather")
def gather(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3), known=True)
    axis = g.axis(x.rank)
    indices = g.fresh(
        g.pick(*INDICES), g.dims(g.pick(0, 1, 1, 2)), places(g, (x.dims or ())[axis], g.opset >= 11)
    )
    g.node(op, [x, indices], axis=axis)


@makes("GatherElements")
def gather_elements(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3), known=True)
    axis = g.axis(x.rank)
    dims = [g.twin(d) for d in x.dims or ()]
    fill = places(g, dims[axis])
    dims[axis] = g.dim()
    g.node(op, [x, g.fresh(g.pick(*INDICES), dims, fill)], axis=axis)


@makes("GatherND")
def gather_nd(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3), known=True)
    batch = g.random.randrange(x.rank) if g.opset >= 12 and g.chance(0.4) else 0
    dims = x.dims or ()
    depth = g.random.randint(1, x.rank - batch)
    indices = g.fresh(
        "int64",
        [*(g.twin(d) for d in dims[:batch]), *g.dims(g.pick(0, 1, 2)), depth],
        points(g, dims[batch : batch + depth]),
    )
    g.node(op, [x, indices], **({"batch_dims": batch} if g.opset >= 12 else {}))


def points(g: Draft, bounds: tuple[Any, ...]) -> Fill:
    def fill(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> Array:
        limits = np.array([max(g.size(b, sizes), 1) for b in bounds])
        return rng.integers(-limits, limits, shape)

    return fill


@makes("ScatterElements", "Scatter")
def scatter_elements(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3), known=True)
    axis = g.axis(x.rank)
    dims = [g.twin(d) for d in x.dims or ()]
    reduction = (
        g.pick("none", "add", "mul", *(("max", "min") if g.opset >= 18 else ())) if g.opset >= 16 else ""
    )
    fill = unique_places(g, dims, axis) if reduction in ("", "none") else places(g, dims[axis])
    indices = g.fresh(g.pick(*INDICES), dims, fill)
    updates = g.fresh(x.dtype, dims)
    g.node(
        op,
        [x, indices, updates],
        axis=axis,
        **({"reduction": reduction} if reduction else {}),
    )


def unique_places(g: Draft, dims: list[Any], axis: int) -> Fill:
    """A permutation along the axis, as several updates of one element are undefined."""

    def fill(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> Array:
        return np.argsort(rng.random(shape), axis)

    return fill


@makes("ScatterND")
def scatter_nd(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3), known=True)
    dims = x.dims or ()
    reduction = (
        g.pick("none", "add", "mul", *(("max", "min") if g.opset >= 18 else ())) if g.opset >= 16 else "none"
    )
    if reduction == "none":  # rows of the first axis, each once
        depth, dims_of = 1, [g.twin(dims[0]), 1]
        fill = unique_places(g, dims_of, 0)
    else:
        depth = g.random.randint(1, x.rank)
        dims_of, fill = [*g.dims(g.pick(0, 1, 2)), depth], points(g, dims[:depth])
    indices = g.fresh("int64", dims_of, fill)
    updates = g.fresh(x.dtype, [*(g.twin(d) for d in dims_of[:-1]), *(g.twin(d) for d in dims[depth:])])
    g.node(op, [x, indices, updates], **({"reduction": reduction} if reduction != "none" else {}))


@makes("Compress")
def compress(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3), known=True)
    axis = g.axis(x.rank) if g.chance(0.7) else None
    dim = (x.dims or ())[axis] if axis is not None else g.pick(0, 1, 3)
    condition = g.fresh("bool", [g.twin(dim) if axis is not None and g.chance(0.7) else g.pick(0, 1)])
    if axis is None:
        g.node(op, [x, condition])
    else:
        g.node(op, [x, condition], axis=axis % x.rank if g.opset < 11 else axis)


@makes("OneHot")
def one_hot(g: Draft, op: str) -> None:
    depth = g.pick(0, 1, 3, 5)
    kind = g.pick("int64", "int64", "int32", "float32")
    indices = g.fresh(kind, g.dims(g.pick(1, 1, 2)), integers(-6, 7))
    dtype = g.pick("float32", "int64", "int32", "bool")
    values = g.fresh(dtype, [2])
    axis = g.random.randint(-indices.rank - 1, indices.rank) if g.chance(0.6) else -1
    depth_shape = [depth] if g.chance(0.5) else depth
    g.node(
        op,
        [indices, g.control(np.array(depth_shape, g.pick("int64", "float32", "int32"))), values],
        axis=axis,
    )


@makes("ReverseSequence")
def reverse_sequence(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (2, 3), known=True)
    time = g.pick(0, 1)
    dims = x.dims or ()

    def lengths(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> Array:
        return rng.integers(0, g.size(dims[time], sizes) + 1, shape)

    g.node(
        op,
        [x, g.fresh("int64", [g.twin(dims[1 - time])], lengths, control=True)],
        time_axis=time,
        batch_axis=1 - time,
    )


@makes("TopK")
def top_k(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3), sizes=(3, 4, 5, 7))
    axis = g.axis(x.rank) if g.opset >= 11 else g.axis(x.rank) % x.rank
    k = g.random.randint(0, 3)
    if g.opset < 10:
        g.node(op, [x], 2, k=max(k, 1), axis=axis)
        return
    extra = {"largest": g.pick(0, 1), "sorted": 1} if g.opset >= 11 else {}
    g.node(op, [x, g.control(np.array([k], np.int64))], 2, axis=axis, **extra)


@makes("Unique")
def unique(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3))
    axis = {"axis": g.axis(x.rank)} if g.chance(0.5) else {}
    g.node(op, [x], g.pick(1, 2, 3, 4), sorted=g.pick(0, 1), **axis)


@makes("DepthToSpace", "SpaceToDepth")
def depth_space(g: Draft, op: str) -> None:
    block = g.pick(1, 2, 3)
    if op[0] == "D":
        x = g.fresh(g.dtype(g.types(op)), [g.dim(), g.multiple(g.dim(1, 2, 3), block**2), *g.dims(2)])
        mode = {"mode": g.pick("DCR", "CRD")} if g.opset >= 11 else {}
        g.node(op, [x], blocksize=block, **mode)
        return
    x = g.fresh(g.dtype(g.types(op)), [*g.dims(2), *(g.multiple(g.dim(), block) for _ in range(2))])
    g.node(op, [x], blocksize=block)


@makes("CenterCropPad")
def center_crop_pad(g: Draft, op: str) -> None:
    x = g.operand(g.types(op), (1, 2, 3))
    axes = g.axes(x.rank, 1)
    g.node(op, [x, g.control(np.array([g.pick(1, 2, 3, 6) for _ in axes], np.int64))], axes=axes)


@makes("NonMaxSuppression")
def non_max_suppression(g: Draft, op: str) -> None:
    batch, boxes, classes = g.dim(), g.dim(), g.dim()
    limits = [
        np.array([g.pick(0, 1, 3, 100)], np.int64),
        np.array([g.pick(0.0, 0.4, 1.0)], np.float32),
        np.array([g.pick(0.0, 0.4)], np.float32),
    ]
    count = g.pick(0, 1, 2, 3, 3)
    inputs = [
        g.fresh("float32", [batch, boxes, 4], integers(0, 9)),
        g.fresh("float32", [g.twin(batch), classes, g.twin(boxes)], uniform(0, 1)),
    ]
    g.node(op, [*inputs, *(g.control(v) for v in limits[:count])], center_point_box=g.pick(0, 1))


RESIZE_TYPES = ("float32", "float32", "float32", "uint8", "int32", "float16", "int8", "float64")


@makes("Resize")
def resize(g: Draft, op: str) -> None:
    mode = g.pick("nearest", "nearest", "linear", "linear", "cubic")
    rank = 4 if mode == "cubic" or g.chance(0.6) else g.pick(2, 3)
    types = [t for t in RESIZE_TYPES if t in g.types(op)]
    x = g.fresh(g.pick(*types), g.dims(rank, 1, 2, 3, 4, 5, 7))
    kept = rank - 2 if mode != "nearest" else g.random.randrange(rank)
    if g.opset < 11:
        scales = [1.0] * kept + [g.pick(0.5, 0.6, 1.0, 2.0, 3.0) for _ in range(rank - kept)]
        g.node(op, [x, g.control(np.array(scales, np.float32))], mode=g.pick("nearest", "linear"))
        return
    attributes: dict[str, Any] = {"mode": mode}
    modes = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
    modes += ["half_pixel_symmetric"] if g.opset >= 19 else []
    attributes["coordinate_transformation_mode"] = g.pick(*modes)
    if mode == "nearest":
        attributes["nearest_mode"] = g.pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        attributes |= {"cubic_coeff_a": g.pick(-0.75, -0.5), "exclude_outside": g.pick(0, 1)}
    if g.opset >= 18 and mode != "nearest" and g.chance(0.25):
        attributes["antialias"] = 1
    axes = list(range(kept, rank)) if g.opset >= 18 and g.chance(0.3) else None
    if axes is not None:
        attributes["axes"] = axes
    resized = rank - kept
    lead = [] if axes is not None else [None] * kept
    if g.chance(0.6):
        scales = [g.pick(0.1, 0.3, 1 / 3, 0.4, 0.5, 0.6, 1.0, 1.5, 2.0, 2.3, 3.0) for _ in range(resized)]
        operand = g.control(np.array([1.0] * len(lead) + scales, np.float32))
        g.node(op, [x, None if g.opset >= 13 else g.weight(np.zeros(0, np.float32)), operand], **attributes)
        return
    targets = [g.pick(1, 2, 3, 5, 8) for _ in range(resized)]
    dims = (x.dims or ())[: len(lead)]

    def sizes_of(rng: np.random.Generator, _: tuple[int, ...], sizes: Sizes) -> Array:
        return np.array([*(g.size(d, sizes) for d in dims), *targets], np.int64)

    fixed = all(isinstance(d, int) for d in dims)
    operand = (
        g.control(sizes_of(np.random.default_rng(0), (), {}))
        if fixed
        else g.fresh("int64", [len(lead) + resized], sizes_of, control=True)
    )
    empty = None if g.opset >= 13 else g.weight(np.zeros(0, np.float32))
    g.node(op, [x, empty, empty, operand], **attributes)


@makes("Upsample")
def upsample(g: Draft, op: str) -> None:
    x = g.fresh("float32", g.dims(4, 1, 2, 3, 4))
    scales = [1.0, 1.0, g.pick(1.0, 1.5, 2.0), g.pick(1.0, 2.0, 3.0)]
    mode = g.pick("nearest", "linear")
    if g.opset < 9:
        g.node(op, [x], scales=scales, mode=mode)
    else:
        g.node(op, [x, g.control(np.array(scales, np.float32))], mode=mode)


@makes("GridSample")
def grid_sample(g: Draft, op: str) -> None:
    spatial = g.pick(2, 2, 3) if g.opset >= 20 else 2
    batch = g.dim()
    x = g.fresh(g.pick("float32", "float32", "float64"), [batch, g.dim(), *g.dims(spatial, 1, 2, 3, 5)])
    grid = g.fresh(x.dtype, [g.twin(batch), *g.dims(spatial), spatial], uniform(-1.3, 1.3))
    names = ("linear", "nearest", "cubic") if g.opset >= 20 else ("bilinear", "nearest", "bicubic")
    mode = g.pick(*(names if spatial == 2 else names[:2]))
    g.node(
        op,
        [x, grid],
        mode=mode,
        padding_mode=g.pick("zeros", "border", "reflection"),
        align_corners=g.pick(0, 1),
    )


@makes("AffineGrid")
def affine_grid(g: Draft, op: str) -> None:
    spatial = g.pick(2, 3)
    batch = g.pick(1, 2)
    theta = g.fresh("float32", [batch, spatial, spatial + 1])
    sizes = [batch, 1, *(g.pick(1, 2, 3) for _ in range(spatial))]
    g.node(op, [theta, g.control(np.array(sizes, np.int64))], align_corners=g.pick(0, 1))


@makes("RoiAlign")
def roi_align(g: Draft, op: str) -> None:
    batch, rois = g.dim(1, 2, 3), g.dim()
    x = g.fresh("float32", [batch, g.dim(), *g.dims(2, 3, 4, 5)])
    regions = g.fresh("float32", [rois, 4], uniform(0, 5))
    numbers = g.fresh("int64", [g.twin(rois)], places(g, batch, negative=False), control=True)
    half = (
        {"coordinate_transformation_mode": g.pick("half_pixel", "output_half_pixel")} if g.opset >= 16 else {}
    )
    g.node(
        op,
        [x, regions, numbers],
        mode=g.pick("avg", "max"),
        output_height=g.pick(1, 2),
        output_width=g.pick(1, 3),
        sampling_ratio=g.pick(0, 1, 2),
        spatial_scale=g.pick(0.5, 1.0),
        **half,
    )


@makes("MaxRoiPool")
def max_roi_pool(g: Draft, op: str) -> None:
    x = g.fresh("float32", [1, g.dim(), 6, 6])

    def regions(rng: np.random.Generator, shape: tuple[int, ...], _: Sizes) -> Array:
        low = rng.integers(0, 4, (shape[0], 2))
        return np.concatenate([np.zeros((shape[0], 1)), low, low + rng.integers(0, 3, (shape[0], 2))], 1)

    g.node(op, [x, g.fresh("float32", [g.dim(), 5], regions)], pooled_shape=[g.pick(1, 2), g.pick(1, 2)])


@makes("TensorScatter")
def tensor_scatter(g: Draft, op: str) -> None:
    batch, longest = g.dim(1, 2, 3), g.pick(4, 5)
    update = g.pick(1, 2, 3)
    cache = g.fresh(g.pick(*FLOATS), [batch, longest, g.dim()])
    dims = cache.dims or ()
    updates = g.fresh(cache.dtype, [g.twin(dims[0]), update, g.twin(dims[2])])
    starts = g.fresh("int64", [g.twin(batch)], integers(0, longest - update + 1), control=True)
    g.node(op, [cache, updates, starts if g.chance(0.8) else None], axis=1, mode=g.pick("linear", "circular"))


@makes("Col2Im")
def col2im(g: Draft, op: str) -> None:
    height, width, block = g.pick(3, 4), g.pick(3, 5), [g.pick(1, 2), g.pick(1, 2, 3)]
    count = (height - block[0] + 1) * (width - block[1] + 1)
    channels = g.dim(1, 2)
    x = g.fresh("float32", [g.dim(), g.multiple(channels, math.prod(block)), count])
    shapes = [g.control(np.array(v, np.int64)) for v in ((height, width), block)]
    g.node(op, [x, *shapes])


@makes("SequenceConstruct")
def sequences(g: Draft, op: str) -> None:
    x = g.operand(SIGNED, (1, 2), known=True)
    others = [g.fresh(x.dtype, [g.twin(d) for d in x.dims or ()]) for _ in range(g.pick(0, 1, 2))]
    (made,) = g.node(op, [x, *others])
    follow = g.pick("at", "concat", "length", "insert", "erase")
    if follow in ("insert", "erase"):
        index = g.control(np.array(g.pick(0, -1), np.int64))
        extra = [x] if follow == "insert" else []
        (made,) = g.node("SequenceInsert" if extra else "SequenceErase", [made, *extra, index])
        follow = g.pick("length", "concat") if extra else "length"
    if follow == "at":
        g.node("SequenceAt", [made, g.control(np.array(g.pick(0, -1, len(others)), np.int64))])
    elif follow == "concat":
        g.node("ConcatFromSequence", [made], axis=g.axis(x.rank), new_axis=g.pick(0, 1))
    else:
        g.node("SequenceLength", [made])


@makes("SplitToSequence")
def split_to_sequence(g: Draft, op: str) -> None:
    x = g.fresh(g.pick(*SIGNED), g.dims(g.pick(1, 2, 3), 1, 2, 3, 5))
    size = g.control(np.array(g.pick(1, 2), np.int64)) if g.chance(0.6) else None
    axis = g.axis(x.rank)
    keep = {"keepdims": g.pick(0, 1)} if g.chance(0.5) else {}
    (made,) = g.node(op, [x, size], axis=axis, **keep)
    g.node("SequenceAt", [made, g.weight(np.array(0, np.int64))])
    g.node("SequenceLength", [made])


@makes("StringConcat")
def string_concat(g: Draft, op: str) -> None:
    a = g.fresh("object", g.dims(g.pick(0, 1, 2)))
    g.node(op, [a, g.partner(a)])


@makes("StringNormalizer")
def string_normalizer(g: Draft, op: str) -> None:
    x = g.fresh("object", [g.dim()] if g.chance(0.6) else [1, g.dim()])
    stop = {"stopwords": ["a", "ab"]} if g.chance(0.5) else {}
    g.node(
        op,
        [x],
        locale="C",
        case_change_action=g.pick("NONE", "LOWER", "UPPER"),
        is_case_sensitive=g.pick(0, 1),
        **stop,
    )


@makes("StringSplit")
def string_split(g: Draft, op: str) -> None:
    x = g.fresh("object", g.dims(g.pick(0, 1, 2)))
    attributes: dict[str, Any] = {"delimiter": g.pick(",", " ", "")} if g.chance(0.7) else {}
    attributes |= {"maxsplit": g.pick(0, 1, 2)} if g.chance(0.4) else {}
    g.node(op, [x], 2, **attributes)


@makes("RegexFullMatch")
def regex(g: Draft, op: str) -> None:
    g.node(
        op,
        [g.fresh("object", g.dims(g.pick(0, 1, 2)))],
        pattern=g.pick("a.*", "[a-z]+", "", "\\d", "(a|b)+ ?b?"),
    )


@makes("TfIdfVectorizer")
def tf_idf(g: Draft, op: str) -> None:
    x = g.fresh(g.pick("int32", "int64"), g.dims(g.pick(1, 2)), integers(0, 6))
    g.node(
        op,
        [x],
        mode=g.pick("TF", "IDF", "TFIDF"),
        min_gram_length=g.pick(1, 2),
        max_gram_length=2,
        max_skip_count=g.pick(0, 1, 3),
        ngram_counts=[0, 3],
        ngram_indexes=list(range(5)),
        pool_int64s=[2, 3, 5, 1, 2, 3, 4],
        **({"weights": [1.0, 2.0, 0.5, 1.5, 3.0]} if g.chance(0.5) else {}),
    )
