"""Tuning: measures alternatives of kernels and fusions on modules that become one program each, before these
are compiled.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from graphwright import log
from graphwright.compiler.code_generation import generate_code
from graphwright.compiler.pipeline import kernel_passes
from graphwright.compiler.run_passes import Observer, run_passes
from graphwright.compiler.unit import Unit
from graphwright.config import Options
from graphwright.cost.choices import choices_in
from graphwright.errors import Collector, FeedError, ModelError
from graphwright.fusion.fuse import Fuse
from graphwright.ir.arrays import Array, np
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Value
from graphwright.ir.symbols import evaluate, names_in
from graphwright.ir.types import TensorType
from graphwright.kernels.candidates.registry import load
from graphwright.lower.checks import refuse_unknown_ranks
from graphwright.option_files.tuning_records import NO_RECORD, Measured, Workloads, parsed
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.manager import Scheduled
from graphwright.records import replace
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.devices.this_cpu import usable_isas
from graphwright.runtime.executor import RunError
from graphwright.support.message_text import did_you_mean, listed
from graphwright.targets.registry import target_of
from graphwright.tuning.paired_timing import Timed
from graphwright.tuning.search import Search
from graphwright.tuning.store import keep, record_of
from graphwright.tuning.trial import Trial, number_nodes, numbers_in

STAGE: Final = "tune"
"""The stage name of progress texts that observers receive while tuning."""


def tune(units: Sequence[Unit], options: Options, observe: Observer) -> Options:
    """``options`` with a tuning record of what could be measured in the time that the option ``tune`` allows.
    ``units`` are not changed. The record is also added to the user's record file.

    Raises ModelError if no module has known sizes to measure at.
    """
    if not options.tune or options.device != "cpu":
        return options
    if options.isa not in usable_isas():
        log.warn_once(f"tune {options.isa}", "no tuning for %s, which this CPU lacks", options.isa)
        return options
    _require_sizes(units, options.sizes_to_tune)
    _warn_of_unknown_names(units, options.sizes_to_tune)
    load()
    known = {} if options.tuning == NO_RECORD else dict(parsed(options.tuning).workloads)
    learned: dict[str, Measured] = {}
    end = time.perf_counter() + options.tune
    for number, unit in enumerate(units):
        if missing := sizes_not_given(unit.module.main.inputs, options.sizes_to_tune):
            log.info("tuning: a program with dynamic dimensions %s is not measured", ", ".join(missing))
            continue
        draft = Snapshot(unit, options)
        now = time.perf_counter()
        search = Search(
            draft.compiled,
            now + max(0.0, end - now) / (len(units) - number),
            lambda text: observe(STAGE, text),
            {**known, **learned},
        )
        try:
            search.run()
        except (FeedError, RunError) as error:
            log.warn_once(f"tune {error}", "not tuned, as the model fails on generated inputs: %s", error)
            continue
        learned |= {name: each for name, each in search.learned.items() if known.get(name) != each}
        done = f"{search.tried} alternatives measured, {search.left} skipped for lack of time"
        observe(STAGE, done)
        log.info("tuning: %s", done)
    if learned:
        keep(learned, options)
    return replace(options, tuning=record_of({**known, **learned}).text())


class Snapshot:
    """A copy of a module at the point of the pipeline before the first stage that depends on measurements."""

    def __init__(self, unit: Unit, options: Options) -> None:
        self._module, self._options = clone_module(unit.module), options
        run_passes(self._module, (*unit.graph_passes(options), *self._passes(options)[0]), options)
        number_nodes(self._module)
        inputs = self._module.main.inputs
        self._arrays = [
            synthetic_array(value.type, options.sizes_to_tune, number) for number, value in enumerate(inputs)
        ]

    def compiled(self, workloads: Workloads) -> Trial:
        """The module compiled with the measurements ``workloads``."""
        options = replace(self._options, tuning=record_of(workloads).text())
        module = clone_module(self._module)
        records = run_passes(module, (InferShapes(), *self._passes(options)[1]), options)
        refuse_unknown_ranks(module.main)
        (compilation,) = generate_code([Unit(module, records)], options)
        target = compilation.program.targets[target_of(options).name]
        executor = Cpu(compilation.program, target, compilation.weights)
        tasks = target.task_graph.tasks
        return Trial(
            Timed(executor, self._arrays, len(tasks), compilation.program.states),
            [numbers_in((task.name,)) for task in tasks],
            choices_in(note for record in compilation.records for note in record.notes),
        )

    def _passes(self, options: Options) -> tuple[Sequence[Scheduled], Sequence[Scheduled]]:
        """The passes before fusion, and those from fusion on."""
        passes = kernel_passes(target_of(options), options)
        first = next(k for k, each in enumerate(passes) if isinstance(each, Fuse))
        return passes[:first], passes[first:]


def sizes_not_given(values: Sequence[Value], sizes: Mapping[str, int]) -> list[str]:
    """Names of the symbolic sizes of ``values`` that ``sizes`` does not give."""
    return sorted({name for value in values for name in _names(value.type)} - sizes.keys())


def _require_sizes(units: Sequence[Unit], sizes: Mapping[str, int]) -> None:
    """Raises ModelError if every module has symbolic sizes that ``sizes`` does not give, so that nothing
    could be measured. Units that are not simplified are called by host programs, which compute their sizes at
    run time.
    """
    inputs = [(unit.is_simplified, unit.module.main.inputs) for unit in units]
    if not all(sizes_not_given(values, sizes) for _, values in inputs):
        return
    faults = Collector(ModelError)
    for is_simplified, values in inputs:
        for value in values if is_simplified else ():
            if sizes_not_given((value,), sizes):
                wanted = ",".join(f"{name}=..." for name in sizes_not_given(values, sizes))
                message = f"input {value.name!r} has type {value.type}, but tuning needs known sizes"
                hint = (
                    f"give them, as in tune_sizes={wanted!r} (--tune-sizes {wanted}), or all sizes as shapes"
                )
                faults.add("tune-sizes", message, hint=hint)
    faults.raise_if_any()


def _warn_of_unknown_names(units: Sequence[Unit], sizes: Mapping[str, int]) -> None:
    """Logs the names in ``sizes`` that are no dynamic dimension of an input of ``units``."""
    known = sorted({n for unit in units for v in unit.module.main.inputs for n in _names(v.type)})
    unknown = [name for name in sizes if name not in known]
    if unknown:
        meant = did_you_mean(unknown, known)
        message = "tune_sizes: there is no dynamic dimension %s: %sthe dimensions are %s"
        log.warn(message, listed(list(map(repr, unknown))), meant, listed(known))


def _names(type: TensorType) -> set[str]:
    """Names of the symbolic sizes of ``type``."""
    return {name for dim in type.dims for name in names_in(dim)}


def synthetic_array(type: TensorType, sizes: Mapping[str, int], seed: int) -> Array:
    """A generated array of ``type``: normally distributed floats; ones for other types, which may be indices,
    masks or counts.
    """
    shape = tuple(evaluate(dim, sizes) for dim in type.dims)
    dtype = type.dtype.numpy
    if type.dtype.is_float:
        return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype)
    return np.ones(shape, dtype)
