"""The tuning record of a user: a file in the cache folder, next to the compiled kernels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import graphwright
from graphwright.config import Options
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
from graphwright.targets.cpu.private_folder import PrivateFolder

FILE: Final = "record.json"
REMEDY: Final = "a compilation with --tune writes a new one"


def with_record(options: Options) -> Options:
    """``options`` with ``tuning=auto`` replaced by the content of the user's record, or by ``none`` without
    one.
    """
    if options.tuning != USERS_RECORD:
        return options
    record = users_record(options)
    return replace(options, tuning=record.text() if record is not None and record.workloads else NO_RECORD)


def users_record(options: Options) -> Record | None:
    """The user's record for this CPU and version; None if there is none, or, with one warning, if it is
    damaged or for another CPU or version.
    """
    if not os.path.isfile(record_file(options)):  # also for a folder that this user may not enter
        return None
    try:
        data = PrivateFolder(options.tuning_folder).read(FILE)
        record = None if data is None else parsed(decoded(data))
    except ValueError as error:
        _warn(options, str(error))
        return None
    if record is None:
        _warn(options, "it is not a regular file of this user")
        return None
    made_by = record.cpu, record.version
    if made_by != (cpu_model(), graphwright.__version__):
        _warn(options, f"it is of {record.cpu} and graphwright {record.version}")
        return None
    return record


def keep(workloads: Workloads, options: Options) -> None:
    """Adds ``workloads`` to the user's record, to which other processes may have added in the meantime. If it
    cannot be written, it only warns once.
    """
    record = users_record(options)
    known = {} if record is None else dict(record.workloads)
    for name in workloads.keys() & known.keys():
        del known[name]  # the last measured ones go to the end
    folder = PrivateFolder(options.tuning_folder)
    try:
        if folder.usable():
            folder.write(FILE, record_of({**known, **workloads}).text().encode())
    except OSError as error:
        path = record_file(options)
        warn_once(f"tuning {path}", "measurements are not saved: %s cannot be written (%s)", path, error)


def forget(options: Options) -> int:
    """Removes the user's record; returns how many there were."""
    file = record_file(options)
    found = os.path.isfile(file)
    file.unlink(missing_ok=True)
    return int(found)


def record_file(options: Options) -> Path:
    """The path of the user's record."""
    return options.tuning_folder / FILE


def record_of(workloads: Workloads) -> Record:
    """A record of this CPU and version."""
    return Record(cpu_model(), graphwright.__version__, workloads)


def _warn(options: Options, why: str) -> None:
    path = record_file(options)
    warn_once(f"tuning {path}", "the tuning record %s is not used: %s; %s", path, why, REMEDY)
