"""Checks of a package that is read: members, weights, and whether its parts belong together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from graphwright.errors import Diagnostic, PackageError
from graphwright.executable.nodes import Dispatch, Executable, Program
from graphwright.executable.specs import TensorSpec
from graphwright.package.archive import Archive
from graphwright.package.package import FORMAT, WEIGHTS, Entry
from graphwright.package.weights import Weights


def check_format(archive: Archive) -> None:
    """Raises PackageError for another version of the file format."""
    given = archive.manifest["format"]
    if given != FORMAT:
        message = f"the package has format {given!r}, this version of graphwright reads {FORMAT}"
        hint = "compile the model again with this version"
        raise PackageError(Diagnostic("package-version", message, archive.where, hint))


def check_members(archive: Archive) -> None:
    """Checks the sizes of all members, and the contents of those that are not weights."""
    listed: dict[str, Any] = archive.manifest["members"]
    sizes = {name: len(data) for name, data in archive.members.items()}
    sizes |= {name: member.size for name, member in archive.later.items()}
    if odd := sorted((set(sizes) - {"manifest.json", "signature"}) ^ set(listed)):
        raise archive.damaged(f"members and manifest differ in {', '.join(odd[:5])}")
    for name, (size, _) in listed.items():
        if sizes[name] != size:
            raise archive.damaged(f"member {name!r} has {sizes[name]} bytes instead of {size}")
        if name != WEIGHTS and name not in archive.later:
            _check_digest(archive, name, archive.members[name])


def check_weights(archive: Archive) -> None:
    """Checks the contents of the members that are weights."""
    _check_digest(archive, WEIGHTS, archive.members[WEIGHTS])
    for name, member in archive.later.items():
        _check_digest(archive, name, member.read())


def _check_digest(archive: Archive, name: str, data: memoryview) -> None:
    if hashlib.sha256(data).hexdigest() != archive.manifest["members"][name][1]:
        raise archive.damaged(f"member {name!r} was changed after it was written")


def check_tensors(archive: Archive, member: str, weights: Weights) -> None:
    """Raises PackageError, which names the tensors, if bytes of ``weights`` of ``member`` differ from what
    was written.
    """
    found, digests = weights.digests(), archive.manifest["tensors"][member]
    if odd := [name for name, digest in found.items() if digests.get(name) != digest]:
        graph = archive.graphs()
        shown = ", ".join(_name_of(name, graph) for name in odd[:5])
        more = f" and {len(odd) - 5} more" if len(odd) > 5 else ""
        message = f"weights are damaged: {shown}{more}, of {len(found)} tensors"
        hint = "copy or fetch the file again"
        raise PackageError(Diagnostic("damaged-weights", message, archive.where, hint))


def _name_of(digest: str, graph: str) -> str:
    """The name of a tensor in the text of the graph; if it has none, the nodes that it comes from; otherwise
    its digest.
    """
    for line in graph.splitlines():
        value, is_constant, rest = line.partition(" = Constant[value=#")
        short = rest.partition("]")[0]
        if is_constant and short and digest.startswith(short):
            name = rest.partition(' name "')[2].partition('"')[0] or value.strip().removeprefix("%")
            return f"one of {rest.partition(' from ')[2]}" if name.isdigit() else repr(name)
    return digest


def check_starts(archive: Archive, entries: Iterable[Entry], weights: Weights) -> None:
    """Raises PackageError if the initial value of a state has another type than the state."""
    for entry in entries:
        inputs = {spec.name: spec for spec in entry.inputs}
        for name, digest in entry.starts.items():
            spec, tensor = inputs[name], weights.tensors[digest]
            if tensor.dtype != spec.dtype or not spec.accepts(tensor.shape):
                raise archive.damaged(f"the initial value of state {name!r} has another type")


def check_bindings(archive: Archive, entry: Entry, executable: Executable) -> None:
    """Raises PackageError unless the executable, and each program that it dispatches to, has the inputs and
    outputs of the entry.
    """
    wanted = [dtype for _, dtype in (*bindings_of(entry.inputs), *bindings_of(entry.outputs))]
    if [dtype for _, dtype in (*bindings_of(executable.inputs), *bindings_of(executable.outputs))] != wanted:
        raise archive.damaged("the inputs or outputs of an executable differ from those of its entry")
    names = [spec.name for spec in entry.inputs], [spec.name for spec in entry.outputs]
    for program in _whole_model_programs(executable):
        if ([spec.name for spec in program.inputs], [spec.name for spec in program.outputs]) != names:
            raise archive.damaged("the names of a program's inputs or outputs differ from those of its entry")


def _whole_model_programs(executable: Executable) -> Iterator[Program]:
    """The programs that compute the whole model."""
    if isinstance(executable, Program):
        yield executable
    for case in executable.cases if isinstance(executable, Dispatch) else ():
        yield from _whole_model_programs(case)


def bindings_of(specs: Sequence[TensorSpec]) -> list[tuple[str, str]]:
    """Names and dtypes of inputs or outputs."""
    return [(spec.name, spec.dtype.name) for spec in specs]
