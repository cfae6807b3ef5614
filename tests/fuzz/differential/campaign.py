"""Runs many cases in worker processes. If a worker dies or hangs, the case that it was running is a
mismatch.
"""

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
from .blame import RESULTS, blamed
from .draft import Impossible
from .generate import generate
from .known import known
from .minimize import minimized

CHUNK = 400
SECONDS = 90.0
"""No case may take longer."""
MEMORY = 8 << 30
"""Bytes of address space of a worker."""


def mismatches(
    seed: int, ops: Sequence[str], device: str, enter: Callable[[str], None] = lambda stage: None
) -> list[Mismatch]:
    """The mismatches of one case: at most one."""
    try:
        case = generate(seed, ops)
    except Impossible:
        return []
    options = Options.from_environment(device=device, threads=1)
    found = attempt(case, options, enter)[:1]
    if not found:
        return []
    enter("peer")
    case, mismatch = blamed(case, found[0], options)
    if reason(mismatch) or mismatch.kind in RESULTS:
        return [mismatch]
    return [minimized(case, mismatch, options)[1]]  # smaller, it may be one that is known


def reason(mismatch: Mismatch) -> str:
    """Why it is no fault; empty where that is not known."""
    entry = known(mismatch)
    return mismatch.explained or (entry.reason if entry is not None else "")


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


class Campaign:
    """Seeds to try, workers that try them, and what they found."""

    def __init__(self, seeds: range, ops: tuple[str, ...], device: str, log: Path | None) -> None:
        starts = range(seeds.start, seeds.stop, CHUNK)
        self.todo = [range(start, min(start + CHUNK, seeds.stop)) for start in reversed(starts)]
        self.ops, self.device, self.log = ops, device, log
        self.working: list[Worker] = []
        self.done, self.started = 0, time.monotonic()
        self.groups: dict[str, list[Mismatch]] = {}
        self.explained: Counter[str] = Counter()

    def step(self, jobs: int) -> None:
        """Wait for news of one of ``jobs`` workers."""
        while self.todo and len(self.working) < jobs:
            self.working.append(Worker(self.todo.pop(), self.ops, self.device))
        ready = wait([worker.pipe for worker in self.working], timeout=1.0)
        for worker in list(self.working):
            if worker.pipe in ready:
                self._hear(worker)
            elif time.monotonic() - worker.since > SECONDS:
                worker.stop()
                self._lose(worker, "it hangs")

    def stop(self) -> None:
        for worker in self.working:
            worker.stop()

    def _hear(self, worker: Worker) -> None:
        """A seed that begins, an engine that is entered, or the mismatches of a case."""
        try:
            message = worker.pipe.recv()
        except EOFError:
            worker.process.join()
            code = worker.process.exitcode
            self._lose(worker, f"the process died: {code}" if code else "")
            return
        worker.since = time.monotonic()
        if isinstance(message, int):
            worker.at = message
        elif isinstance(message, str):
            worker.stage = message
        else:
            self.done += 1
            for mismatch in message:
                self._note(mismatch)

    def _lose(self, worker: Worker, fault: str) -> None:
        """A worker has ended; after a fault another goes on behind its case."""
        self.working.remove(worker)
        if not fault:
            return
        self._note(Mismatch(worker.at, "crash", "", self.ops, f"{worker.stage}: {fault}"))
        rest = range(worker.at + 1, worker.seeds.stop)
        self.todo.extend([rest] if rest else [])

    def _note(self, mismatch: Mismatch) -> None:
        why = reason(mismatch)
        if why:
            self.explained[why] += 1
            return
        self.groups.setdefault(mismatch.group, []).append(mismatch)
        if self.log is not None:
            with self.log.open("a") as file:
                print(mismatch.seed, mismatch.feed, mismatch.group, "||", mismatch.text, file=file)

    def report(self, everything: bool) -> str:
        """Counts, and the first mismatch of each group; with ``everything`` what is known as well."""
        count = sum(map(len, self.groups.values()))
        lines = [
            f"{self.done} cases in {time.monotonic() - self.started:.0f} s: {count} mismatches of "
            f"{len(self.groups)} groups, and {self.explained.total()} that are known"
        ]
        lines += [f"  known {n}: {reason}" for reason, n in self.explained.most_common() if everything]
        for group, found in sorted(self.groups.items()):
            lines.append(f"{len(found):5d}  seed {found[0].seed} feed {found[0].feed}: {group}")
            lines.append(f"         {found[0].text[:260]}")
        return "\n".join(lines)


def run(
    seeds: range,
    ops: tuple[str, ...],
    device: str,
    jobs: int,
    log: Path | None = None,
    everything: bool = False,
) -> int:
    """Try all seeds, or until interrupted, and print what differs; 1 if anything is not known."""
    campaign = Campaign(seeds, ops, device, log)
    try:
        while campaign.todo or campaign.working:
            campaign.step(jobs)
    except KeyboardInterrupt:
        campaign.stop()
    print(campaign.report(everything))
    return int(bool(campaign.groups))
