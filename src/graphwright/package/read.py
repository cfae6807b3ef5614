"""Reading ``.om`` files. One that is not trusted contributes its graph and weights alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from graphwright.errors import Diagnostic, GraphwrightError, PackageError
from graphwright.executable.encode import decode
from graphwright.executable.nodes import Dispatch, Executable, Program, programs_of
from graphwright.executable.specs import TensorSpec, decode_spec
from graphwright.executable.stored import StoredTasks
from graphwright.executable.target_code import TargetCode
from graphwright.package.archive import Held, Later, Source, damaged, open_archive, read_archive, shown
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
from graphwright.package.packs import Packs
from graphwright.package.sign import is_signed
from graphwright.package.weights import Weights, no_weights, read_weights
from graphwright.records import dataclass

Members = Mapping[str, memoryview]
Kept = Mapping[str, Later | Held]
"""Members that are read when they are wanted."""


def _is_read_later(name: str) -> bool:
    return name.endswith(".safetensors") and name != WEIGHTS


@dataclass(frozen=True)
class _Checks:
    """Of the weights: of the bytes of each tensor against damage, and of whole members against any change."""

    tensors: bool
    weights: bool


def _packed_again(path: Path) -> Iterable[str]:
    """The ISAs for which weights of the package at ``path`` are packed again; faults show when it is read."""
    if not path.is_file():
        return ()
    try:
        packs = json.loads(bytes(read_archive(path, use_mmap=True)["manifest.json"]))["packs"]
    except (GraphwrightError, OSError, LookupError, TypeError, ValueError, RecursionError):
        return ()
    return packs if isinstance(packs, dict) else ()


class _Files:
    """Members as bytes and texts, each made once: variants share what they can."""

    def __init__(self, members: Members) -> None:
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
    """The package in ``source``. Its targets are read if ``trust`` or one of ``keys`` signed it.

    Weights are checked for damage where they are copied. ``verify`` checks them where they are mapped as
    well, and by their SHA-256, which shows any change. Everything else is always checked against the manifest
    so, and so are weights that are no floats: kernels compiled for them may rely on what they hold.
    ``isa`` is what will run: where weights are packed again for it, they stay in the file until then.
    Raises PackageError.
    """
    use_mmap = use_mmap or (isinstance(source, Path) and bool(isa) and isa in _packed_again(source))
    where = shown(source)
    found, later = open_archive(source, use_mmap=use_mmap, later=_is_read_later)
    members = {name: data if name == WEIGHTS else _own(data) for name, data in found.items()}
    try:
        checks = _Checks(tensors=verify or not use_mmap, weights=verify)
        return _package(members, later, where, trust, keys, checks)
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise damaged(where, f"{type(error).__name__}: {error}") from error


def _own(data: memoryview) -> memoryview:
    """``data`` as no one else can change it: what is checked is what is used."""
    return data if data.readonly else memoryview(bytes(data))


def _package(
    members: Members,
    later: Kept,
    where: str,
    trust: bool,
    keys: Sequence[bytes],
    checks: _Checks,
) -> Package:
    manifest = json.loads(bytes(members["manifest.json"]))
    _check_format(manifest, where)
    _check_members(manifest, members, later, where)
    signature = bytes(members.get("signature", b"")).decode("ascii")
    trusted = trust or is_signed(bytes(members["manifest.json"]), signature, keys)
    weights = read_weights(members[WEIGHTS]).with_own_indices()

    def graphs() -> str:
        return "\n".join(_text(members, plain, GRAPH) for plain in manifest["entries"])

    if checks.tensors:
        _check_tensors(weights, manifest["tensors"][WEIGHTS], graphs, where)
    if checks.weights:
        _check_weights(manifest, members, later, where)
    if weights.index_digest() != manifest["indices"]:
        raise damaged(where, "weights of integers were changed after they were written")
    files = _Files(members) if trusted else None
    entries = {str(plain["name"]): _entry(plain, members, files, where) for plain in manifest["entries"]}
    if not entries or len(entries) < len(manifest["entries"]):
        raise damaged(where, "it has no entries, or two of one name")
    _check_starts(entries.values(), weights, where)
    return Package(
        entries,
        weights,
        options={str(k): str(v) for k, v in manifest["options"].items()},
        plugins={str(k): str(v) for k, v in manifest["plugins"].items()},
        signature=signature,
        trusted=trusted,
        spare=_spare(later, manifest, graphs, where),
        packs={
            str(isa): Packs(plain, weights, _weights_of(later, str(isa), where))
            for isa, plain in (manifest["packs"] if trusted else {}).items()
        },
    )


def _check_starts(entries: Iterable[Entry], weights: Weights, where: str) -> None:
    """Raise PackageError where what a state starts as is not of its type."""
    for entry in entries:
        inputs = {spec.name: spec for spec in entry.inputs}
        for name, digest in entry.starts.items():
            spec, tensor = inputs[name], weights.tensors[digest]
            if tensor.dtype != spec.dtype or not spec.accepts(tensor.shape):
                raise damaged(where, f"state {name!r} starts as a tensor of another type")


def _text(members: Members, plain: dict[str, Any], file: str) -> str:
    """A text of an entry; empty where it has none."""
    return bytes(members.get(f"{folder_of(plain['name'])}/{file}", b"")).decode()


def _entry(plain: dict[str, Any], members: Members, files: _Files | None, where: str) -> Entry:
    """An entry; ``files`` are None where what runs is left in the file."""
    entry = Entry(
        graph=_text(members, plain, GRAPH),
        inputs=tuple(map(decode_spec, plain["inputs"])),
        outputs=tuple(map(decode_spec, plain["outputs"])),
        executable=None if files is None or plain["executable"] is None else _executable(plain, files),
        constraints=tuple(map(str, plain["constraints"])),
        general=_text(members, plain, GENERAL),
        metadata={str(k): str(v) for k, v in plain["metadata"].items()},
        report=_text(members, plain, REPORT),
        decisions=_text(members, plain, DECISIONS),
        remarks=_text(members, plain, REMARKS),
        starts={str(name): str(digest) for name, digest in plain["starts"].items()},
    )
    if not entry.graph:
        raise damaged(where, f"entry {plain['name']!r} has no graph")
    if entry.executable is not None:
        _check_ports(entry, entry.executable, where)
    return entry


def _executable(plain: dict[str, Any], files: _Files) -> Executable:
    """The executable, each program with its targets. A ValueError where they do not fit together."""
    folder, programs = folder_of(plain["name"]), plain["programs"]

    def targets(number: int) -> dict[str, TargetCode]:
        return _targets(programs[number], f"{folder}/{number}", files)

    executable = decode(plain["executable"], targets)
    for program in programs_of(executable):
        ports = _ports(program.inputs), _ports(program.outputs)
        if any(target.stored.ports != ports for target in program.targets.values()):
            raise ValueError("the inputs or outputs of a program are not those of its tasks")
    return executable


def _check_ports(entry: Entry, executable: Executable, where: str) -> None:
    """Raise PackageError where what runs, or what it chooses from, takes or gives other values than the
    entry says.
    """
    wanted = [dtype for _, dtype in (*_ports(entry.inputs), *_ports(entry.outputs))]
    if [dtype for _, dtype in (*_ports(executable.inputs), *_ports(executable.outputs))] != wanted:
        raise damaged(where, "the inputs or outputs of what runs are not those of the entry")
    names = [spec.name for spec in entry.inputs], [spec.name for spec in entry.outputs]
    for program in _chosen_from(executable):
        if ([spec.name for spec in program.inputs], [spec.name for spec in program.outputs]) != names:
            raise damaged(where, "a program names its inputs or outputs otherwise than the entry")


def _chosen_from(executable: Executable) -> Iterator[Program]:
    """The programs that run the whole model."""
    if isinstance(executable, Program):
        yield executable
    for case in executable.cases if isinstance(executable, Dispatch) else ():
        yield from _chosen_from(case)


def _check_format(manifest: dict[str, Any], where: str) -> None:
    if manifest["format"] != FORMAT:
        raise PackageError(
            Diagnostic(
                "package-version",
                f"the package has format {manifest['format']!r}, this version of graphwright reads {FORMAT}",
                where,
                "compile the model again with this version",
            )
        )


def _spare(
    later: Kept, manifest: dict[str, Any], graphs: Callable[[], str], where: str
) -> Callable[[], Weights]:
    """Reads the constants that the graph has beside the weights."""
    if SPARE not in later:
        return no_weights
    digests: Mapping[str, str] = manifest["tensors"][SPARE]

    def read() -> Weights:
        weights = _read_later(later[SPARE], SPARE, where)
        _check_tensors(weights, digests, graphs, where)
        return weights

    return read


def _weights_of(later: Kept, isa: str, where: str) -> Callable[[], Weights]:
    """Reads the weights of a further target that are its own; who makes all of its weights checks them."""
    name = own_weights(isa)
    return partial(_read_later, later[name], name, where) if name in later else no_weights


def _read_later(member: Later | Held, name: str, where: str) -> Weights:
    try:
        return read_weights(member.read())
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise damaged(where, f"member {name!r}: {error}") from error


def _check_members(manifest: dict[str, Any], members: Members, later: Kept, where: str) -> None:
    """Sizes of all members, and the contents of those that are no weights."""
    listed: dict[str, Any] = manifest["members"]
    sizes = {name: len(data) for name, data in members.items()}
    sizes |= {name: member.size for name, member in later.items()}
    if odd := sorted((set(sizes) - {"manifest.json", "signature"}) ^ set(listed)):
        raise damaged(where, f"members and manifest do not agree on {', '.join(odd[:5])}")
    for name, (size, digest) in listed.items():
        if sizes[name] != size:
            raise damaged(where, f"member {name!r} has {sizes[name]} bytes instead of {size}")
        if name != WEIGHTS and name not in later:
            _check_digest(name, members[name], digest, where)


def _check_weights(manifest: dict[str, Any], members: Members, later: Kept, where: str) -> None:
    """The contents of the members that are weights."""
    listed: dict[str, Any] = manifest["members"]
    _check_digest(WEIGHTS, members[WEIGHTS], listed[WEIGHTS][1], where)
    for name, member in later.items():
        _check_digest(name, member.read(), listed[name][1], where)


def _check_digest(name: str, data: memoryview, digest: str, where: str) -> None:
    if hashlib.sha256(data).hexdigest() != digest:
        raise damaged(where, f"member {name!r} was changed after it was written")


def _check_tensors(
    weights: Weights, digests: Mapping[str, str], graphs: Callable[[], str], where: str
) -> None:
    """Raise PackageError where bytes of tensors are not what was written, with the names of the tensors."""
    found = weights.digests()
    if odd := [name for name, digest in found.items() if digests.get(name) != digest]:
        graph = graphs()
        shown = ", ".join(_name_of(name, graph) for name in odd[:5])
        more = f" and {len(odd) - 5} more" if len(odd) > 5 else ""
        message = f"weights are damaged: {shown}{more}, of {len(found)} tensors"
        raise PackageError(Diagnostic("damaged-weights", message, where, "copy or fetch the file again"))


def _name_of(digest: str, graph: str) -> str:
    """What the graph's text calls a tensor, or the nodes that it belongs to, or else the tensor's digest."""
    for line in graph.splitlines():
        value, is_constant, rest = line.partition(" = Constant[value=#")
        short = rest.partition("]")[0]
        if is_constant and short and digest.startswith(short):
            name = rest.partition(' name "')[2].partition('"')[0] or value.strip().removeprefix("%")
            return f"one of {rest.partition(' from ')[2]}" if name.isdigit() else repr(name)
    return digest


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


def _ports(specs: Sequence[TensorSpec]) -> list[tuple[str, str]]:
    return [(spec.name, spec.dtype.name) for spec in specs]
