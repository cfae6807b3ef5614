"""Encodes executables as JSON values and decodes them, except for the targets of programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from graphwright.executable.nodes import (
    COMPILE,
    ERROR,
    BindSize,
    CallHost,
    CallProgram,
    Dispatch,
    Executable,
    HostProgram,
    HostStep,
    Program,
)
from graphwright.executable.specs import TensorSpec, decode_spec, encode_spec
from graphwright.executable.target_code import TargetCode
from graphwright.ir.dtypes import dtype_named

MAX_DEPTH: Final = 32
"""The deepest nesting of executables, and of bodies in host programs."""
Targets = Callable[[int], Mapping[str, TargetCode]]
"""The targets of a program by its number, which is its position in :func:`programs_of`."""


def encode(executable: Executable) -> dict[str, Any]:
    """The executable as a JSON value, which :func:`decode` reads."""
    if isinstance(executable, Program):
        own = {"guards": list(executable.guards), "device": executable.device}
        return {"kind": "program", **_encode_interface(executable), **own}
    if isinstance(executable, Dispatch):
        return {
            "kind": "dispatch",
            **_encode_interface(executable),
            "cases": list(map(encode, executable.cases)),
            "otherwise": executable.otherwise,
            "subgraph": executable.subgraph,
        }
    return {"kind": "host", **_encode_host_program(executable)}


def _encode_interface(executable: Program | Dispatch) -> dict[str, Any]:
    return {
        "inputs": list(map(encode_spec, executable.inputs)),
        "outputs": list(map(encode_spec, executable.outputs)),
        "states": list(executable.states),
    }


def _encode_host_program(program: HostProgram) -> dict[str, Any]:
    return {
        "inputs": program.input_count,
        "values": list(map(encode_spec, program.values)),
        "constants": [list(constant) for constant in program.constants],
        "steps": list(map(_encode_step, program.steps)),
        "outputs": list(program.results),
        "updates": [list(update) for update in program.updates],
        "guards": list(program.guards),
        "constraints": list(program.constraints),
    }


def _encode_step(step: HostStep) -> dict[str, Any]:
    numbers = {"inputs": list(step.inputs), "outputs": list(step.outputs)}
    if isinstance(step, BindSize):
        shapes = [list(shape) for shape in step.shapes]
        return {"bind": step.size, "shapes": shapes, "node": step.node, **numbers}
    if isinstance(step, CallProgram):
        return {"call": step.number, "sizes": list(step.sizes), "callee": encode(step.callee), **numbers}
    bodies = list(map(_encode_host_program, step.bodies))
    texts = {"op": step.op, "node": step.node, "reason": step.reason}
    return {**texts, "bodies": bodies, "repeats": step.repeats, **numbers}


def decode(plain: Any, targets: Targets) -> Executable:
    """The inverse of :func:`encode`. Raises KeyError, TypeError or ValueError if the value is malformed."""
    return _Decoder(targets).executable(plain, 0)


class _Decoder:
    """Decodes executables and numbers their programs."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._numbers = count()

    def executable(self, plain: Any, depth: int) -> Executable:
        if depth > MAX_DEPTH:
            raise ValueError("executables nest too deeply")
        if plain["kind"] == "host":
            program = self._host_program(plain, depth)
            _check_numbers(program)
            return program
        inputs, outputs = (tuple(map(decode_spec, plain[name])) for name in ("inputs", "outputs"))
        states = _states(plain["states"], inputs)
        if plain["kind"] == "program":
            guards = tuple(map(str, plain["guards"]))
            targets = self._targets(next(self._numbers))
            return Program(inputs, outputs, guards, targets, states, device=str(plain["device"]))
        if plain["kind"] != "dispatch" or plain["otherwise"] not in (ERROR, COMPILE):
            raise ValueError(f"an executable is of an unknown kind: {plain['kind']!r}")
        cases = tuple(self.executable(case, depth + 1) for case in plain["cases"])
        if any(_dtypes(case) != _dtypes_of(inputs, outputs) or case.states != states for case in cases):
            raise ValueError("a case has other inputs, outputs or states than its dispatch")
        subgraph = None if plain["subgraph"] is None else _number(plain["subgraph"])
        return Dispatch(inputs, outputs, cases, plain["otherwise"], subgraph, states)

    def _host_program(self, plain: Any, depth: int) -> HostProgram:
        if depth > MAX_DEPTH:
            raise ValueError("bodies nest too deeply")
        program = HostProgram(
            _number(plain["inputs"]),
            tuple(map(decode_spec, plain["values"])),
            tuple((_number(value), str(digest)) for value, digest in plain["constants"]),
            tuple(self._step(step, depth) for step in plain["steps"]),
            tuple(map(_number, plain["outputs"])),
            tuple((_number(state), _number(value)) for state, value in plain["updates"]),
            tuple(map(str, plain["guards"])),
            tuple(map(str, plain["constraints"])),
        )
        _check_order(program)
        return program

    def _step(self, plain: Any, depth: int) -> HostStep:
        outputs = tuple(map(_number, plain["outputs"]))
        if "call" in plain:
            return self._call(plain, outputs, depth)
        if "bind" in plain:
            return _bind_size(plain, outputs)
        bodies = tuple(self._host_program(body, depth + 1) for body in plain["bodies"])
        repeats = bool(plain["repeats"])
        if repeats and [body.is_native for body in bodies] != [True]:
            raise ValueError(
                "a native loop must have one body, of calls of programs and sizes that are bound"
            )
        return CallHost(
            str(plain["op"]),
            str(plain["node"]),
            str(plain["reason"]),
            tuple(None if value is None else _number(value) for value in plain["inputs"]),
            outputs,
            bodies,
            repeats,
        )

    def _call(self, plain: Any, outputs: tuple[int, ...], depth: int) -> CallProgram:
        number, sizes = _number(plain["call"]), tuple(map(str, plain["sizes"]))
        inputs = tuple(map(_number, plain["inputs"]))
        callee = self.executable(plain["callee"], depth + 1)
        if len(callee.inputs) != len(inputs) + len(sizes) or len(callee.outputs) != len(outputs):
            raise ValueError(f"call {number} has another number of inputs or outputs than its program")
        if callee.states:
            raise ValueError(f"call {number} calls a program that updates states")
        if isinstance(callee, Dispatch) and callee.subgraph != number:
            raise ValueError(f"call {number} compiles another subgraph")
        return CallProgram(number, inputs, sizes, outputs, callee)


