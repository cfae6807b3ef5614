"""Finds the steps that can be stages of a chain that runs in bands of rows."""

from __future__ import annotations

from typing import Final

from graphwright.ir.graph import Value
from graphwright.ir.loops.hook import HOOK_SIZES
from graphwright.ir.loops.nodes import Buffer, Kernel
from graphwright.ir.symbols import Dim, names_in
from graphwright.ir.types import F32
from graphwright.kernels.bands import bands
from graphwright.kernels.bands.benefit import Costed
from graphwright.kernels.candidates.generated import GENERATED
from graphwright.kernels.launch import Hook, Launch, Run, SelectedNode
from graphwright.kernels.ref import KernelRef
from graphwright.records import dataclass, replace

_KINDS: Final = {kind.symbol: number for number, kind in enumerate(bands.KINDS)}


@dataclass(frozen=True)
class Link:
    """A step that can be a stage of a chain: its only launch, and its result, the image for the next stage.

    The last two fields are -1 if the launch has no epilogue (hook).
    """

    step: SelectedNode
    launch: Launch
    stage: bands.Stage
    result: Value
    result_operand: int = -1
    """The position of the operand that the epilogue writes."""
    pixels: int = -1
    """The position of the argument with the number of pixels of only that operand."""

    @property
    def inner_stage(self) -> bands.Stage:
        """The stage with its result in a ring buffer."""
        return replace(self.stage, result=self.result_operand, pixels=self.pixels)

    @property
    def costed(self) -> Costed:
        """The stage with its predicted time."""
        return Costed(self.stage, self.launch.work)

    @property
    def x(self) -> Value | None:
        """The input image."""
        return _operand(self.launch, self.stage.kind, "x")

    @property
    def can_be_inner(self) -> bool:
        """Whether its result can be in a ring buffer: it has a blocked layout, and the driver can redirect
        where it is written.
        """
        return self.result.layout is not None and (self.launch.hook is None or self.pixels >= 0)

    @property
    def operands(self) -> tuple[Value | KernelRef | None, ...]:
        """The operands of the kernel, the hook or None, and the operands of the hook."""
        own, hook = tuple(o for o in self.launch.operands if isinstance(o, Value | None)), self.launch.hook
        return (*own, hook.kernel, *hook.operands) if hook is not None else (*own, None)

    @property
    def writes(self) -> tuple[int, ...]:
        """The positions in :attr:`operands` that are written."""
        own, hook = self.launch.writes, self.launch.hook
        return own if hook is None else (*own, *(len(self.launch.operands) + 1 + k for k in hook.writes))


def link_of(step: SelectedNode, kernels: dict[str, Kernel]) -> Link | None:
    """``step`` as a stage of a chain; None if it cannot be one."""
    if not isinstance(step.action, Run) or len(step.action.launches) != 1 or step.action.temporaries:
        return None
    launch = step.action.launches[0]
    if not isinstance(launch, Launch) or launch.kernel.symbol not in _KINDS or launch.kernel.module:
        return None
    if any(not isinstance(operand, Value | None) for operand in launch.operands):
        return None
    kind = _KINDS[launch.kernel.symbol]
    if launch.hook is not None:
        return _hooked(step, launch, launch.hook, kind, kernels)
    result = _operand(launch, kind, "y")
    if result is None:
        return None
    return Link(step, launch, bands.Stage(kind, launch.args, len(launch.operands) + 1), result)


def _operand(launch: Launch, kind: int, name: str) -> Value | None:
    value = launch.operands[bands.KINDS[kind].abi.operands.index(name)]
    return value if isinstance(value, Value) else None


def _hooked(
    step: SelectedNode, launch: Launch, hook: Hook, kind: int, kernels: dict[str, Kernel]
) -> Link | None:
    kernel = kernels.get(hook.kernel.symbol) if hook.kernel.module == GENERATED else None
    if kernel is None or len(hook.writes) != 1:
        return None
    first, written = len(launch.operands) + 1, hook.writes[0]
    names = [size for size in kernel.sizes if size not in HOOK_SIZES]
    sizes = dict(zip(names, hook.args[: len(names)], strict=True))
    parameters = kernel.parameters[1:]
    result, args = parameters[written], bands.Stage(kind, launch.args, 0).sizes
    axis = -1 if hook.operands[written].layout is None else -2  # else channels of a block follow
    images = [p for p, each in enumerate(parameters) if _is_image(each, axis, sizes, args.oh * args.ow)]
    if written not in images or any(not _alike(parameters[p], result, sizes) for p in images):
        return None
    pixel = str(result.shape[axis])
    if any(pixel in _names(parameter) for p, parameter in enumerate(parameters) if p not in images):
        return None
    if len(parameters) > 1 and args.images != 1:
        return None
    stage = bands.Stage(
        kind,
        (*launch.args, *hook.args),
        first + len(hook.operands),
        images=sum(1 << (first + p) for p in images),
    )
    alone = len(images) == 1 and pixel in sizes
    pixels = len(launch.args) + list(sizes).index(pixel) if alone else -1
    return Link(step, launch, stage, hook.operands[written], first + written, pixels)


def _alike(buffer: Buffer, result: Buffer, sizes: dict[str, Dim]) -> bool:
    """Whether the driver advances the addresses of both by the same number of floats per row."""
    return buffer.dtype == result.dtype == F32 and _shape(buffer, sizes) == _shape(result, sizes)


def _shape(buffer: Buffer, sizes: dict[str, Dim]) -> tuple[Dim, ...]:
    return tuple(sizes.get(str(dim), dim) for dim in buffer.shape)


def _names(buffer: Buffer) -> set[str]:
    return names_in(*buffer.shape)


def _is_image(buffer: Buffer, axis: int, sizes: dict[str, Dim], pixels: Dim) -> bool:
    """Whether it is an image whose pixels are contiguous along ``axis``."""
    return len(buffer.shape) > 1 and sizes.get(str(buffer.shape[axis]), buffer.shape[axis]) == pixels
