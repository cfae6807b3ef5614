"""Models that no one program runs: nodes that the host runs, and the programs of the parts between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from graphwright.ir.dtypes import dtype_named
from graphwright.package.package import Target, TensorSpec, Variant
from graphwright.records import dataclass, replace

MAX_DEPTH = 32
"""Of bodies in bodies."""
Targets = Callable[[int], Mapping[str, Target]]
"""The targets of the part of a number."""


@dataclass(frozen=True)
class PartStep:
    """A program of its own: it makes ``outputs`` of the values ``inputs``, and of an array ``u8[size, 0]``
    for each of ``sizes``, which tells it that size.

    Without targets it is compiled at the first run, when the ranks of its inputs are known.
    """

    number: int
    inputs: tuple[int, ...]
    sizes: tuple[str, ...]
    outputs: tuple[int, ...]
    program: Variant

    @property
    def is_open(self) -> bool:
        """Whether a rank of an input is not known."""
        return any(spec.shape is None for spec in self.program.inputs)


@dataclass(frozen=True)
class HostStep:
    """A node that the host runs, and why: ``op`` as the graph text prints it. An op with regions runs
    ``bodies``. If it ``repeats``, it is a loop whose body is a part and no more: native code runs that again
    and again.
    """

    op: str
    place: str
    reason: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    bodies: tuple[Stages, ...] = ()
    repeats: bool = False


@dataclass(frozen=True)
class FrontStep:
    """A size that a part found: the first of ``inputs`` says how much ``size`` is, the others are rooms of
    which ``outputs`` are the first elements, under ``shapes`` in which -1 stands for the size.
    """

    size: str
    shapes: tuple[tuple[int, ...], ...]
    place: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


Step = PartStep | HostStep | FrontStep


@dataclass(frozen=True)
class Stages:
    """What runs in place of one program. Values are numbered: the first ``inputs`` are the inputs; those of
    ``constants`` lie in the weights, by digest; steps make the others.
    """

    inputs: int
    values: tuple[TensorSpec, ...]
    constants: tuple[tuple[int, str], ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    def walk(self) -> Iterator[Step]:
        """All steps, those of bodies behind the node that runs them."""
        for step in self.steps:
            yield step
            for body in step.bodies if isinstance(step, HostStep) else ():
                yield from body.walk()

    def parts(self) -> list[PartStep]:
        """All parts, those of bodies too, in the order of their numbers."""
        found = [step for step in self.walk() if isinstance(step, PartStep)]
        return sorted(found, key=lambda part: part.number)

    def hosts(self) -> list[HostStep]:
        """All nodes that the host runs, those of bodies too."""
        return [step for step in self.walk() if isinstance(step, HostStep)]


def with_targets(stages: Stages, targets: Targets) -> Stages:
    """``stages`` whose parts have other targets."""

    def changed(step: Step) -> Step:
        if isinstance(step, PartStep):
            return replace(step, program=replace(step.program, targets=targets(step.number)))
        if isinstance(step, HostStep):
            return replace(step, bodies=tuple(with_targets(body, targets) for body in step.bodies))
        return step

    return replace(stages, steps=tuple(map(changed, stages.steps)))


def to_plain(stages: Stages) -> dict[str, Any]:
    """What JSON holds: all but the targets."""
    return {
        "inputs": stages.inputs,
        "values": [plain_spec(spec) for spec in stages.values],
        "constants": [list(constant) for constant in stages.constants],
        "steps": [_plain_step(step) for step in stages.steps],
        "outputs": list(stages.outputs),
    }


def plain_spec(spec: TensorSpec) -> list[Any]:
    """Name, dtype and shape."""
    return [spec.name, spec.dtype.name, spec.shape]


_MAX_RANK = 64
"""NumPy's."""


def read_spec(plain: Any) -> TensorSpec:
    """What :func:`plain_spec` made."""
    name, dtype, shape = plain
    dims = None if shape is None else tuple(int(d) if isinstance(d, int) else str(d) for d in shape)
    if dims is not None and (len(dims) > _MAX_RANK or any(isinstance(d, int) and d < 0 for d in dims)):
        raise ValueError(f"{str(name)!r} has no shape of a tensor: {list(dims)}")
    return TensorSpec(str(name), dtype_named(dtype), dims)


def _plain_step(step: Step) -> dict[str, Any]:
    if isinstance(step, FrontStep):
        return {
            "front": step.size,
            "shapes": [list(shape) for shape in step.shapes],
            "place": step.place,
            "inputs": list(step.inputs),
            "outputs": list(step.outputs),
        }
    return _plain_part(step) if isinstance(step, PartStep) else _plain_host(step)


