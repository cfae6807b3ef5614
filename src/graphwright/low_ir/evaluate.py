"""Evaluates shape programs in Python; in a run, ``runtime/native`` does this."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from graphwright.low_ir.tasks import Code, Instruction, TaskGraph

_COMPUTED: Final[Mapping[Code, Callable[[int, int], int]]] = {
    Code.ADD: operator.add,
    Code.SUB: operator.sub,
    Code.MUL: operator.mul,
    Code.FLOORDIV: lambda a, b: a // b if b else 0,
    Code.MOD: lambda a, b: a % b if b else 0,
    Code.MIN: min,
    Code.MAX: max,
}


def evaluate_shapes(
    instructions: Sequence[Instruction], inputs: Sequence[Sequence[int]], default: int = 0
) -> list[int]:
    """The value of each register for inputs of these shapes. Checks and guards are not enforced, and division
    by zero gives 0. An axis that an input lacks has the size ``default``.
    """
    registers: list[int] = []
    for each in instructions:
        if each.code is Code.CONST:
            registers.append(each.a)
        elif each.code is Code.DIM:
            shape = inputs[each.a]
            registers.append(shape[each.b] if each.b < len(shape) else default)
        elif each.code in _COMPUTED:
            registers.append(_COMPUTED[each.code](registers[each.a], registers[each.b]))
        else:
            registers.append(registers[each.a])
    return registers


def register_values(program: TaskGraph, shapes: Mapping[str, Sequence[int]], default: int) -> list[int]:
    """The value of each register of ``program`` for inputs of ``shapes``, by name; unknown sizes are
    ``default``.
    """
    return evaluate_shapes(program.shape, [shapes.get(each.name, ()) for each in program.inputs], default)
