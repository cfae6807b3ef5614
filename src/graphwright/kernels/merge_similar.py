"""Merges generated kernels that differ only in numbers, such as the scales of quantized layers: one kernel
receives the numbers as arguments.

T. J. K. Edler von Koch, B. Franke, P. Bhandarkar and A. Dasgupta, "Exploiting function similarity for code
size reduction" (2014).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from graphwright.ir.loops.nodes import Alloc, Const, Kernel, Let, Loop, Ref, Scalar, walk
from graphwright.ir.loops.rewrite import rewrite_operands
from graphwright.ir.symbols import Dim
from graphwright.ir.types import F32
from graphwright.kernels.candidates.generated import GENERATED, GeneratedKernels
from graphwright.kernels.launch import Alias, Branch, Copy, Hook, Host, Launch, NativeLoop, Run, SelectedNode
from graphwright.kernels.ref import KernelRef
from graphwright.kernels.steps import all_steps
from graphwright.records import dataclass, replace
from graphwright.support.unique_names import UniqueNames

_FUNCTIONS: Final = frozenset(("add", "sub", "mul", "div", "quantize"))
"""Functions whose code does not depend on whether an operand is a literal."""
_LEAST_KERNELS: Final = 3
"""Fewer kernels stay as they are: reading an argument takes longer than a literal."""
_MOST_SCALARS: Final = 32

_Steps = tuple[SelectedNode, ...]
_Group = Mapping[str, Sequence[Const]]
"""Similar kernels by name, each with its literals in the order of the template."""
_Action = Run | Alias | Branch | NativeLoop | Host


@dataclass(frozen=True)
class _Call:
    """The kernel that replaces another one, and the arguments to add."""

    kernel: KernelRef
    scalars: tuple[int, ...]


def merge_similar(programs: Sequence[_Steps], generated: GeneratedKernels) -> list[_Steps]:
    """The steps of ``programs`` with merged kernels, which replace those that they merge in ``generated``."""
    calls: dict[KernelRef, _Call] = {}
    for template, group in _groups(generated, set(_passed(programs))).items():
        calls |= _merge(template, group, generated)
    return [_with_calls(steps, calls) for steps in programs] if calls else list(programs)


def _passed(programs: Sequence[_Steps]) -> Iterator[str]:
    """The kernels that launches pass to other kernels as function pointers. They have no arguments of their
    own.
    """
    for step in (step for steps in programs for step in all_steps(steps)):
        launches = step.action.launches if isinstance(step.action, Run) else ()
        for operand in (o for launch in launches if isinstance(launch, Launch) for o in launch.operands):
            if isinstance(operand, KernelRef):
                yield operand.symbol


def _groups(generated: GeneratedKernels, excluded: set[str]) -> Mapping[Kernel, _Group]:
    """Groups of kernels that are equal except for numbers, by a template with a variable for each number."""
    groups: dict[Kernel, dict[str, Sequence[Const]]] = defaultdict(dict)
    for kernel, name in generated.names.items():
        numbers: list[Const] = []
        template = rewrite_operands(kernel, partial(_variable, numbers))
        if numbers and name not in excluded:
            groups[template][name] = numbers
    return {template: group for template, group in groups.items() if len(group) >= _LEAST_KERNELS}


def _variable(numbers: list[Const], function: str, operand: Scalar) -> Scalar:
    """A variable of the template instead of a number, which is appended to ``numbers``."""
    if function not in _FUNCTIONS or not isinstance(operand, Const) or operand.dtype != F32:
        return operand
    numbers.append(operand)
    return Ref(_placeholder(len(numbers) - 1), F32)


def _placeholder(position: int) -> str:
    return f"#{position}"


def _merge(template: Kernel, group: _Group, generated: GeneratedKernels) -> dict[KernelRef, _Call]:
    """Replaces the kernels of ``group`` by one. Numbers that are equal in all of them stay literals."""
    columns = list(zip(*group.values(), strict=True))
    varying = dict.fromkeys(column for column in columns if len(set(column)) > 1)
    if len(varying) > _MOST_SCALARS:
        return {}
    names = UniqueNames()
    for taken in _names(template):
        names.take(taken)
    scalars = {column: Ref(names.take("scalar"), F32) for column in varying}
    values = {_placeholder(k): scalars.get(column, column[0]) for k, column in enumerate(columns)}
    kernel = rewrite_operands(
        template,
        lambda _, operand: values.get(operand.name, operand) if isinstance(operand, Ref) else operand,
    )
    kernel = replace(kernel, scalars=tuple(scalar.name for scalar in scalars.values()))
    merged = KernelRef(generated.merge(kernel, list(group)), GENERATED)
    return {
        KernelRef(name, GENERATED): _Call(merged, tuple(_bits(column[k]) for column in varying))
        for k, name in enumerate(group)
    }


def _names(kernel: Kernel) -> Iterator[str]:
    """All names that ``kernel`` declares."""
    yield from kernel.sizes
    yield from (buffer.name for buffer in kernel.parameters)
    for statement in walk(kernel.body):
        match statement:
            case Let(name=name) | Loop(axis=name):
                yield name
            case Alloc(buffer=buffer):
                yield buffer.name


def _bits(number: Const) -> int:
    """The bits of an f32 as an argument."""
    return int(np.float32(number.value).view(np.int32))


def _with_calls(steps: _Steps, calls: Mapping[KernelRef, _Call]) -> _Steps:
    return tuple(replace(step, action=_action(step.action, calls)) for step in steps)


def _action(action: _Action, calls: Mapping[KernelRef, _Call]) -> _Action:
    match action:
        case Run(launches=launches):
            return replace(action, launches=tuple(_launch(launch, calls) for launch in launches))
        case Branch(blocks=blocks):
            return replace(action, blocks=tuple(_with_calls(block, calls) for block in blocks))
        case NativeLoop(steps=steps):
            return replace(action, steps=_with_calls(steps, calls))
    return action


def _launch(launch: Launch | Copy, calls: Mapping[KernelRef, _Call]) -> Launch | Copy:
    if isinstance(launch, Copy):
        return launch
    hook = launch.hook
    if hook is not None:
        kernel, args = _called(hook, calls)
        hook = replace(hook, kernel=kernel, args=args)
    kernel, args = _called(launch, calls)
    return replace(launch, kernel=kernel, args=args, hook=hook)


def _called(caller: Launch | Hook, calls: Mapping[KernelRef, _Call]) -> tuple[KernelRef, tuple[Dim, ...]]:
    """The kernel that ``caller`` calls after merging, and its arguments."""
    call = calls.get(caller.kernel)
    return (caller.kernel, caller.args) if call is None else (call.kernel, (*caller.args, *call.scalars))