def _plain_part(part: PartStep) -> dict[str, Any]:
    return {
        "part": part.number,
        "inputs": list(part.inputs),
        "sizes": list(part.sizes),
        "outputs": list(part.outputs),
        "takes": [plain_spec(spec) for spec in part.program.inputs],
        "gives": [plain_spec(spec) for spec in part.program.outputs],
    }


def _plain_host(host: HostStep) -> dict[str, Any]:
    return {
        "op": host.op,
        "place": host.place,
        "reason": host.reason,
        "inputs": list(host.inputs),
        "outputs": list(host.outputs),
        "bodies": [to_plain(body) for body in host.bodies],
        "repeats": host.repeats,
    }


def from_plain(plain: Any, targets: Targets, depth: int = 0) -> Stages:
    """What :func:`to_plain` made. Raises KeyError, TypeError or ValueError where it cannot be run."""
    if depth > MAX_DEPTH:
        raise ValueError("stages nest too deeply")
    stages = Stages(
        _count(plain["inputs"]),
        tuple(map(read_spec, plain["values"])),
        tuple((_count(value), str(digest)) for value, digest in plain["constants"]),
        tuple(_step(step, targets, depth) for step in plain["steps"]),
        tuple(map(_count, plain["outputs"])),
    )
    _check_order(stages)
    return stages


def _step(plain: Any, targets: Targets, depth: int) -> Step:
    inputs, outputs = plain["inputs"], tuple(map(_count, plain["outputs"]))
    if "part" in plain:
        number, sizes = _count(plain["part"]), tuple(map(str, plain["sizes"]))
        takes, gives = tuple(map(read_spec, plain["takes"])), tuple(map(read_spec, plain["gives"]))
        if len(takes) != len(inputs) + len(sizes) or len(gives) != len(outputs):
            raise ValueError(f"subgraph {number} has another number of inputs or outputs than its program")
        program = Variant(takes, gives, targets(number))
        return PartStep(number, tuple(map(_count, inputs)), sizes, outputs, program)
    if "front" in plain:
        shapes = tuple(tuple(map(int, shape)) for shape in plain["shapes"])
        if not len(shapes) == len(outputs) == len(inputs) - 1:
            raise ValueError(f"{plain['place']} has another number of buffers than of values")
        numbers = tuple(map(_count, inputs))
        return FrontStep(str(plain["front"]), shapes, str(plain["place"]), numbers, outputs)
    bodies = tuple(from_plain(body, targets, depth + 1) for body in plain["bodies"])
    repeats = bool(plain.get("repeats"))
    if repeats and [[type(inner) for inner in body.steps] for body in bodies] != [[PartStep]]:
        raise ValueError("a step repeats what is not one part")
    return HostStep(
        str(plain["op"]),
        str(plain["place"]),
        str(plain["reason"]),
        tuple(None if value is None else _count(value) for value in inputs),
        outputs,
        bodies,
        repeats,
    )


def _count(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is no number of a value")
    return number


def _check_order(stages: Stages) -> None:
    """Every value is made once, before it is read, and what a part takes and gives has the values' types."""
    if stages.inputs > len(stages.values):
        raise ValueError(f"{stages.inputs} inputs are more than there are values")
    made = [*range(stages.inputs), *(value for value, _ in stages.constants)]
    known = set(made)
    for step in stages.steps:
        _check_read((value for value in step.inputs if value is not None), known)
        if isinstance(step, PartStep):
            _check_types(step, stages.values)
        made += step.outputs
        known.update(step.outputs)
    _check_read(stages.outputs, known)
    if len(made) != len(known) or known != set(range(len(stages.values))):
        raise ValueError("values of stages are not made once each")


def _check_read(values: Iterable[int], known: set[int]) -> None:
    if missing := sorted(set(values) - known):
        raise ValueError(f"a stage reads value {missing[0]}, which none before it makes")


def _check_types(part: PartStep, values: Sequence[TensorSpec]) -> None:
    inputs = [values[number].dtype for number in part.inputs] + [dtype_named("u8")] * len(part.sizes)
    wanted = inputs + [values[number].dtype for number in part.outputs]
    if wanted != [spec.dtype for spec in (*part.program.inputs, *part.program.outputs)]:
        raise ValueError(f"part {part.number} has other types than the values that it reads and makes")
