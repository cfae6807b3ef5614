"""Random cases: a case is a function of its seed and of the ops to draw from."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from . import containers, contrib, control, elementwise, movement, products, small_floats, stochastic
from .draft import Case, Draft, Impossible
from .makers import MAKERS, listed

OPSETS = (7, 8, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 18, 19, 20, 21, 21, 22, 23, 24, 25, 26, 27, 28)
LARGEST = 6
PLAIN = (
    *elementwise.UNARY,
    *elementwise.BINARY,
    *listed(
        "Clip Where Min Max Mod Sum ReduceMax ReduceMin ArgMax ArgMin TopK Softmax Concat "
        "Transpose Gather Slice Pad Reshape"
    ),
)
"""Ops that are fed NaN and infinities as well."""


MODULES = (containers, contrib, control, elementwise, movement, products, small_floats, stochastic)
"""They enter their makers."""
FOREIGN = frozenset(name for name, maker in MAKERS.items() if maker.__module__ == contrib.__name__) | {
    "Bfloat16"
}
"""Names of makers that are no ops of onnx."""


def generate(seed: int, ops: Sequence[str] = ()) -> Case:
    """A case of one to six nodes of ``ops``; default: all ops that have a maker."""
    random = Random(seed ^ 0x5EED)
    draft = Draft(seed, random.choice(OPSETS))
    names = list(ops) or sorted(MAKERS)
    if random.random() < 0.25:
        plain = [name for name in names if name in PLAIN]
        names, draft.strange = plain or names, bool(plain)
    wanted = random.choice((1, 1, 1, 2, 2, 3, 4, 5, 6))
    for _ in range(20 * LARGEST):
        if len(draft.nodes) >= wanted:
            break
        name = random.choice(names)
        try:
            if name not in FOREIGN:
                draft.schema(name)
            MAKERS[name](draft, name)
        except Impossible:
            draft.opset = draft.opset if draft.nodes else random.choice(OPSETS)
    if not draft.nodes:
        raise Impossible("no op of these fits an opset")
    return draft.case()