def _bind_size(plain: Any, outputs: tuple[int, ...]) -> BindSize:
    shapes = tuple(tuple(map(int, shape)) for shape in plain["shapes"])
    inputs = tuple(map(_number, plain["inputs"]))
    if not len(shapes) == len(outputs) == len(inputs) - 1:
        raise ValueError(f"{plain['node']} must have one output for each buffer")
    return BindSize(str(plain["bind"]), shapes, str(plain["node"]), inputs, outputs)


def _states(plain: Any, inputs: Sequence[TensorSpec]) -> tuple[int, ...]:
    states = tuple(map(_number, plain))
    if len(set(states)) < len(states) or any(number >= len(inputs) for number in states):
        raise ValueError("a state is not an input, or is listed twice")
    return states


def _number(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is not the number of a value")
    return number


def _check_numbers(program: HostProgram) -> None:
    numbers = [call.number for call in program.calls()]
    if len(set(numbers)) < len(numbers):
        raise ValueError("two calls have the same number")


def _check_order(program: HostProgram) -> None:
    """Raises ValueError unless each value is made exactly once and before it is read. The types of values
    must match those of the programs that are called.
    """
    if program.input_count > len(program.values):
        raise ValueError(f"there are {program.input_count} inputs, but only {len(program.values)} values")
    defined = [*range(program.input_count), *(value for value, _ in program.constants)]
    known = set(defined)
    for step in program.steps:
        _check_read((value for value in step.inputs if value is not None), known)
        if isinstance(step, CallProgram):
            _check_types(step, program.values)
        defined += step.outputs
        known.update(step.outputs)
    _check_read(program.results, known)
    _check_read((value for _, value in program.updates), known)
    _states(program.states, program.inputs)
    if len(defined) != len(known) or known != set(range(len(program.values))):
        raise ValueError("each value of a host program must be made exactly once")


def _check_read(values: Iterable[int], known: set[int]) -> None:
    if missing := sorted(set(values) - known):
        raise ValueError(f"a step reads value {missing[0]}, which no earlier step makes")


def _check_types(call: CallProgram, values: Sequence[TensorSpec]) -> None:
    inputs = [values[number].dtype for number in call.inputs] + [dtype_named("u8")] * len(call.sizes)
    wanted = inputs + [values[number].dtype for number in call.outputs]
    if wanted != list(_dtypes(call.callee)):
        raise ValueError(f"the types of call {call.number} do not match the values that it reads and makes")


def _dtypes(executable: Executable) -> list[object]:
    return _dtypes_of(executable.inputs, executable.outputs)


def _dtypes_of(*specs: Sequence[TensorSpec]) -> list[object]:
    return [spec.dtype for each in specs for spec in each]
