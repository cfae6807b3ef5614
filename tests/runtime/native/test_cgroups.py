"""CPU limits of cgroups, read from a folder made up like the kernel's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[3] / "src/graphwright/runtime/native"
MAIN = """
#include <stdio.h>
#include "cpu.h"
int main(int count, char **arguments) {
    if (count == 3)
        printf("%d", gw_cgroup_cpus(arguments[1], arguments[2]));
    return count != 3;
}
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cgroups")
    (folder / "main.c").write_text(MAIN)
    flags = ["-std=c11", "-D_GNU_SOURCE", "-fsanitize=address,undefined", "-Wall", "-Wextra", "-Werror"]
    sources = [folder / "main.c", NATIVE / "cpu.c"]
    subprocess.run(["gcc", *flags, f"-I{NATIVE}", "-o", folder / "reader", *sources], check=True)
    return folder / "reader"


def limit(reader: Path, folder: Path, membership: str, files: dict[str, str]) -> int:
    """CPUs, by a tree of ``files`` and what /proc/self/cgroup would say."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "membership").write_text(membership)
    command = [reader, folder, folder / "membership"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def first_version(folder: str, quota: int) -> dict[str, str]:
    return {f"{folder}cpu.cfs_quota_us": f"{quota}\n", f"{folder}cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("membership", "files", "cpus"),
    [
        ("0::/\n", {}, 0),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 0),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/a/b\n", {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "cpu.max": "200000 100000\n"}, 2),
        ("0::/not/mounted\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "nonsense\n"}, 0),
        ("0::/\n", {"cpu.max": "100000 0\n"}, 0),
        ("nonsense\n\n0::/\n", {"cpu.max": "100000 100000\n"}, 1),
        ("2:cpu,cpuacct:/a\n0::/\n", first_version("cpu/a/", 250000), 3),
        ("2:cpuacct,cpu:/a\n", first_version("cpu/", 100000), 1),
        ("2:cpu:/\n", first_version("cpu/", -1), 0),
        ("2:cpuset:/\n", first_version("cpu/", 100000), 0),
        ("0::/" + "a/" * 3000 + "\n", {"cpu.max": "100000 100000\n"}, 0),
    ],
)
def test_limits_of_cgroups_bound_the_number_of_threads(
    reader: Path, tmp_path: Path, membership: str, files: dict[str, str], cpus: int
) -> None:
    assert limit(reader, tmp_path, membership, files) == cpus


def test_without_a_cgroup_there_is_no_limit(reader: Path, tmp_path: Path) -> None:
    command = [reader, tmp_path, tmp_path / "absent"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"0"
