"""Running cases: each is compiled for a device, run on its data, and compared."""

from __future__ import annotations

import enum
import multiprocessing
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import graphwright as gw
from graphwright.config import Options
from graphwright.runtime.model import Model

from .cases import Case
from .compare import difference


class Verdict(enum.StrEnum):
    """The outcome of a case."""

    NATIVE = "native"
    HOST = "HostCall"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """The verdict of one case, and the reason where it failed or needed Python."""

    name: str
    verdict: Verdict
    reason: str = ""


def run_case(case: Case, options: Options) -> Outcome:
    """Compiles ``case``, runs it on all of its data, and compares the results."""
    try:
        model = gw.compile(case.model, options=options)
        for inputs, outputs in case.data:
            reason = _difference(case, model, inputs, outputs)
            if reason:
                return Outcome(case.name, Verdict.FAILED, reason)
    except Exception as error:  # whatever it is, the other cases go on
        text = str(error).strip().splitlines() or [""]
        return Outcome(case.name, Verdict.FAILED, f"{type(error).__name__}: {text[0]}")
    if not model.stats()["host_calls"]:
        return Outcome(case.name, Verdict.NATIVE)
    return Outcome(case.name, Verdict.HOST, "; ".join(_host_reasons(model.report())))


def _host_reasons(report: str) -> list[str]:
    """Why nodes run in Python, each reason once: what a report says of them in its section, and of stages."""
    reasons: dict[str, None] = {}
    in_section = False
    for line in report.splitlines():
        text = line.strip()
        _, staged, reason = text.partition("Python, as ")
        if staged:
            reasons[reason] = None
        elif in_section and line[:1] == " " and ": " in text:
            reasons[text.rpartition(": ")[2]] = None
        in_section = text == "in Python" or (
            in_section and line[:1] == " " and text != "not applied, and why"
        )
    return list(reasons)


def _difference(case: Case, model: Model, inputs: Sequence[object], outputs: Sequence[object]) -> str:
    feeds = dict(zip(case.inputs, inputs, strict=True))
    results = list(model.run(feeds).items())  # type: ignore[arg-type]  # lists and None for containers
    if len(results) != len(outputs):
        return f"{len(results)} outputs instead of {len(outputs)}"
    for (name, actual), expected in zip(results, outputs, strict=True):
        reason = difference(actual, expected, case.rtol, case.atol)
        if reason:
            return f"output {name}: {reason}"
    return ""


def run_cases(cases: Sequence[Case], device: str, workers: int = 0) -> Iterator[Outcome]:
    """Outcomes in the order of ``cases``, from ``workers`` processes (0: one per usable core).

    Their compilers run side by side and share a cache of kernels that is empty at first: what one case has
    compiled another need not, but nothing is left of runs before.
    """
    count = workers or len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder, _quiet():
        options = Options.from_environment(device=device, threads=1, cache_dir=Path(folder), verify=True)
        _shared.cases, _shared.options = list(cases), options
        with multiprocessing.get_context("fork").Pool(count) as pool:
            yield from pool.imap(_numbered, range(len(cases)), chunksize=4)


class _Shared:
    """Data that forked workers inherit."""

    cases: list[Case]
    options: Options


_shared = _Shared()


def _numbered(number: int) -> Outcome:
    return run_case(_shared.cases[number], _shared.options)


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
