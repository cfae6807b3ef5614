"""The gears of a model, with the memory that each needs and the time that each takes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from graphwright import _native
from graphwright.config import Options
from graphwright.errors import FeedError
from graphwright.gears import row_text
from graphwright.package.package import Package, Variant
from graphwright.package.stages import Stages
from graphwright.records import replace
from graphwright.runtime.devices.base import RunError
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.devices.geared import gear_shapes
from graphwright.runtime.model import Model
from graphwright.tools.console import bytes_text, say, table
from graphwright.tools.feeds import make_feeds

_SECONDS = 0.2
"""Spent on the runs of one gear."""
_FEWEST, _MOST = 3, 200
_OTHERS = {
    "error": "are an error",
    "pad": "are padded to the smallest gear that holds them",
    "dynamic": "run on a program for all shapes",
}


def show_gears(package: Package, threads: int, *, timed: bool) -> None:
    """A row for each gear: shapes, tasks, bytes of its arena and, if ``timed``, milliseconds of its fastest
    run on random inputs. They share one arena, which is as large as the largest needs.
    """
    gears = [_Gear(package, variant, threads) for variant in _static(package)]
    rows = [
        [
            str(number),
            row_text({spec.name: spec.shape or () for spec in gear.model.inputs}),
            str(len(gear.device.program.tasks)),
            bytes_text(gear.arena),
            *([_fastest(gear.model)] if timed else []),
        ]
        for number, gear in enumerate(gears)
    ]
    say(f"gears: {len(gears)}; other shapes {_OTHERS[package.between]}")
    table(rows, ["gear", "shapes", "tasks", "arena", *(["fastest run"] if timed else [])])
    say(f"arena, shared by all gears: {bytes_text(max(gear.arena for gear in gears))}")


def show_staged_gears(model: Model, *, timed: bool) -> None:
    """As :func:`show_gears` where gears are branches of stages: the parts of each, their tasks and the nodes
    that Python runs. A run decides their memory: it is shown if ``timed``.
    """
    package = model.package
    assert package.stages is not None
    gears = _static(package)
    branches = _branches(package.stages, len(package.variants))
    rows = [
        [
            str(number),
            row_text({spec.name: spec.shape or () for spec in gear.inputs}),
            *_counts(branches[number] if branches else package.stages),
            *(_measured(model, gear) if timed else ()),
        ]
        for number, gear in enumerate(gears)
    ]
    say(f"gears: {len(gears)}; other shapes {_OTHERS[package.between]}")
    measured = ["arena of a run", "fastest run"] if timed else []
    table(rows, ["gear", "shapes", "subgraphs", "tasks", "Python nodes", *measured])


def _branches(stages: Stages, count: int) -> Sequence[Stages]:
    """The stages of each gear; none where they have all become the same."""
    found = (host.bodies for host in stages.hosts() if len(host.bodies) == count)
    return next(found, ())


def _counts(stages: Stages) -> list[str]:
    """How many parts, tasks and nodes of Python there are."""
    targets = [target for part in stages.parts() for target in part.program.targets.values()]
    return [
        str(len(stages.parts())),
        str(sum(len(target.program.tasks) for target in targets)),
        str(len(stages.hosts())),
    ]


def _measured(model: Model, gear: Variant) -> list[str]:
    """The memory of a run on random inputs, and the time of the fastest of some."""
    single = Model(
        replace(model.package, inputs=gear.inputs), model.device, options=Options(threads=model.threads)
    )
    model.trim()
    fastest = _fastest(single)
    return [bytes_text(model.trim()), fastest]


class _Gear:
    """One gear on its own."""

    def __init__(self, package: Package, variant: Variant, threads: int) -> None:
        single = package.of_variant(variant)
        (target,) = variant.targets.values()
        self.device = Cpu(single, target)
        self.model = Model(single, self.device, options=Options(threads=threads))
        shapes = gear_shapes(variant.inputs)
        self.arena = self.device.plan(shapes, threads or _native.threads())["arena"]


def _static(package: Package) -> Sequence[Variant]:
    """The variants that are gears."""
    return package.variants[: len(package.variants) - (package.between == "dynamic")]


def _fastest(model: Model) -> str:
    """Milliseconds of the fastest of some runs on random inputs, or why they do not run."""
    feeds = make_feeds(model.inputs, None, {})
    try:
        model.run(feeds)
    except (FeedError, RunError) as error:
        return f"random inputs: {error.diagnostics[0].message}"
    best, count, end = float("inf"), 0, time.perf_counter() + _SECONDS
    while count < _FEWEST or (time.perf_counter() < end and count < _MOST):
        start = time.perf_counter()
        model.run(feeds)
        best, count = min(best, time.perf_counter() - start), count + 1
    return f"{best * 1e3:.3f} ms"
