"""Writing ``.om`` files: the same package gives the same bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphwright.package.archiver import Piece, write_archive
from graphwright.package.package import FORMAT, SPARE, WEIGHTS, Package, TensorSpec
from graphwright.package.sign import signature


def write_package(package: Package, path: Path, key: bytes | None = None) -> None:
    """Write ``package`` to ``path``: signed with ``key``, or as it was when it was read.

    The file appears whole or not at all.
    """
    members: dict[str, list[Piece]] = {
        "graph.txt": [package.graph.encode()],
        "report.txt": [package.report.encode()],
        WEIGHTS: [package.weights.header, package.weights.data],
    }
    targets: dict[str, Any] = {}
    for target in package.targets.values():
        folder = f"targets/{target.isa}"
        members[f"{folder}/tasks.json"] = [target.stored.data]
        members |= {f"{folder}/{name}.so": [data] for name, data in target.objects.items()}
        members |= {f"{folder}/{name}": [text.encode()] for name, text in target.sources.items()}
        targets[target.isa] = {"objects": sorted(target.objects), "sources": sorted(target.sources)}
    spare = package.spare()
    if spare.tensors:  # last, so that loading stops before it
        members[SPARE] = [spare.header, spare.data]
    manifest = _json(
        {
            "format": FORMAT,
            "inputs": [_spec(s) for s in package.inputs],
            "outputs": [_spec(s) for s in package.outputs],
            "constraints": package.constraints,
            "metadata": dict(package.metadata),
            "options": dict(package.options),
            "targets": targets,
            "indices": package.weights.index_digest(),
            "members": {name: _size_and_digest(pieces) for name, pieces in members.items()},
        }
    )
    signed = signature(manifest, key) if key else package.signature
    head = {"manifest.json": [manifest]} | ({"signature": [signed.encode()]} if signed else {})
    write_archive(path, {**head, **members})


def _size_and_digest(pieces: Sequence[Piece]) -> tuple[int, str]:
    state = hashlib.sha256()
    for piece in pieces:
        state.update(piece)
    return sum(map(len, pieces)), state.hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _spec(spec: TensorSpec) -> list[Any]:
    return [spec.name, spec.dtype.name, spec.shape]
