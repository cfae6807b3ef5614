"""Checks of a package that is read: members, weights, and whether its parts belong together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from graphwright.errors import Diagnostic, PackageError
from graphwright.executable.nodes import Dispatch, Executable, Program
from graphwright.executable.specs import TensorSpec
from graphwright.package.package import FORMAT, WEIGHTS, Entry
from graphwright.package.read_archive import FileMember, MemoryMember, damaged
from graphwright.package.weights import Weights

Members = Mapping[str, memoryview]
Kept = Mapping[str, FileMember | MemoryMember]
"""Members that are read on demand."""


def check_format(manifest: dict[str, Any], where: str) -> None:
    """Raises PackageError for another version of the file format."""
    if manifest["format"] != FORMAT:
        raise PackageError(
            Diagnostic(
                "package-version",
                f"the package has format {manifest['format']!r}, this version of graphwright reads {FORMAT}",
                where,
                "compile the model again with this version",
            )
        )


def check_members(manifest: dict[str, Any], members: Members, later: Kept, where: str) -> None:
    """Checks the sizes of all members, and the contents of those that are not weights."""
    listed: dict[str, Any] = manifest["members"]
    sizes = {name: len(data) for name, data in members.items()}
    sizes |= {name: member.size for name, member in later.items()}
    if odd := sorted((set(sizes) - {"manifest.json", "signature"}) ^ set(listed)):
        raise damaged(where, f"members and manifest differ in {', '.join(odd[:5])}")
    for name, (size, digest) in listed.items():
        if sizes[name] != size:
            raise damaged(where, f"member {name!r} has {sizes[name]} bytes instead of {size}")
        if name != WEIGHTS and name not in later:
            _check_digest(name, members[name], digest, where)


def check_weights(manifest: dict[str, Any], members: Members, later: Kept, where: str) -> None:
    """Checks the contents of the members that are weights."""
    listed: dict[str, Any] = manifest["members"]
    _check_digest(WEIGHTS, members[WEIGHTS], listed[WEIGHTS][1], where)
    for name, member in later.items():
        _check_digest(name, member.read(), listed[name][1], where)


def _check_digest(name: str, data: memoryview, digest: str, where: str) -> None:
    if hashlib.sha256(data).hexdigest() != digest:
        raise damaged(where, f"member {name!r} was changed after it was written")


def check_tensors(
    weights: Weights, digests: Mapping[str, str], graphs: Callable[[], str], where: str
) -> None:
    """Raises PackageError, which names the tensors, if bytes of tensors differ from what was written."""
    found = weights.digests()
    if odd := [name for name, digest in found.items() if digests.get(name) != digest]:
        graph = graphs()
        shown = ", ".join(_name_of(name, graph) for name in odd[:5])
        more = f" and {len(odd) - 5} more" if len(odd) > 5 else ""
        message = f"weights are damaged: {shown}{more}, of {len(found)} tensors"
        raise PackageError(Diagnostic("damaged-weights", message, where, "copy or fetch the file again"))


def _name_of(digest: str, graph: str) -> str:
    """The name of a tensor in the graph's text, or the nodes that it comes from, or else its digest."""
    for line in graph.splitlines():
        value, is_constant, rest = line.partition(" = Constant[value=#")
        short = rest.partition("]")[0]
        if is_constant and short and digest.startswith(short):
            name = rest.partition(' name "')[2].partition('"')[0] or value.strip().removeprefix("%")
            return f"one of {rest.partition(' from ')[2]}" if name.isdigit() else repr(name)
    return digest


def check_starts(entries: Iterable[Entry], weights: Weights, where: str) -> None:
    """Raises PackageError if the initial value of a state has another type than the state."""
    for entry in entries:
        inputs = {spec.name: spec for spec in entry.inputs}
        for name, digest in entry.starts.items():
            spec, tensor = inputs[name], weights.tensors[digest]
            if tensor.dtype != spec.dtype or not spec.accepts(tensor.shape):
                raise damaged(where, f"the initial value of state {name!r} has another type")


def check_bindings(entry: Entry, executable: Executable, where: str) -> None:
    """Raises PackageError if inputs and outputs of the executable, or of a program that it dispatches to,
    differ from those of the entry.
    """
    wanted = [dtype for _, dtype in (*bindings_of(entry.inputs), *bindings_of(entry.outputs))]
    if [dtype for _, dtype in (*bindings_of(executable.inputs), *bindings_of(executable.outputs))] != wanted:
        raise damaged(where, "the inputs or outputs of an executable differ from those of its entry")
    names = [spec.name for spec in entry.inputs], [spec.name for spec in entry.outputs]
    for program in _whole_model_programs(executable):
        if ([spec.name for spec in program.inputs], [spec.name for spec in program.outputs]) != names:
            raise damaged(where, "the names of a program's inputs or outputs differ from those of its entry")


def _whole_model_programs(executable: Executable) -> Iterator[Program]:
    """The programs that compute the whole model."""
    if isinstance(executable, Program):
        yield executable
    for case in executable.cases if isinstance(executable, Dispatch) else ():
        yield from _whole_model_programs(case)


def bindings_of(specs: Sequence[TensorSpec]) -> list[tuple[str, str]]:
    """Names and dtypes of inputs or outputs."""
    return [(spec.name, spec.dtype.name) for spec in specs]
