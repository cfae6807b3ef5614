"""What a shape program computes, in Python: for those who look at a program without planning a run of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphwright.lower.tasks import Code, Instruction, TaskGraph


def register_values(program: TaskGraph, sizes: Mapping[str, Sequence[int]], otherwise: int) -> list[int]:
    """The registers for inputs of ``sizes``, by name; a size that is not among them is ``otherwise``."""
    shapes = [sizes.get(binding.name, ()) for binding in program.inputs]
    values: list[int] = []
    for each in program.shape:
        if each.code is Code.CONST:
            values.append(each.a)
        elif each.code is Code.DIM:
            shape = shapes[each.a]
            values.append(shape[each.b] if each.b < len(shape) else otherwise)
        else:
            values.append(_computed(each, values))
    return values


def _computed(each: Instruction, values: Sequence[int]) -> int:
    left, right = values[each.a], values[each.b]
    match each.code:
        case Code.ADD:
            return left + right
        case Code.SUB:
            return left - right
        case Code.MUL:
            return left * right
        case Code.FLOORDIV:
            return left // right if right else 0
        case Code.MOD:
            return left % right if right else 0
        case Code.MIN:
            return min(left, right)
        case Code.MAX:
            return max(left, right)
    return left  # a check or a guard, which may fail: nothing is run
