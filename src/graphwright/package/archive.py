"""A package that is opened for reading: its members and its manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from graphwright.errors import PackageError
from graphwright.package.package import GRAPH, folder_of
from graphwright.package.read_archive import FileMember, MemoryMember, damaged
from graphwright.records import dataclass


@dataclass(frozen=True)
class Archive:
    """The members of a package. ``where`` names the package in errors."""

    members: Mapping[str, memoryview]
    later: Mapping[str, FileMember | MemoryMember]
    """Members that are read on demand."""
    where: str

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest, which is not checked yet."""
        manifest: dict[str, Any] = json.loads(bytes(self.members["manifest.json"]))
        return manifest

    def text(self, entry: str, file: str) -> str:
        """A text member of an entry; empty if it is absent."""
        return bytes(self.members.get(f"{folder_of(entry)}/{file}", b"")).decode()

    def graphs(self) -> str:
        """The texts of the graphs of all entries, in which errors look up the names of tensors."""
        return "\n".join(self.text(plain["name"], GRAPH) for plain in self.manifest["entries"])

    def damaged(self, reason: str) -> PackageError:
        """The error that the package is damaged."""
        return damaged(self.where, reason)
