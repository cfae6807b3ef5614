"""Writing ``.om`` files: the same package gives the same bytes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from graphwright.lower.serialize import to_plain
from graphwright.package.archive import write_archive
from graphwright.package.package import Package, TensorSpec
from graphwright.package.sign import signature
from graphwright.package.weights import write_weights

FORMAT = 1


def write_package(package: Package, path: Path, key: bytes | None) -> None:
    """Write ``package`` to ``path``, signed with ``key`` if there is one. The file appears whole or not at all."""
    members: dict[str, bytes] = {
        "graph.txt": package.graph.encode(),
        "weights.safetensors": write_weights(package.weights.arrays),
    }
    targets: dict[str, Any] = {}
    for target in package.targets.values():
        folder = f"targets/{target.isa}"
        members[f"{folder}/tasks.json"] = _json(to_plain(target.program))
        for name, data in target.objects.items():
            members[f"{folder}/{name}.so"] = data
        for name, text in target.sources.items():
            members[f"{folder}/{name}.c"] = text.encode()
        targets[target.isa] = {"objects": sorted(target.objects), "sources": sorted(target.sources)}
    manifest = _json(
        {
            "format": FORMAT,
            "inputs": [_spec(s) for s in package.inputs],
            "outputs": [_spec(s) for s in package.outputs],
            "constraints": package.constraints,
            "metadata": dict(package.metadata),
            "options": dict(package.options),
            "targets": targets,
            "members": {n: [len(d), hashlib.sha256(d).hexdigest()] for n, d in members.items()},
        }
    )
    head: dict[str, bytes] = {"manifest.json": manifest}
    if key is not None:
        head["signature"] = signature(manifest, key).encode()
    write_archive(path, head | members)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _spec(spec: TensorSpec) -> list[Any]:
    return [spec.name, spec.dtype.name, spec.shape]
