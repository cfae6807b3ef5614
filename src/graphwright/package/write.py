"""Writing ``.om`` files: the same package gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from graphwright.executable.encode import encode
from graphwright.executable.nodes import programs_of
from graphwright.executable.specs import encode_spec
from graphwright.executable.target_code import TargetCode
from graphwright.package.archiver import Piece, write_archive
from graphwright.package.hashes import hash_members
from graphwright.package.package import FORMAT, GENERAL, SPARE, WEIGHTS, Package, own_weights
from graphwright.package.sign import signature


def write_package(package: Package, target: Path | BinaryIO, key: bytes | None = None) -> None:
    """Write ``package`` to a path or an open file: signed with ``key``, or as it was when it was read.

    A file at a path appears whole or not at all.
    """
    members: dict[str, list[Piece]] = {
        "graph.txt": [package.graph.encode()],
        **({GENERAL: [package.general.encode()]} if package.general else {}),
        "report.txt": [package.report.encode()],
        WEIGHTS: package.weights.pieces(),
    }
    entries = {name: encode(entry) for name, entry in package.entries.items()}
    programs = {
        name: [
            _add_targets(program.targets, f"entries/{name}/{number}", members)
            for number, program in enumerate(programs_of(entry))
        ]
        for name, entry in package.entries.items()
    }
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
            "inputs": list(map(encode_spec, package.inputs)),
            "outputs": list(map(encode_spec, package.outputs)),
            "constraints": package.constraints,
            "metadata": dict(package.metadata),
            "options": dict(package.options),
            "plugins": dict(package.plugins),
            "entries": entries,
            "programs": programs,
            "indices": package.weights.index_digest(),
            "packs": {isa: packs.plain for isa, packs in package.packs.items()},
            "tensors": {WEIGHTS: package.weights.digests(), SPARE: spare.digests()},
            "members": {name: (each.size, each.sha256) for name, each in hashes.items()},
        }
    )
    signed = signature(manifest, key) if key else package.signature
    head = {"manifest.json": [manifest]} | ({"signature": [signed.encode()]} if signed else {})
    write_archive(target, {**head, **members}, {name: each.crc32 for name, each in hashes.items()})


def _add_targets(
    targets: Mapping[str, TargetCode], folder: str, members: dict[str, list[Piece]]
) -> dict[str, Any]:
    """Put ``targets`` into ``members`` under ``folder``; what the manifest says of them."""
    return {isa: _add_target(target, f"{folder}/{isa}", members) for isa, target in sorted(targets.items())}


def _add_target(target: TargetCode, folder: str, members: dict[str, list[Piece]]) -> dict[str, Any]:
    members[f"{folder}/tasks.json"] = [target.stored.data]
    sources = {name: text.encode() for name, text in target.sources.items()}
    return {
        "objects": {n: _member(members, f"{folder}/{n}.so", data) for n, data in target.objects.items()},
        "sources": {name: _member(members, f"{folder}/{name}", data) for name, data in sources.items()},
        "library": target.library,
    }


def _member(members: dict[str, list[Piece]], name: str, data: bytes) -> str:
    """The member that holds ``data``: one of another target, or a new one called ``name``."""
    ending = name.rpartition(".")[2]
    for known, pieces in members.items():
        if known.endswith(ending) and pieces[0] == data:
            return known
    members[name] = [data]
    return name


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
