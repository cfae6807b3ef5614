"""The code of a program for one target."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from graphwright.errors import Diagnostic, PackageError
from graphwright.executable.stored import StoredTasks
from graphwright.records import dataclass

if TYPE_CHECKING:
    from graphwright.low_ir.tasks import TaskGraph


@dataclass(frozen=True)
class TargetCode:
    """The tasks of a program for one target, and its generated kernels as binaries: shared objects on a CPU.

    ``sources`` are texts by file name: the C of ``objects[NAME]`` is ``NAME.c``, the loop IR that it was made
    from is ``NAME.loops``.
    """

    name: str
    """The name of the target, such as ``v4``."""
    stored: StoredTasks
    """The tasks, as a package stores them."""
    objects: Mapping[str, bytes]
    sources: Mapping[str, str]
    library: str
    """The digest of the kernel library that the tasks call; empty if they call none."""

    @cached_property
    def task_graph(self) -> TaskGraph:
        """The tasks, decoded for inspection; running needs only :attr:`stored`. Raises PackageError."""
        try:
            return self.stored.task_graph()
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise PackageError(
                Diagnostic(
                    "damaged-package", f"the tasks are malformed: {error}", hint="compile the model again"
                )
            ) from error
