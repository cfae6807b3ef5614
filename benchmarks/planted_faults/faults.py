"""The faults, each with the model that shows it and what has to be named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from graphwright.tools.debugging.bisection import Finding, WrongOutput, WrongStep
from graphwright.tools.debugging.passes import WrongPass

from .plant import (
    Moved,
    Plant,
    argument,
    changes_constant,
    changes_made_constant,
    changes_op,
    changes_task,
    drops,
    exchanged,
    exchanged_blocks,
    grid_less,
    in_launch,
    in_loops,
    in_order,
    in_pass,
    in_tasks,
    patched,
    reads_another,
    swaps_operands,
    with_number,
    without_conflicts,
    without_operand,
)

KERNEL: Final = "kernel"
MEMORY: Final = "memory"


@dataclass(frozen=True)
class Fault:
    """A fault of the compiler. ``cause``: the pass, kernel or memory that is at fault; ``node``: a node among
    those that must be named.
    """

    name: str
    model: str
    plant: Plant
    cause: str
    node: str

    def is_named(self, finding: Finding) -> bool:
        """Whether ``finding`` says what is at fault, and where."""
        return self.cause == cause_of(finding) and (not self.node or self.node in finding.sources)


def cause_of(finding: Finding) -> str:
    """The pass, kernel or memory; a text that no fault has for other findings."""
    cause = finding.cause
    if isinstance(cause, WrongPass):
        return f"pass {cause.name}"
    if isinstance(cause, WrongStep):
        return KERNEL if cause.overwritten is None else MEMORY
    if isinstance(cause, WrongOutput):
        return MEMORY
    return "nothing" if cause is None else "no step"


def _pass(name: str, change: Any, model: str, what: str, node: str) -> Fault:
    return Fault(f"{name} {what}", model, in_pass(name, change), f"pass {name}", node)


def _ten_percent(array: Any) -> Any:
    return array * array.dtype.type(1.1)


PASSES: Final = (
    _pass(
        "fold_constants",
        changes_made_constant("k_node", np.negative),
        "perceptron",
        "folds a sum to its negative",
        "k_node",
    ),
    _pass(
        "fold_conv_bn",
        changes_constant("bn_node", 2, lambda bias: 2 * bias),
        "convolutions",
        "doubles the bias that it folds",
        "bn_node",
    ),
    _pass(
        "cse",
        reads_another("b_node", 0, "a_node"),
        "movement",
        "takes two values for one",
        "b_node",
    ),
    _pass("remove_noops", drops("r1_node"), "perceptron", "removes a Relu", "d_node"),
    _pass("algebraic", swaps_operands("d_node"), "perceptron", "exchanges the operands of a Sub", "d_node"),
    _pass(
        "canonicalize_transposes",
        changes_op("turned_node", perm=(0, 1)),
        "square_transpose",
        "makes a Transpose the identity",
        "turned_node",
    ),
    _pass(
        "canonicalize_concats",
        swaps_operands("joined_node"),
        "movement",
        "exchanges the operands of a Concat",
        "joined_node",
    ),
    _pass(
        "canonicalize_reshapes",
        changes_op("part_node", starts=(3,), ends=(11,)),
        "movement",
        "moves a slice by one row",
        "part_node",
    ),
    _pass(
        "fuse_attention",
        changes_op("mixed_node", "ScaledDotProductAttention", scale=0.5),
        "attention",
        "takes another scale",
        "mixed_node",
    ),
    _pass(
        "decompose",
        swaps_operands("n_node", "Sub"),
        "perceptron",
        "takes x from the mean in place of the mean from x",
        "n_node",
    ),
    _pass(
        "decompose",
        swaps_operands("share_node", "Div"),
        "found_sizes",
        "divides the wrong way, in the second program of a model",
        "share_node",
    ),
    _pass("dead_code", reads_another("y_node", 1, "g_node"), "perceptron", "rewires an operand", "y_node"),
    _pass(
        "scale_weights",
        changes_constant("c2_node", 1, _ten_percent),
        "convolutions",
        "scales weights by 1.1",
        "c2_node",
    ),
    _pass("fuse", swaps_operands("y_node", "Div"), "perceptron", "exchanges operands in a region", "y_node"),
    _pass(
        "assign_layouts",
        changes_op("c2_node", pads=(2, 2, 0, 0)),
        "convolutions",
        "moves the padding of a convolution",
        "c2_node",
    ),
    _pass(
        "schedule",
        changes_op("last_node", "Loop", trips=2),
        "loops",
        "runs a loop once less",
        "last_node",
    ),
)


def _loops(old: str, new: str, model: str, what: str, node: str) -> Fault:
    return Fault(f"generated kernel: {what}", model, in_loops(old, new), KERNEL, node)


def _launch(model: str, node: str, change: Any, what: str) -> Fault:
    return Fault(f"launch: {what}", model, in_launch(node, change), KERNEL, node)


KERNELS: Final = (
    _loops("acc[] / 256", "acc[] / 255", "convolutions", "a mean divides by 255", "pool_node"),
    _loops("acc[] / 40", "acc[] / 39", "perceptron", "a mean divides by 39", "n_node"),
    _loops("mul_2 + x_2[r]", "mul_2 - x_2[r]", "perceptron", "a shift has the wrong sign", "n_node"),
    _loops("max(add, 0)", "max(add, 0.1)", "perceptron", "a Relu clips at 0.1", "r1_node"),
    _loops("mul / fixed_1", "mul * fixed_1", "perceptron", "a product in place of a quotient", "y_node"),
    _loops(
        "reducesum = acc_1[]",
        "reducesum = acc[]",
        "residuals",
        "a softmax divides by the maximum",
        "e_node",
    ),
    _loops("exp(x[r])", "exp(x[0])", "movement", "one element is read again and again", "total_node"),
    _loops("0.0 < reducemax", "100.0 < reducemax", "branches", "a comparison with 100", "chosen_node"),
    _loops("tanh(tile[r, c])", "tanh(tile[0, c])", "loops", "a hook reads one row", "last_node"),
    _loops(
        "reducesum = acc_1[]",
        "reducesum = acc[]",
        "found_sizes",
        "a softmax divides by the maximum, in a second program",
        "share_node",
    ),
    _launch("residuals", "h_node", grid_less, "a unit is left out"),
    _launch("convolutions", "logits_node", without_operand(2), "a bias is left out"),
    _launch("convolutions", "sum_node", without_operand(3), "a residual is left out"),
    _launch("convolutions", "r1_node", argument(1, 0), "a Relu is not applied"),
    _launch("attention", "scores_node", exchanged(0, 1), "two operands are exchanged"),
)


def _tasks(model: str, node: str, change: Any, what: str, cause: str = KERNEL) -> Fault:
    return Fault(f"tasks: {what}", model, in_tasks(change), cause, node)


def _shifted(original: Any) -> Any:
    """Lets a program read weights, except the first, 64 bytes too early."""

    def places(*arguments: Any) -> Any:
        return {value: (max(start - 64, 0), size) for value, (start, size) in original(*arguments).items()}

    return places


def _cleared(original: Any) -> Any:
    """Clears the last elements of weights before they are packed."""

    def jobs(packed: Any, array: Any, layout: Any) -> Any:
        less = array.copy()
        less[..., -1] = 0
        return original(packed, less, layout)

    return jobs


MEMORIES: Final = (
    _tasks(
        "residuals",
        "b_node",
        without_conflicts("a", "b", "c", "d", "e", "h"),
        "values are planned over others",
        MEMORY,
    ),
    _tasks(
        "movement",
        "joined_node",
        without_conflicts("joined", "turned", "c", "e"),
        "other values are planned over others",
        MEMORY,
    ),
    Fault(
        "order: a step runs before what it reads",
        "residuals",
        in_order("c_node", "d_node"),
        MEMORY,
        "d_node",
    ),
    Fault(
        "storage: a value is overwritten in place that is read later",
        "in_place",
        patched("graphwright.memory.storage._Assigner._are_last_read_at", lambda original: lambda *_: True),
        MEMORY,
        "y_node",
    ),
    Fault(
        "weights: places are 64 bytes too early",
        "residuals",
        patched("graphwright.compiler.read_constants._adopt_packed", _shifted),
        KERNEL,
        "b_node",
    ),
    Fault(
        "weights: the last column is not packed",
        "residuals",
        patched("graphwright.kernels.candidates.context.pack_jobs", _cleared),
        KERNEL,
        "a_node",
    ),
    _tasks(
        "residuals", "g_node", changes_task("g_node", Moved(3, "c_node", 0)), "an operand is another value"
    ),
    _tasks("residuals", "d_node", changes_task("d_node", Moved(4, "c_node", 0)), "a result lies elsewhere"),
    _tasks("movement", "b_node", changes_task("b_node", Moved(4, "a_node", 4)), "a slot begins too early"),
    _tasks("movement", "e_node", changes_task("e_node", Moved(0, "c_node", 4)), "a slice begins too early"),
    _tasks("movement", "joined_node", changes_task("joined_node", with_number(512, 0)), "a copy is left out"),
    _tasks("copied_output", "", changes_task("", with_number(512, 0)), "an output is not copied", MEMORY),
    _tasks(
        "branches",
        "yes_node",
        changes_task("yes_node", Moved(1, "no_node", 1)),
        "a branch has the weights of the other",
    ),
    _tasks("branches", "c_node", exchanged_blocks, "branches are exchanged"),
    _tasks("loops", "last_node", changes_task("last_node", with_number(3, 1)), "a loop ends too early"),
)
FAULTS: Final = (*PASSES, *KERNELS, *MEMORIES)
