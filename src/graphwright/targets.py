"""One package for several CPUs: the programs of several compilations, and the weights once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphwright.config import Options
from graphwright.package.package import Package, Target, Variant
from graphwright.package.packs import packs_of
from graphwright.package.stages import Stages, with_targets
from graphwright.records import replace


def compile_targets(options: Options, compile_one: Callable[[Options], Package]) -> Package:
    """The package of what ``compile_one`` makes for each of the option ``targets``.

    Its weights are those of the first. Raises what ``compile_one`` raises.
    """
    return join_targets([compile_one(replace(options, isa=isa)) for isa in options.targets])


def join_targets(packages: Sequence[Package]) -> Package:
    """Packages of one model for an ISA each as one."""
    first = packages[0]
    if any(len(each.variants) != len(first.variants) for each in packages):
        raise ValueError("the compilations for several ISAs cut the model differently")
    others = {isa: each for each in packages[1:] for isa in each.isas()}
    stages = [each.stages for each in packages if each.stages is not None]
    return replace(
        first,
        targets=_united([each.targets for each in packages]),
        variants=tuple(map(_variant, *(each.variants for each in packages))),
        stages=_stages(stages) if stages else None,
        packs={isa: packs_of(first.weights, each.weights) for isa, each in others.items()},
    )


def _variant(*variants: Variant) -> Variant:
    return replace(variants[0], targets=_united([each.targets for each in variants]))


def _stages(all_stages: Sequence[Stages]) -> Stages:
    programs = [{part.number: part.program for part in stages.parts()} for stages in all_stages]
    return with_targets(all_stages[0], lambda n: _united([each[n].targets for each in programs]))


def _united(targets: Sequence[Mapping[str, Target]]) -> dict[str, Target]:
    return {isa: target for each in targets for isa, target in each.items()}
