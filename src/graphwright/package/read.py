"""Reads ``.om`` files. Only graphs and weights are read of a file that is not trusted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from graphwright.errors import GraphwrightError
from graphwright.executable.encode import decode
from graphwright.executable.nodes import Executable, programs_of
from graphwright.executable.specs import decode_spec
from graphwright.executable.stored import StoredTasks
from graphwright.executable.target_code import TargetCode
from graphwright.package.archive import Archive
from graphwright.package.checks import (
    bindings_of,
    check_bindings,
    check_format,
    check_members,
    check_starts,
    check_tensors,
    check_weights,
)
from graphwright.package.pack_weights import no_weights
from graphwright.package.package import (
    DECISIONS,
    GENERAL,
    GRAPH,
    REMARKS,
    REPORT,
    SPARE,
    WEIGHTS,
    Entry,
    Package,
    folder_of,
    own_weights,
)
from graphwright.package.read_archive import (
    FileMember,
    MemoryMember,
    Source,
    damaged,
    open_archive,
    read_archive,
    source_name,
)
from graphwright.package.read_weights import read_weights
from graphwright.package.repacked_weights import Packs
from graphwright.package.sign import is_signed
from graphwright.package.weights import Weights
from graphwright.records import dataclass


def _is_read_later(name: str) -> bool:
    return name.endswith(".safetensors") and name != WEIGHTS


@dataclass(frozen=True)
class _Checks:
    """The checks of weights to make: of tensors against damage, and of whole members by SHA-256."""

    tensors: bool
    weights: bool


def _packed_again(path: Path) -> Iterable[str]:
    """The ISAs for which weights of the package at ``path`` are repacked; errors are reported when it is
    read.
    """
    if not os.path.isfile(path):
        return ()
    try:
        packs = json.loads(bytes(read_archive(path, use_mmap=True)["manifest.json"]))["packs"]
    except (GraphwrightError, OSError, LookupError, TypeError, ValueError, RecursionError):
        return ()
    return packs if isinstance(packs, dict) else ()


class _Files:
    """Members as bytes and strings, each made once: programs share members."""

    def __init__(self, members: Mapping[str, memoryview]) -> None:
        self._members = members
        self._bytes: dict[str, bytes] = {}
        self._texts: dict[str, str] = {}

    def data(self, name: str) -> bytes:
        if name not in self._bytes:
            self._bytes[name] = bytes(self._members[name])
        return self._bytes[name]

    def text(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = bytes(self._members[name]).decode()
        return self._texts[name]


def read_package(
    source: Source,
    *,
    trust: bool = False,
    keys: Sequence[bytes] = (),
    use_mmap: bool = False,
    verify: bool = False,
    isa: str = "",
) -> Package:
    """Reads the package in ``source``. Its executables are read with ``trust``, or if one of ``keys`` signed
    it.

    Members other than weights are always checked by the SHA-256 in the manifest, and so are integer weights,
    as kernels may use them as indices. Other weights are checked for damage if they are copied into memory;
    ``verify`` also checks mapped weights, and all by SHA-256, which detects any change. ``isa`` is the ISA
    that will run: if weights are repacked for it, the file is mapped instead of copied. Raises PackageError.
    """
    use_mmap = use_mmap or (isinstance(source, Path) and bool(isa) and isa in _packed_again(source))
    where = source_name(source)
    found, later = open_archive(source, use_mmap=use_mmap, later=_is_read_later)
    members = {name: data if name == WEIGHTS else _private_copy(data) for name, data in found.items()}
    try:
        checks = _Checks(tensors=verify or not use_mmap, weights=verify)
        return _package(Archive(members, later, where), trust, keys, checks)
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise damaged(where, f"its contents are malformed ({type(error).__name__}: {error})") from error


def _private_copy(data: memoryview) -> memoryview:
    """``data``, copied if it is a mapping of a file: it must not change after it was checked."""
    return data if data.readonly else memoryview(bytes(data))


def _package(archive: Archive, trust: bool, keys: Sequence[bytes], checks: _Checks) -> Package:
    members, manifest = archive.members, archive.manifest
    check_format(archive)
    check_members(archive)
    signature = bytes(members.get("signature", b"")).decode("ascii")
    trusted = trust or is_signed(bytes(members["manifest.json"]), signature, keys)
    weights = read_weights(members[WEIGHTS]).with_own_indices()
    if checks.tensors:
        check_tensors(archive, WEIGHTS, weights)
    if checks.weights:
        check_weights(archive)
    if weights.index_digest() != manifest["indices"]:
        raise archive.damaged("weights of integers were changed after they were written")
    entries = _entries(archive, _Files(members) if trusted else None)
    check_starts(archive, entries.values(), weights)
    return Package(
        entries,
        weights,
        options={str(k): str(v) for k, v in manifest["options"].items()},
        plugins={str(k): str(v) for k, v in manifest["plugins"].items()},
        signature=signature,
        trusted=trusted,
        spare=_spare(archive),
        packs={
            str(isa): Packs(plain, weights, _weights_of(archive, str(isa)))
            for isa, plain in (manifest["packs"] if trusted else {}).items()
        },
    )


def _entries(archive: Archive, files: _Files | None) -> dict[str, Entry]:
    """The entries by name. Raises PackageError if there are none, or two of one name."""
    listed = archive.manifest["entries"]
    entries = {str(plain["name"]): _entry(archive, plain, files) for plain in listed}
    if not entries or len(entries) < len(listed):
        raise archive.damaged("it has no entries, or two of the same name")
    return entries


def _entry(archive: Archive, plain: dict[str, Any], files: _Files | None) -> Entry:
    """An entry; ``files`` is None if its executable must not be read."""
    text = partial(archive.text, plain["name"])
    entry = Entry(
        graph=text(GRAPH),
        inputs=tuple(map(decode_spec, plain["inputs"])),
        outputs=tuple(map(decode_spec, plain["outputs"])),
        executable=None if files is None or plain["executable"] is None else _executable(plain, files),
        constraints=tuple(map(str, plain["constraints"])),
        general=text(GENERAL),
        metadata={str(k): str(v) for k, v in plain["metadata"].items()},
        report=text(REPORT),
        decisions=text(DECISIONS),
        remarks=text(REMARKS),
        starts={str(name): str(digest) for name, digest in plain["starts"].items()},
    )
    if not entry.graph:
        raise archive.damaged(f"entry {plain['name']!r} has no graph")
    if entry.executable is not None:
        check_bindings(archive, entry, entry.executable)
    return entry


def _executable(plain: dict[str, Any], files: _Files) -> Executable:
    """The executable, with the targets of each program. Raises ValueError if they do not fit together."""
    folder, programs = folder_of(plain["name"]), plain["programs"]

    def targets(number: int) -> dict[str, TargetCode]:
        return _targets(programs[number], f"{folder}/{number}", files)

    executable = decode(plain["executable"], targets)
    for program in programs_of(executable):
        bindings = bindings_of(program.inputs), bindings_of(program.outputs)
        if any(target.stored.bindings != bindings for target in program.targets.values()):
            raise ValueError("the inputs or outputs of a program differ from those of its tasks")
    return executable


def _spare(archive: Archive) -> Callable[[], Weights]:
    """A function that reads the constants of the graphs that no task reads."""
    if SPARE not in archive.later:
        return no_weights

    def read() -> Weights:
        weights = _read_later(archive.later[SPARE], SPARE, archive.where)
        check_tensors(archive, SPARE, weights)
        return weights

    return read


def _weights_of(archive: Archive, isa: str) -> Callable[[], Weights]:
    """A function that reads the weights that only the target ``isa`` reads. :class:`Packs` checks them."""
    name = own_weights(isa)
    if name not in archive.later:
        return no_weights
    return partial(_read_later, archive.later[name], name, archive.where)  # keeps no other member


def _read_later(member: FileMember | MemoryMember, name: str, where: str) -> Weights:
    try:
        return read_weights(member.read())
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise damaged(where, f"member {name!r}: {error}") from error


def _targets(entries: dict[str, Any], folder: str, files: _Files) -> dict[str, TargetCode]:
    return {name: _target(name, names, f"{folder}/{name}", files) for name, names in entries.items()}


def _target(target: str, names: dict[str, Any], folder: str, files: _Files) -> TargetCode:
    tasks = StoredTasks(files.data(f"{folder}/tasks.json"))
    tasks.check()
    return TargetCode(
        target,
        tasks,
        {str(name): files.data(member) for name, member in names["objects"].items()},
        {str(name): files.text(member) for name, member in names["sources"].items()},
        str(names["library"]),
    )
