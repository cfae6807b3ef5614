"""Packages taken apart and put together again, with their hashes set right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphwright.package.read_archive import read_archive
from graphwright.package.sign import signature
from graphwright.package.write_archive import write_archive

GRAPH = "entries/main/graph.txt"
"""The text of the first entry's graph."""
PROGRAM = "entries/main/0"
"""Where the members of the first program lie, a folder for each ISA."""


def members_of(path: Path) -> dict[str, bytes]:
    """The members' bytes, by name."""
    return {name: bytes(data) for name, data in read_archive(path).items()}


def rebuilt(source: Path, target: Path, changes: Mapping[str, bytes], key: bytes | None = None) -> Path:
    """Writes ``source`` with ``changes`` and a manifest that agrees with them, signed with ``key``, or
    unsigned.
    """
    members = {n: d for n, d in members_of(source).items() if n not in ("signature", "manifest.json")} | dict(
        changes
    )
    manifest = manifest_of(source)
    manifest["members"] = {n: [len(d), hashlib.sha256(d).hexdigest()] for n, d in members.items()}
    return put_together(target, manifest, members, key)


def manifest_of(path: Path) -> dict[str, Any]:
    """The manifest of a package."""
    manifest: dict[str, Any] = json.loads(members_of(path)["manifest.json"])
    return manifest


def entry_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """The first entry of a manifest."""
    entry: dict[str, Any] = manifest["entries"][0]
    return entry


def targets_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """The targets of the first program of a manifest, by ISA."""
    targets: dict[str, Any] = entry_of(manifest)["programs"][0]
    return targets


def put_together(target: Path, manifest: object, members: Mapping[str, bytes], key: bytes | None) -> Path:
    """A package of any manifest and members."""
    text = json.dumps(manifest).encode()
    head = {"manifest.json": text} | ({"signature": signature(text, key).encode()} if key else {})
    write_archive(target, {name: [data] for name, data in (head | dict(members)).items()})
    return target
