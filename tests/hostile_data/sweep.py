"""Feeds hostile numbers, in a process of its own: ``python -m tests.hostile_data.sweep NAME...``.

Prints a JSON line as each case begins, and one with its outcomes. A memory fault ends the process behind the
line of its case.
"""

from __future__ import annotations

import faulthandler
import json
import math
import resource
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import graphwright as gw
from graphwright.config import Options
from tests.hostile_data.cases import CASES, Array, Case, Fed, model
from tests.hostile_data.guarded import guarded

MEMORY = 3 << 30
"""Bytes of address space: sizes that data ask for must not be had."""


LARGEST = 1 << 22
"""Elements of the largest result that is compared."""
NO_MEMORY = "no memory"
RANDOM = {"Bernoulli", "Dropout", "Multinomial"}


def hostile_numbers(dtype: np.dtype[Any], bound: float) -> list[Any]:
    """Numbers around the ends of what may be meant, and the ends of the dtype."""
    if dtype.kind == "f":
        near = (0.0, -0.0, bound, -bound, bound + 1, -bound - 1, np.nextafter(bound, math.inf))
        far = (math.nan, math.inf, -math.inf, 1e9, -1e9, 2.0**31, 2.0**63, -(2.0**63), 1e30, -3e38, 1e-42)
        return [*near, *far]
    limits, count = np.iinfo(dtype), int(bound)
    near = (0, -1, 1, count - 1, count, count + 1, -count, -count - 1)
    far = (2**31 - 1, -(2**31), 2**31, 2**32, 2**40, 2**62, limits.max, limits.min, limits.min + 1)
    return [number for number in dict.fromkeys((*near, *far)) if limits.min <= number <= limits.max]


def hostile_feeds(feeds: dict[str, Fed]) -> Iterator[dict[str, Array]]:
    """Sound feeds, and feeds in which one element, or all of an operand, are a hostile number."""
    sound = {name: fed.array for name, fed in feeds.items()}
    yield sound
    for name, fed in feeds.items():
        if fed.bound is None:
            continue
        for number in hostile_numbers(fed.array.dtype, fed.bound):
            for place in dict.fromkeys((0, fed.array.size - 1, -1)):
                changed = fed.array.copy()
                changed.reshape(-1)[slice(None) if place < 0 else slice(place, place + 1)] = number
                yield sound | {name: changed}


def outcome(made: gw.Model, feeds: dict[str, Array]) -> list[Array] | str:
    try:
        return list(made.run(feeds).values())
    except gw.GraphwrightError as error:
        return str(error)
    except MemoryError:
        return NO_MEMORY


def attempts(case: Case, *, is_open: bool) -> Iterator[str]:
    """Run one case on the hostile feeds; what is wrong with its outcomes.

    A feed that is refused needs no reason but its error; one that is taken must give what the references do.
    """
    source = model(case, is_open=is_open)
    native = gw.compile(source, options=Options.from_environment(device="cpu"))
    reference = gw.compile(source, options=Options.from_environment(device="reference"))
    for number, feeds in enumerate(hostile_feeds(case.feeds())):
        wanted = None
        for behind in (True, False):
            given = {name: guarded(array, behind=behind) for name, array in feeds.items()}
            found = outcome(native, given)
            if isinstance(found, str):
                if number == 0:
                    yield f"sound feeds are refused: {found}"
                continue
            wanted = outcome(reference, feeds) if wanted is None else wanted
            if case.op not in RANDOM and not _agree(found, wanted):
                yield f"{_shown(feeds, case)}: {_text(found)} instead of {_text(wanted)}"
                break


def _agree(found: list[Array], wanted: list[Array] | str) -> bool:
    if wanted == NO_MEMORY:
        return any(array.size > LARGEST for array in found)
    return not isinstance(wanted, str) and all(
        a.shape == b.shape and a.dtype == b.dtype and (a.size > LARGEST or _are_close(a, b))
        for a, b in zip(found, wanted, strict=True)
    )


def _are_close(a: Array, b: Array) -> bool:
    """Compares arrays; the sign and payload of NaN do not count."""
    return bool(np.allclose(a, b, 1e-4, 1e-5, equal_nan=a.dtype.kind == "f"))


def _shown(feeds: dict[str, Array], case: Case) -> str:
    hostile = (name for name, fed in case.feeds().items() if fed.bound is not None)
    return ", ".join(f"{name}={feeds[name].tolist()}" for name in hostile)


def _text(result: list[Array] | str) -> str:
    if isinstance(result, str):
        return result
    return " ".join(f"{array.dtype}{list(array.shape)} {array.reshape(-1)[:8].tolist()}" for array in result)


def named(case: Case, is_open: bool) -> str:
    """The name of a case with static or dynamic sizes."""
    return f"{case.name}[open]" if is_open else case.name


def main(*names: str) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for case, is_open in ((case, is_open) for case in CASES for is_open in (False, True)):
        if names and named(case, is_open) not in names:
            continue
        print(json.dumps({"begin": named(case, is_open)}), flush=True)
        try:
            faults = list(attempts(case, is_open=is_open))
        except Exception as error:  # what users must never see
            faults = [f"{type(error).__name__}: {error}"]
        print(json.dumps({"case": named(case, is_open), "faults": faults}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
