"""The files of a model: which ones it may read, and their mappings. External data is not copied."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx

from graphwright.frontends.onnx.faults import Fault
from graphwright.ir.constants.mapped import MappedFile
from graphwright.records import dataclass, field, replace
from graphwright.support.escaping import terminal
from graphwright.support.file_kinds import FileId, file_id

DAMAGED = "the model is damaged: download it again, or export it again"
"""What to do about a model whose parts contradict each other."""


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model, and access to its external data."""

    folder: Path | None
    """The folder of the model; None if the model was given as bytes."""
    weights: Mapping[str, memoryview] = field(default_factory=dict)
    """Raw data of initializers that was removed from the model before parsing."""
    extra_folder: Path | None = None
    """A second folder that the user allows. It is searched for files that the first folder lacks."""
    path: Path | None = None
    """The file of the model."""
    read: set[FileId] = field(default_factory=set)
    """The files that were read."""
    mappings: dict[Path, MappedFile] = field(default_factory=dict)

    def with_weights(self, weights: Mapping[str, memoryview]) -> ModelFiles:
        """A copy with raw data that was removed before parsing."""
        return replace(self, weights=weights)

    def note(self, file: Path) -> None:
        """Records that ``file`` is read. Raises OSError."""
        self.read.add(file_id(os.stat(file)))

    def mapped(self, file: Path) -> MappedFile:
        """The mapping of ``file``, a non-empty file from :meth:`open`; each file is mapped once."""
        if file not in self.mappings:
            self.mappings[file] = MappedFile.open(file)
        return self.mappings[file]

    def raw_data(self, tensor: onnx.TensorProto) -> bytes | memoryview:
        """The raw data of ``tensor``, whether it was parsed or removed before parsing."""
        data: bytes = tensor.raw_data
        return data or self.weights.get(tensor.name, data)

    def open(self, location: str) -> Path:
        """The regular file at ``location`` in an allowed folder. Raises Fault.

        The folder of the model is allowed. If the path of the model is a link, the folder of its target is
        allowed too, as in ONNX Runtime: in the Hugging Face cache, links in ``snapshots`` point to ``blobs``.
        Paths and links must not lead to other folders, except the one that the user allows.
        """
        shown = terminal(repr(location))
        if self.folder is None and self.extra_folder is None:
            hint = "give the model's path instead of its bytes, or external_data=FOLDER (--external-data)"
            raise Fault(
                "external-data", f"weights are in the file {shown}, and the folder is not known", hint
            )
        try:
            real = self._resolved(location)
            mode = os.stat(real).st_mode
        except (OSError, ValueError, RuntimeError) as error:
            raise Fault(
                "external-data", f"{shown} cannot be read: {error}", "download all files of the model"
            ) from error
        if not stat.S_ISREG(mode):
            raise Fault("external-data", f"{shown} is not a regular file", DAMAGED)
        self.note(real)
        return real

    def _resolved(self, location: str) -> Path:
        """The file at ``location`` with links resolved. Raises OSError, or Fault if the file is not
        allowed.
        """
        roots = [] if self.extra_folder is None else [self.extra_folder.resolve(strict=True)]
        if self.folder is not None and not _leads_out(location):
            roots.append(self.folder.resolve(strict=True))
            roots += [] if self.path is None else [self.path.resolve(strict=True).parent]
        if not roots:
            raise _refused(location)
        paths = [folder / location for folder in (self.folder, self.extra_folder) if folder is not None]
        found = [path.resolve(strict=True) for path in paths if path.exists()]
        allowed = [real for real in found if any(map(real.is_relative_to, roots))]
        if found and not allowed:
            raise _refused(location, f": it is {terminal(str(found[0]))}")
        return allowed[0] if allowed else paths[0].resolve(strict=True)


def _refused(location: str, why: str = "") -> Fault:
    hint = "move the weights next to the model, or allow their folder: external_data=FOLDER (--external-data)"
    return Fault("external-data", f"{terminal(repr(location))} is outside the folder of the model{why}", hint)


def _leads_out(location: str) -> bool:
    """Whether ``location`` could be outside its folder on any operating system."""
    pure = PurePosixPath(location)
    absolute = pure.is_absolute() or PureWindowsPath(location).is_absolute()
    return absolute or ".." in pure.parts or "\\" in location
