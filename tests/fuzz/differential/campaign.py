"""Many cases in worker processes: a worker that dies or hangs is a mismatch of the case that it was at."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from graphwright.config import Options

from .attempt import Mismatch, attempt
from .draft import Impossible
from .generate import generate
from .known import known

CHUNK = 400
SECONDS = 90.0
"""No case may take longer."""
MEMORY = 8 << 30
"""Bytes of address space of a worker."""


def mismatches(
    seed: int, ops: Sequence[str], device: str, enter: Callable[[str], None] = lambda stage: None
) -> list[Mismatch]:
    """What differs in one case."""
    try:
        case = generate(seed, ops)
    except Impossible:
        return []
    return attempt(case, Options.from_environment(device=device, threads=1), enter)


def _work(pipe: Connection, seeds: range, ops: tuple[str, ...], device: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faulthandler.enable()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for seed in seeds:
        pipe.send(seed)
        try:
            found = mismatches(seed, ops, device, pipe.send)
        except Exception as error:  # of the fuzzer itself
            found = [Mismatch(seed, "fuzzer", "", ops, f"{type(error).__name__}: {error}")]
        pipe.send(found)
    pipe.close()


class Worker:
    """A process that tries ``seeds``."""

    def __init__(self, seeds: range, ops: tuple[str, ...], device: str) -> None:
        self.pipe, other = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("fork")
        self.process: BaseProcess = context.Process(target=_work, args=(other, seeds, ops, device))
        self.process.start()
        other.close()
        self.seeds, self.at, self.since, self.stage = seeds, seeds.start, time.monotonic(), ""

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def run(
    seeds: range,
    ops: tuple[str, ...],
    device: str,
    jobs: int,
    log: Path | None = None,
    everything: bool = False,
) -> int:
    """Try all seeds, print groups; the number of mismatches that are not known, at most 1."""
    todo = [range(first, min(first + CHUNK, seeds.stop)) for first in range(seeds.start, seeds.stop, CHUNK)][
        ::-1
    ]
    working: list[Worker] = []
    groups: Counter[str] = Counter()
    first: dict[str, Mismatch] = {}
    done, explained, started = 0, Counter[str](), time.monotonic()

    def note(mismatch: Mismatch) -> None:
        reason = known(mismatch)
        if reason is not None:
            explained[reason.reason] += 1
            return
        groups[mismatch.group] += 1
        first.setdefault(mismatch.group, mismatch)
        if log is not None:
            with log.open("a") as file:
                print(
                    mismatch.seed, mismatch.feed, mismatch.group, "||", mismatch.text, file=file, flush=True
                )

    while todo or working:
        while todo and len(working) < jobs:
            working.append(Worker(todo.pop(), ops, device))
        ready = wait([w.pipe for w in working], timeout=1.0)
        for worker in list(working):
            lost = ""
            if worker.pipe in ready:
                try:
                    message = worker.pipe.recv()
                except EOFError:
                    worker.process.join()
                    working.remove(worker)
                    if worker.process.exitcode:
                        lost = f"the process died: {worker.process.exitcode}"
                else:
                    worker.since = time.monotonic()
                    if isinstance(message, int):
                        worker.at = message
                    elif isinstance(message, str):
                        worker.stage = message
                    else:
                        done += 1
                        for mismatch in message[:1]:
                            note(mismatch)
            elif time.monotonic() - worker.since > SECONDS:
                worker.stop()
                working.remove(worker)
                lost = "it hangs"
            if lost:
                note(Mismatch(worker.at, "crash", "", ops, f"{worker.stage}: {lost}"))
                rest = range(worker.at + 1, worker.seeds.stop)
                todo.extend([rest] if rest else [])
    seconds = time.monotonic() - started
    print(f"\n{done} cases, {sum(groups.values())} mismatches of {len(groups)} groups, {seconds:.0f} s")
    for reason, count in explained.most_common() if everything else ():
        print(f"  known {count}: {reason}")
    for group, count in sorted(groups.items(), key=lambda item: item[0]):
        print(f"{count:5d}  seed {first[group].seed} feed {first[group].feed}: {group}")
        print(f"         {first[group].text[:260]}")
    return int(bool(groups))
