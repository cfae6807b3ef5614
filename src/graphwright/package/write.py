"""Writes ``.om`` files. The same package gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from graphwright.executable.encode import encode
from graphwright.executable.specs import encode_spec
from graphwright.executable.target_code import TargetCode
from graphwright.package.hashes import Piece, hash_members
from graphwright.package.package import (
    DECISIONS,
    FORMAT,
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
from graphwright.package.sign import signature
from graphwright.package.write_archive import write_archive


def write_package(package: Package, target: Path | BinaryIO, key: bytes | None = None) -> None:
    """Writes ``package`` to a path, atomically, or to an open file. It is signed with ``key``; without a key
    it keeps the signature that it was read with.
    """
    members: dict[str, list[Piece]] = {}
    for name, entry in package.entries.items():
        texts = {
            GRAPH: entry.graph,
            GENERAL: entry.general,
            REPORT: entry.report,
            DECISIONS: entry.decisions,
            REMARKS: entry.remarks,
        }
        members |= {f"{folder_of(name)}/{file}": [text.encode()] for file, text in texts.items() if text}
    members[WEIGHTS] = package.weights.pieces()
    entries = [_add_entry(name, entry, members) for name, entry in package.entries.items()]
    for isa, packs in sorted(package.packs.items()):
        own = packs.own()
        if own.tensors:
            members[own_weights(isa)] = own.pieces()
    spare = package.spare()
    if spare.tensors:  # last, so that loading stops before it
        members[SPARE] = spare.pieces()
    hashes = hash_members(members)
    manifest = _json(
        {
            "format": FORMAT,
            "options": dict(package.options),
            "plugins": dict(package.plugins),
            "entries": entries,
            "indices": package.weights.index_digest(),
            "packs": {isa: packs.plain for isa, packs in package.packs.items()},
            "tensors": {WEIGHTS: package.weights.digests(), SPARE: spare.digests()},
            "members": {name: (each.size, each.sha256) for name, each in hashes.items()},
        }
    )
    signed = signature(manifest, key) if key else package.signature
    head = {"manifest.json": [manifest]} | ({"signature": [signed.encode()]} if signed else {})
    write_archive(target, {**head, **members}, {name: each.crc32 for name, each in hashes.items()})


def _add_entry(name: str, entry: Entry, members: dict[str, list[Piece]]) -> dict[str, Any]:
    """Adds the programs of ``entry`` to ``members``; returns its part of the manifest."""
    return {
        "name": name,
        "inputs": list(map(encode_spec, entry.inputs)),
        "outputs": list(map(encode_spec, entry.outputs)),
        "constraints": entry.constraints,
        "metadata": dict(entry.metadata),
        "starts": dict(entry.starts),
        "executable": None if entry.executable is None else encode(entry.executable),
        "programs": [
            _add_targets(program.targets, f"{folder_of(name)}/{number}", members)
            for number, program in enumerate(entry.programs())
        ],
    }


def _add_targets(
    targets: Mapping[str, TargetCode], folder: str, members: dict[str, list[Piece]]
) -> dict[str, Any]:
    """Adds ``targets`` to ``members`` under ``folder``; returns their part of the manifest."""
    return {
        name: _add_target(target, f"{folder}/{name}", members) for name, target in sorted(targets.items())
    }


def _add_target(target: TargetCode, folder: str, members: dict[str, list[Piece]]) -> dict[str, Any]:
    members[f"{folder}/tasks.json"] = [target.stored.data]
    sources = {name: text.encode() for name, text in target.sources.items()}
    return {
        "objects": {
            name: _member(members, f"{folder}/{name}{_ending(data)}", data)
            for name, data in target.objects.items()
        },
        "sources": {name: _member(members, f"{folder}/{name}", data) for name, data in sources.items()},
        "library": target.library,
    }


def _ending(binary: bytes) -> str:
    """The file extension of a kernel binary: a shared object on a CPU, something else on other targets."""
    return ".so" if binary.startswith(b"\x7fELF") else ".bin"


def _member(members: dict[str, list[Piece]], name: str, data: bytes) -> str:
    """The name of the member with ``data``: an existing one of another target, or a new one called
    ``name``.
    """
    ending = name.rpartition(".")[2]
    for known, pieces in members.items():
        if known.endswith(ending) and pieces[0] == data:
            return known
    members[name] = [data]
    return name


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
