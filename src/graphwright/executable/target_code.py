"""What a program is on one target."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from graphwright.errors import Diagnostic, PackageError
from graphwright.executable.stored import StoredTasks
from graphwright.records import dataclass

if TYPE_CHECKING:
    from graphwright.lower.tasks import TaskGraph


@dataclass(frozen=True)
class TargetCode:
    """The tasks of a program for one target, and its generated kernels as binaries: shared objects on a CPU.

    ``sources`` are texts by file name: the C of ``objects[NAME]`` is ``NAME.c``, the loop IR that it was made
    from is ``NAME.loops``.
    """

    name: str
    """Of the target."""
    stored: StoredTasks
    """The tasks, as a package holds them."""
    objects: Mapping[str, bytes]
    sources: Mapping[str, str]
    library: str
    """The digest of the library whose kernels the tasks call; empty where they call none."""

    @cached_property
    def task_graph(self) -> TaskGraph:
        """The tasks, for those who look at them; what runs them reads :attr:`stored`. Raises PackageError."""
        try:
            return self.stored.task_graph()
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise PackageError(Diagnostic("damaged-package", f"the tasks are malformed: {error}")) from error
