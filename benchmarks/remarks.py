"""Measures the cost of remarks about a compilation: their bytes in a package, and their share of the compile
time.

    python -m benchmarks.remarks [MODEL ...] [--rounds 5]

The share is the CPU time in the functions that collect and write remarks, divided by that of the whole
compilation in this process (C compilers are other processes); each is the least over the rounds. A MODEL is a
file, or a name of ``benchmarks.models``.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import graphwright as gw
from benchmarks.models import MODELS
from graphwright.compiler import entries
from graphwright.passes import manager


@contextmanager
def timed(owner: Any, name: str, spent: dict[str, int]) -> Iterator[None]:
    """Adds the nanoseconds in the function ``name`` of ``owner`` to ``spent``."""
    function: Callable[..., Any] = getattr(owner, name)

    def measured(*arguments: Any) -> Any:
        start = time.process_time_ns()
        try:
            return function(*arguments)
        finally:
            spent[name] = spent.get(name, 0) + time.process_time_ns() - start

    with mock.patch.object(owner, name, measured):
        yield


def measure(model: Path) -> tuple[int, int, gw.Model]:
    """Returns the nanoseconds of remarks and of the whole compilation, and the model."""
    spent: dict[str, int] = {}
    with ExitStack() as stack:
        for owner, name in (
            (manager, "node_keys"), (entries, "remarks_of"), (entries, "encode_remarks"),
        ):  # fmt: skip
            stack.enter_context(timed(owner, name, spent))
        start = time.process_time_ns()
        compiled = gw.compile(str(model))
        taken = time.process_time_ns() - start
    return sum(spent.values()), taken, compiled


def main() -> None:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="*", default=["resnet50", "bert_base"])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for name in arguments.models:
        path = Path(name) if Path(name).is_file() else MODELS[name].path()
        rounds = [measure(path) for _ in range(arguments.rounds)]
        remarks, whole = min(r[0] for r in rounds), min(r[1] for r in rounds)
        entry, file = rounds[0][2].entry, io.BytesIO()
        rounds[0][2].save(file)
        share = 100 * remarks / whole
        print(
            f"{name}: {len(entry.remarks.encode())} bytes of remarks in a package of {len(file.getvalue())}; "
            f"{remarks / 1e6:.1f} ms of {whole / 1e6:.0f} ms of compilation, {share:.2f} %"
        )


if __name__ == "__main__":
    main()
