"""Legality of merges: whether one kernel can compute the nodes, and whether the graph stays acyclic.

No fusion rule overrides these checks. Each refusal has a code of its own.
"""

from __future__ import annotations

from graphwright.fusion.candidate import Candidate
from graphwright.fusion.epilogue import epilogue_refusal
from graphwright.fusion.moves import moves_refusal, stored_parts_refusal
from graphwright.fusion.outline import operands_of
from graphwright.fusion.siblings import siblings_refusal
from graphwright.ir.graph import Node
from graphwright.ir.op import Trait
from graphwright.ir.refusal import Code, Refusal
from graphwright.loop_nests.axes import NotOneNest
from graphwright.loop_nests.moves import is_move
from graphwright.targets.base import Target


def loops_refusal(node: Node) -> Refusal | None:
    """Why no target can have ``node`` in a region; None for contractions and for ops with a loop nest."""
    if any(v.type.shape is None for v in (*node.inputs, *node.outputs) if v is not None):
        return Refusal(Code.UNKNOWN_RANK, "an operand or result has unknown rank")
    traits = node.op.traits
    if Trait.CONTRACTION in traits:
        return None
    fusable = Trait.VIEW in traits or Trait.REDUCTION in traits or node.op.has_expression() or is_move(node)
    if not fusable or node.regions or None in node.inputs or len(node.outputs) != 1:
        return Refusal(Code.NO_LOOPS, f"{node.op.name} has no loop nest over elements")
    return None


def code_refusal(node: Node, target: Target) -> Refusal | None:
    """Why ``node``, which has passed :func:`loops_refusal`, cannot be in a region for ``target``; None if it
    can.
    """
    dtypes = {value.type.dtype for value in (*node.inputs, *node.outputs) if value is not None}
    missing = sorted(str(dtype) for dtype in dtypes if not target.has_code(dtype))
    if missing:
        return Refusal(Code.NO_CODE, f"no code generator for {', '.join(missing)}")
    if Trait.CONTRACTION in node.op.traits and not target.library:
        return Refusal(
            Code.NO_EPILOGUE, f"target {target.name} has no contraction kernel that runs an epilogue"
        )
    return target.node_refusal(node)


def merge_refusal(candidate: Candidate) -> Refusal | None:
    """Why no single kernel can compute both sides of ``candidate``; None if one can."""
    producer, consumer, target = candidate.producer, candidate.consumer, candidate.target
    nodes, anchors = candidate.nodes, candidate.anchors
    if producer.anchors and consumer.anchors and (refusal := siblings_refusal(anchors)) is not None:
        return refusal
    if len(nodes) > target.limits.nodes:
        return Refusal(Code.MANY_NODES, f"the kernel would have more than {target.limits.nodes} nodes")
    if any(v is not None and v.producer in candidate.members for anchor in anchors for v in anchor.inputs):
        return Refusal(Code.EPILOGUE_IS_OPERAND, "an operand of the contraction depends on its epilogue")
    moves = any(map(is_move, nodes))
    if anchors and moves:
        return Refusal(Code.MOVED_EPILOGUE, Code.MOVED_EPILOGUE.means)
    try:
        nest = candidate.nest
        stored = candidate.stored() if moves or nest.partial else []
        refusal = stored_parts_refusal(nest, stored)
        if moves and refusal is None:
            refusal = moves_refusal(nest, stored)
    except NotOneNest as found:
        return found.refusal
    if refusal is not None:
        return refusal
    rest = [n for n in nodes if n not in anchors]
    for anchor in anchors:
        if (refusal := epilogue_refusal(anchor, rest, nest)) is not None:
            return refusal
    if len(operands_of(nodes)) > target.limits.operands:
        return Refusal(
            Code.MANY_OPERANDS, f"the kernel would have more than {target.limits.operands} operands"
        )
    if candidate.partition.makes_cycle(candidate.members):
        return Refusal(Code.CYCLE, "the merged kernel would depend on its own result")
    return target.region_refusal(nodes, nest)
