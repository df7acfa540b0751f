"""How many processors are used, and which: files of `/proc` and `/sys` as different machines have
them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ricci.runtime import processors


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight processors on four cores, two cores a node; nothing said about time."""
    monkeypatch.setattr(processors, "ROOT", tmp_path)
    monkeypatch.setattr(processors, "allowed_cpus", lambda: list(range(8)))
    monkeypatch.setattr(processors, "current_cpu", lambda: 2)
    for cpu in range(8):
        first = cpu // 2 * 2
        write(
            tmp_path,
            f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list",
            f"{first}-{first + 1}",
        )
    write(tmp_path, "sys/devices/system/node/node0/cpulist", "4-7")
    write(tmp_path, "sys/devices/system/node/node1/cpulist", "0-2,3")
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def test_one_thread_a_core(machine: Path) -> None:
    assert processors.physical_cores() == [0, 2, 4, 6]
    assert processors.usable_count() == 4


@pytest.mark.parametrize(("time", "count"), [("250000", 3), ("10000", 1), ("max", 4), ("x", 4)])
def test_time_of_a_control_group(machine: Path, time: str, count: int) -> None:
    write(machine, "proc/self/cgroup", "0::/docker/a")
    write(machine, "sys/fs/cgroup/docker/a/cpu.max", f"{time} 100000")
    assert processors.usable_count() == count


def test_time_of_the_group_around(machine: Path) -> None:
    write(machine, "proc/self/cgroup", "0::/docker/a")
    write(machine, "sys/fs/cgroup/docker/cpu.max", "200000 100000")
    write(machine, "sys/fs/cgroup/docker/a/cpu.max", "300000 100000")
    assert processors.quota() == 2.0


@pytest.mark.parametrize("name", ["cpu,cpuacct", "cpu"])
def test_time_of_an_older_control_group(machine: Path, name: str) -> None:
    write(machine, "proc/self/cgroup", "4:memory:/b\n3:cpu,cpuacct:/b\n1:name=systemd:/")
    write(machine, f"sys/fs/cgroup/{name}/b/cpu.cfs_quota_us", "150000")
    write(machine, f"sys/fs/cgroup/{name}/b/cpu.cfs_period_us", "100000")
    write(machine, f"sys/fs/cgroup/{name}/cpu.cfs_quota_us", "-1")
    assert processors.quota() == 1.5
    assert processors.usable_count() == 2


def test_no_time_that_makes_sense(machine: Path) -> None:
    write(machine, "proc/self/cgroup", "0::/a\nnonsense\n")
    for text in ("0 100000", "100000 0", "1 2 3", "-1 100000"):
        write(machine, "sys/fs/cgroup/a/cpu.max", text)
        assert processors.quota() is None


def test_workers_are_near_the_caller(machine: Path) -> None:
    assert processors.worker_cpus(3) == [0, 4, 6]
    assert processors.worker_cpus(7) == [0, 1, 3, 4, 5, 6, 7]
    assert processors.worker_cpus(9) == [0, 1, 3, 4, 5, 6, 7, -1, -1]
