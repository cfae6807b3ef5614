"""Makers of products, convolutions, pools, recurrences and transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draft import Array, Draft, Sizes, Value, integers, uniform
from .makers import FLOATS, listed, makes


@makes("MatMul")
def matmul(g: Draft, op: str) -> None:
    dtype = g.pick(
        *(
            t
            for t in ("float32", "float32", "float32", "float64", "int32", "int64", "float16")
            if t in g.types(op)
        )
    )
    a, b = operands_of_product(g, dtype, dtype)
    g.node(op, [a, b])


def operands_of_product(g: Draft, one: str, other: str) -> tuple[Value, Value]:
    """Two tensors that MatMul takes: vectors, matrices, or batches that broadcast."""
    inner = g.dim()
    batch = g.dims(g.pick(0, 0, 1, 2))
    left = [inner] if g.chance(0.12) else [*batch, g.dim(), inner]
    more = [g.maybe_one(d) for d in batch[g.pick(0, 0, len(batch)) :]]
    right = [g.twin(inner)] if g.chance(0.12) else [*more, g.twin(inner), g.dim()]
    return g.fresh(one, left), g.fresh(other, right)


@makes("MatMulInteger")
def matmul_integer(g: Draft, op: str) -> None:
    kinds = g.pick("uint8", "int8"), g.pick("uint8", "int8")
    a, b = operands_of_product(g, *kinds)
    zeros: list[Value | None] = [
        g.fresh(v.dtype, [], integers(0, 9)) if g.chance(0.5) else None for v in (a, b)
    ]
    g.node(op, [a, b, *zeros])


@makes("QLinearMatMul")
def qlinear_matmul(g: Draft, op: str) -> None:
    kinds = g.pick("uint8", "int8"), g.pick("uint8", "int8")
    a, b = operands_of_product(g, *kinds)
    if a.rank < 2 or b.rank < 2:
        return matmul_integer(g, "MatMulInteger")
    zeros = [g.fresh(k, [], integers(0, 9)) for k in (a.dtype, b.dtype, a.dtype)]
    scales = [g.fresh("float32", [], uniform(0.1, 1)) for _ in range(3)]
    g.node(op, [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]])


@makes("Gemm")
def gemm(g: Draft, op: str) -> None:
    dtype = g.pick(*(t for t in ("float32", "float32", "float32", "float64", "float16") if t in g.types(op)))
    m, k, n = g.dim(), g.dim(), g.dim()
    ta, tb = g.pick(0, 1), g.pick(0, 1)
    a = g.fresh(dtype, [k, m] if ta else [m, k])
    b = g.fresh(dtype, [n, g.twin(k)] if tb else [g.twin(k), n])
    bias = g.pick((), (n,), (1, n), (m, n), (m, 1), (1,))
    c = g.fresh(dtype, [g.twin(d) for d in bias]) if g.opset < 11 or g.chance(0.7) else None
    attributes = {name: g.pick(0.5, -1.0, 2.0, 0.0) for name in ("alpha", "beta") if g.chance(0.3)}
    g.node(op, [a, b, c], transA=ta, transB=tb, **attributes)


EQUATIONS = listed(
    "ij,jk->ik bij,bjk->bik ij->ji ii->i ii-> i,i-> i,j->ij bij->b ij,ij->ij bhwc,hkc->bhwk "
    "...ij,...jk->...ik abc->ca bn,bn->b ij,kj->ik i->ii bqd,bkd->bqk ij,jk,kl->il ...i->... ij ij,j "
    "bhqd,bhkd->bhqk "
)


@makes("Einsum")
def einsum(g: Draft, op: str) -> None:
    equation = g.pick(*(e for e in EQUATIONS if e != "i->ii"))
    dtype = g.pick("float32", "float32", "float64", "int32")
    labels: dict[str, Any] = {}
    lead = g.dims(g.pick(0, 1, 2)) if "..." in equation else ()
    inputs = []
    for term in equation.split("->")[0].split(","):
        dims = [g.twin(d) for d in lead] if "..." in term else []
        for label in term.replace("...", ""):
            dims.append(g.twin(labels[label]) if label in labels else labels.setdefault(label, g.dim()))
        inputs.append(g.fresh(dtype, dims))
    g.node(op, inputs, equation=equation)


@makes("Det")
def det(g: Draft, op: str) -> None:
    side = g.dim(1, 2, 3)
    g.node(op, [g.fresh(g.pick("float32", "float64"), [*g.dims(g.pick(0, 1)), side, side])])


def window(g: Draft, spatial: int, dilations: bool = True) -> dict[str, Any]:
    """Strides, dilations and padding of a window."""
    attributes: dict[str, Any] = {}
    if g.chance(0.5):
        attributes["strides"] = [g.pick(1, 2, 3) for _ in range(spatial)]
    if dilations and g.chance(0.3):
        attributes["dilations"] = [g.pick(1, 2) for _ in range(spatial)]
    style = g.pick("", "", "pads", "pads", "auto")
    if style == "pads":
        attributes["pads"] = [g.pick(0, 1, 2) for _ in range(2 * spatial)]
    elif style == "auto":
        attributes["auto_pad"] = g.pick("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    return attributes


SPATIAL = (1, 2, 3, 4, 5, 7, 8)


@makes("Conv")
def conv(g: Draft, op: str) -> None:
    x, w, bias, attributes = convolution(g, "float32" if g.chance(0.9) else "float64")
    g.node(op, [x, w, bias], **attributes)


def convolution(
    g: Draft, dtype: str, weights: str = "", fed: bool = False
) -> tuple[Value, Value, Value | None, dict[str, Any]]:
    spatial, group = g.pick(1, 2, 2, 2, 3), g.pick(1, 1, 1, 2, 3)
    per_group, out = g.pick(1, 2, 3, 8), g.pick(1, 2, 4)
    kernel = [g.pick(1, 2, 3, 3, 5) for _ in range(spatial)]
    x = g.fresh(dtype, [g.dim(), group * per_group, *g.dims(spatial, *SPATIAL)])
    w = g.fresh(weights or dtype, [group * out, per_group, *kernel])
    bias = g.fresh(dtype, [group * out]) if g.chance(0.5) else None
    attributes = window(g, spatial)
    if group > 1:
        attributes["group"] = group
    if g.chance(0.5):
        attributes["kernel_shape"] = kernel
    return x, w, bias, attributes


@makes("ConvInteger")
def conv_integer(g: Draft, op: str) -> None:
    x, w, _, attributes = convolution(g, "uint8", g.pick("uint8", "int8"))
    zeros = [g.fresh(v.dtype, [], integers(0, 9)) if g.chance(0.5) else None for v in (x, w)]
    g.node(op, [x, w, *zeros], **attributes)


@makes("QLinearConv")
def qlinear_conv(g: Draft, op: str) -> None:
    x, w, _, attributes = convolution(g, "uint8", g.pick("uint8", "int8"))
    assert w.dims is not None
    per_channel = g.chance(0.4)
    dims = [w.dims[0]] if per_channel else []
    scales = [
        g.fresh("float32", [], uniform(0.1, 1)),
        g.fresh("float32", dims, uniform(0.1, 1)),
        g.fresh("float32", [], uniform(0.5, 3)),
    ]
    zeros = [
        g.fresh("uint8", [], integers(0, 9)),
        g.fresh(w.dtype, dims, integers(0, 1 if w.dtype == "int8" else 9)),
        g.fresh("uint8", [], integers(0, 9)),
    ]
    bias = g.fresh("int32", [w.dims[0]], integers(-9, 10)) if g.chance(0.5) else None
    g.node(op, [x, scales[0], zeros[0], w, scales[1], zeros[1], scales[2], zeros[2], bias], **attributes)


@makes("ConvTranspose")
def conv_transpose(g: Draft, op: str) -> None:
    x, w, _, attributes = convolution(g, "float32")
    assert x.dims is not None and w.dims is not None
    spatial, group = x.rank - 2, attributes.get("group", 1)
    out = g.pick(1, 2, 3)
    w = g.fresh("float32", [x.dims[1], out, *w.dims[2:]])
    bias = g.fresh("float32", [group * out]) if g.chance(0.5) else None
    strides = attributes.get("strides", [1] * spatial)
    if g.chance(0.3):
        attributes["output_padding"] = [g.random.randrange(s) for s in strides]
    g.node(op, [x, w, bias], **attributes)


@makes("DeformConv")
def deform_conv(g: Draft, op: str) -> None:
    batch, channels, kernel = g.dim(1, 2), g.pick(1, 2), g.pick(1, 2)
    size = g.pick(3, 4)
    x = g.fresh("float32", [batch, channels, size, size])
    w = g.fresh("float32", [2, channels, kernel, kernel])
    out = size - kernel + 1
    offsets = g.fresh("float32", [g.twin(batch), 2 * kernel * kernel, out, out], uniform(-1, 1))
    mask = g.fresh("float32", [g.twin(batch), kernel * kernel, out, out]) if g.chance(0.5) else None
    g.node(op, [x, w, offsets, None, mask], kernel_shape=[kernel, kernel], pads=[0, 0, 0, 0])


@makes("AveragePool", "MaxPool", "LpPool")
def pool(g: Draft, op: str) -> None:
    spatial = g.pick(1, 2, 2, 2, 3)
    dilated = (
        (op == "MaxPool" and g.opset >= 10)
        or (op == "AveragePool" and g.opset >= 19)
        or (op == "LpPool" and g.opset >= 18)
    )
    attributes = window(g, spatial, dilated)
    attributes["kernel_shape"] = [g.pick(1, 2, 3, 3, 4) for _ in range(spatial)]
    if "pads" in attributes:
        limit = attributes["kernel_shape"] * 2
        attributes["pads"] = [min(p, k - 1) for p, k in zip(attributes["pads"], limit, strict=True)]
    if g.opset >= (18 if op == "LpPool" else 10) and g.chance(0.3) and "auto_pad" not in attributes:
        attributes["ceil_mode"] = 1
    if op == "AveragePool" and g.chance(0.4):
        attributes["count_include_pad"] = 1
    if op == "LpPool" and g.chance(0.5):
        attributes["p"] = g.pick(1, 2, 3)
    dtype = g.pick("float32", "float32", "int8", "uint8") if op == "MaxPool" and g.opset >= 12 else "float32"
    x = g.fresh(dtype, [*g.dims(2), *g.dims(spatial, *SPATIAL)])
    if op == "MaxPool" and g.opset >= 8 and g.chance(0.3):
        attributes |= {"storage_order": g.pick(0, 1)} if g.chance(0.3) else {}
        g.node(op, [x], 2, **attributes)
        return
    g.node(op, [x], **attributes)


@makes("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(g: Draft, op: str) -> None:
    x = g.fresh("float32", [*g.dims(2), *g.dims(g.pick(1, 2, 3), *SPATIAL)])
    g.node(op, [x], **({"p": g.pick(1, 2)} if op == "GlobalLpPool" else {}))


@makes("MaxUnpool")
def max_unpool(g: Draft, op: str) -> None:
    kernel = [g.pick(2, 3), g.pick(1, 2)]
    dims = [*g.dims(2, 1, 2, 3), g.dim(4, 6), g.dim(2, 4)]
    x = g.fresh("float32", dims)
    pooled = g.node("MaxPool", [x], 2, kernel_shape=kernel, strides=kernel)
    g.node(op, pooled, kernel_shape=kernel, strides=kernel)


ACTIVATIONS = ("Tanh", "Sigmoid", "Relu")


@makes("RNN", "GRU", "LSTM")
def recurrent(g: Draft, op: str) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    steps, batch = g.dim(1, 2, 3, 5), g.dim(1, 2, 3)
    size, hidden = g.pick(1, 2, 3), g.pick(1, 2, 4)
    direction = g.pick("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    x = g.fresh("float32", [steps, batch, size])
    w, r = (
        g.fresh("float32", [ways, gates * hidden, size], uniform(-1, 1)),
        g.fresh("float32", [ways, gates * hidden, hidden], uniform(-1, 1)),
    )
    b = g.fresh("float32", [ways, 2 * gates * hidden], uniform(-1, 1)) if g.chance(0.6) else None

    def lengths(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> Array:
        return rng.integers(1, g.size(steps, sizes) + 1, shape)

    given = g.fresh("int32", [g.twin(batch)], lengths, control=True) if g.chance(0.4) else None
    states = [
        g.fresh("float32", [ways, g.twin(batch), hidden]) if g.chance(0.4) else None
        for _ in range(2 if op == "LSTM" else 1)
    ]
    inputs = [x, w, r, b, given, *states]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if op == "LSTM":
        inputs.append(g.fresh("float32", [ways, 3 * hidden]) if g.chance(0.3) else None)
        attributes |= {"input_forget": 1} if g.chance(0.2) else {}
    if op == "GRU" and g.chance(0.5):
        attributes["linear_before_reset"] = 1
    if op == "RNN" and g.chance(0.4):
        attributes["activations"] = [g.pick(*ACTIVATIONS) for _ in range(ways)]
    if g.chance(0.2):
        attributes["clip"] = 1.5
    g.node(op, inputs, 3 if op == "LSTM" else 2, **attributes)


@makes("DFT")
def dft(g: Draft, op: str) -> None:
    x = g.fresh("float32", [*g.dims(2, 1, 2, 3, 4), g.pick(1, 2)])
    axis = g.pick(0, 1, -2, -3)
    inverse = g.pick(0, 1)
    one_sided = {"onesided": 1} if (x.dims or ())[-1] == 1 and not inverse and g.chance(0.5) else {}
    length = g.control(np.array(g.pick(2, 4, 5), np.int64)) if g.chance(0.3) else None
    if g.opset < 20:
        g.node(op, [x, length], axis=axis, inverse=inverse, **one_sided)
    else:
        g.node(op, [x, length, g.control(np.array(axis, np.int64))], inverse=inverse, **one_sided)


@makes("STFT")
def stft(g: Draft, op: str) -> None:
    x = g.fresh("float32", [g.dim(1, 2), g.dim(8, 9, 16), 1])
    step, frame = g.pick(2, 3), g.pick(4, 5)
    shape = g.weight(np.array(step, np.int64))
    windowed = g.fresh("float32", [frame]) if g.chance(0.5) else None
    length = g.weight(np.array(frame, np.int64)) if windowed is None or g.chance(0.5) else None
    g.node(op, [x, shape, windowed, length], onesided=g.pick(0, 1))


@makes("MelWeightMatrix")
def mel(g: Draft, op: str) -> None:
    values = (g.pick(3, 4), g.pick(8, 16), 8000), (0.0, 4000.0)
    inputs = [np.array(v, np.int64) for v in values[0]] + [np.array(v, np.float32) for v in values[1]]
    g.node(op, [g.control(v, fed=0.2) for v in inputs])


@makes("Attention")
def attention(g: Draft, op: str) -> None:
    batch, queries, keys = g.dim(1, 2, 3), g.dim(1, 2, 3, 5), g.dim(1, 2, 3, 5)
    heads, groups, size = g.pick(1, 2), g.pick(1, 2), g.pick(2, 4)
    if g.chance(0.6):
        q = g.fresh("float32", [batch, heads * groups, queries, size])
        k, v = (g.fresh("float32", [g.twin(batch), heads, g.twin(keys), size]) for _ in range(2))
        attributes: dict[str, Any] = {}
    else:
        q = g.fresh("float32", [batch, queries, heads * groups * size])
        k, v = (g.fresh("float32", [g.twin(batch), g.twin(keys), heads * size]) for _ in range(2))
        attributes = {"q_num_heads": heads * groups, "kv_num_heads": heads}
    mask = None
    if g.chance(0.4):
        mask = g.fresh(g.pick("float32", "bool"), [g.twin(queries), g.twin(keys)])
    if g.chance(0.3):
        attributes["is_causal"] = 1
    if g.chance(0.3):
        attributes["scale"] = g.pick(0.5, 1.0)
    if g.chance(0.2):
        attributes["softcap"] = 2.0
    g.node(op, [q, k, v, mask], **attributes)


@makes("RotaryEmbedding")
def rotary(g: Draft, op: str) -> None:
    batch, heads, steps, size = g.dim(1, 2), g.pick(1, 2), g.dim(1, 2, 3), g.pick(2, 4)
    x = g.fresh("float32", [batch, heads, steps, size])
    caches = [g.fresh("float32", [5, size // 2]) for _ in range(2)]
    positions = g.fresh("int64", [g.twin(batch), g.twin(steps)], integers(0, 5), control=True)
    g.node(op, [x, *caches, positions], interleaved=g.pick(0, 1))


@makes("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(g: Draft, op: str) -> None:
    batch, classes, rest = g.dim(1, 2, 3), g.pick(2, 3), g.dims(g.pick(0, 1))
    x = g.fresh(g.pick(*FLOATS[:4]), [batch, classes, *rest])
    target = g.fresh("int64", [g.twin(batch), *(g.twin(d) for d in rest)], integers(0, classes))
    weights = g.fresh(x.dtype, [classes], uniform(0.1, 1)) if g.chance(0.4) else None
    ignored = {"ignore_index": 1} if g.chance(0.3) else {}
    g.node(op, [x, target, weights], reduction=g.pick("none", "mean", "sum"), **ignored)
