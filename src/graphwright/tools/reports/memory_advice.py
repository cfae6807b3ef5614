"""Proposals that lower the peak of memory, each with its effect, which is planned or computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from graphwright.errors import FeedError
from graphwright.memory.timeline import PlacedBuffer, Timeline
from graphwright.records import dataclass
from graphwright.runtime.memory_use import Memory
from graphwright.runtime.model import Model
from graphwright.support.message_text import counted
from graphwright.support.units import bytes_text

_GAIN: Final = 20
"""A proposal is shown if it lowers the peak or the arena by more than one part in this number."""
ShapesByName = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Advice:
    """A proposal and its effect."""

    text: str
    effect: str


def advice_for(model: Model, used: Memory, shapes: ShapesByName | None) -> list[Advice]:
    """Proposals to lower the arena of ``model`` for inputs of ``shapes``, whose memory is ``used``."""
    known = [program for program in used.programs if program.timeline is not None]
    if not known:
        return []
    line = max(known, key=lambda program: program.arena).timeline
    assert line is not None
    found = [*_in_place(line)]
    if shapes is not None:
        found = [*_fewer_threads(model, used, shapes), *_smaller_batch(model, used, shapes), *found]
    return found


def peak_without(line: Timeline, buffer: PlacedBuffer) -> int:
    """The peak of live bytes without ``buffer``."""
    return max(
        live - buffer.bytes * (buffer.first <= position <= buffer.last)
        for position, live in enumerate(line.live)
    )


def _fewer_threads(model: Model, used: Memory, shapes: ShapesByName) -> Iterator[Advice]:
    """A proposal to use fewer threads, as each has its own scratch memory."""
    if used.threads > 1 and used.scratch:
        yield from _if_lower("one thread: --threads 1", used, model.memory(shapes, threads=1))


def _smaller_batch(model: Model, used: Memory, shapes: ShapesByName) -> Iterator[Advice]:
    """A proposal to halve the dynamic first axis of the inputs, if the model accepts that."""
    specs = [spec for spec in model.entry.feeds if spec.name in shapes]
    batches = dict.fromkeys(spec.shape[0] for spec in specs if spec.shape and isinstance(spec.shape[0], str))
    for batch in batches:
        size = min(shapes[spec.name][0] for spec in specs if spec.shape and spec.shape[0] == batch)
        if size < 2:
            continue
        halved = {
            spec.name: tuple(
                size // 2 if dim == batch else now
                for dim, now in zip(spec.shape or (), shapes[spec.name], strict=True)
            )
            for spec in specs
        }
        try:
            smaller = model.memory(halved, threads=used.threads)
        except FeedError:
            continue
        yield from _if_lower(f"half of {batch}: {size // 2} instead of {size}", used, smaller)


def _if_lower(text: str, used: Memory, other: Memory) -> Iterator[Advice]:
    if used.arena - other.arena > used.arena // _GAIN:
        yield Advice(text, f"arena of {bytes_text(other.arena)} instead of {bytes_text(used.arena)}")


def _in_place(line: Timeline) -> Iterator[Advice]:
    """A proposal for a kernel that writes its result over an operand of the same size whose lifetime ends
    there.
    """
    ends = [b for b in line.at_peak if b.last == line.peak > b.first and not b.is_scratch]
    begins = [b for b in line.at_peak if b.first == line.peak < b.last and not b.is_scratch]
    for old in ends:
        new = next((buffer for buffer in begins if buffer.bytes == old.bytes), None)
        if new is None:
            continue
        begins.remove(new)
        others = max((live for k, live in enumerate(line.live) if k != line.peak), default=0)
        lowered = max(others, line.live_bytes - old.bytes)
        if line.live_bytes - lowered > line.live_bytes // _GAIN:
            task, written, read = (short_sources([x]) for x in (line.tasks[line.peak], new.title, old.title))
            text = f"a kernel of {task} that writes {written} over {read}"
            yield Advice(text, f"{bytes_text(lowered)} live at once instead of {bytes_text(line.live_bytes)}")


def short_sources(tasks: Sequence[str]) -> str:
    """The source nodes of ``tasks`` as a short text: the first one, and the number of others."""
    sources = dict.fromkeys(
        source for task in tasks for part in task.split(", ") for source in part.split(" + ")
    )
    first, *others = sources or [""]
    return f"{first} and {counted(len(others), 'other')}" if others else first
