"""The tuning record of a user: a file in the user's cache folder, beside the compiled kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import graphwright
from graphwright.config import Options
from graphwright.errors import ToolchainError
from graphwright.log import warn_once
from graphwright.option_files.rate_files import cpu_model
from graphwright.option_files.tuning_records import (
    NO_RECORD,
    USERS_RECORD,
    Record,
    Workloads,
    decoded,
    parsed,
)
from graphwright.records import replace
from graphwright.targets.cpu.private import PrivateFolder

FILE: Final = "record.json"
REMEDY: Final = "a compilation with --tune writes a new one"


def with_record(options: Options) -> Options:
    """``options`` with the content of the user's record in place of ``auto``; ``none`` if there is none."""
    if options.tuning != USERS_RECORD:
        return options
    record = users_record(options)
    return replace(options, tuning=record.text() if record is not None and record.workloads else NO_RECORD)


def users_record(options: Options) -> Record | None:
    """The record of this CPU and version; None where there is none, or, with one warning, where it is damaged
    or of others."""
    if not record_file(options).is_file():
        return None
    try:
        data = PrivateFolder(options.tuning_folder).read(FILE)
        record = None if data is None else parsed(decoded(data))
    except (ToolchainError, ValueError) as error:
        _warn(options, str(error))
        return None
    if record is None:
        _warn(options, "it is no plain file of this user")
        return None
    made_by = record.cpu, record.version
    if made_by != (cpu_model(), graphwright.__version__):
        _warn(options, f"it is of {record.cpu} and graphwright {record.version}")
        return None
    return record


def keep(workloads: Workloads, options: Options) -> None:
    """Add ``workloads`` to the user's record, which other processes may have added to meanwhile. One that
    cannot be written is no error, and gives one warning."""
    record = users_record(options)
    known = {} if record is None else dict(record.workloads)
    for name in workloads.keys() & known.keys():
        del known[name]  # those that were measured last stand at the end
    folder = PrivateFolder(options.tuning_folder)
    try:
        if folder.usable():
            folder.write(FILE, record_of({**known, **workloads}).text().encode())
    except (OSError, ToolchainError) as error:
        path = record_file(options)
        warn_once(f"tuning {path}", "what was measured is not kept: %s cannot be written (%s)", path, error)


def forget(options: Options) -> int:
    """Remove the user's record; how many there were."""
    file = record_file(options)
    found = file.is_file()
    file.unlink(missing_ok=True)
    return int(found)


def record_file(options: Options) -> Path:
    """Where the user's record is kept."""
    return options.tuning_folder / FILE


def record_of(workloads: Workloads) -> Record:
    """A record of this CPU and version."""
    return Record(cpu_model(), graphwright.__version__, workloads)


def _warn(options: Options, why: str) -> None:
    path = record_file(options)
    warn_once(f"tuning {path}", "the tuning record %s is not used: %s; %s", path, why, REMEDY)
