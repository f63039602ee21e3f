"""A standalone Spark cluster on this machine whose driver and workers each have their own Python environment.

Each environment has ottla from a wheel, and the packages that it needs from the environment that runs the tests. The
PATH of a process selects its environment: all call their Python `ottla-python`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
from tests.java_tools import QUICK_SPARK
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
PYTHON = "ottla-python"
WITHOUT_OTTLA = "ottla-python-without-ottla"
OTHER_MINOR = "ottla-python-of-another-minor"
OTHER_VERSION = """
import collections, sys
kind = collections.namedtuple("version_info", "major minor micro releaselevel serial")
sys.version_info = kind(3, sys.version_info.minor + 1, 0, "final", 0)
"""
"""Spark's worker compares the version before anything else, so only the number has to differ."""


def built_wheel(folder: Path) -> Path:
    """The wheel of this tree, built from a copy: a build leaves files behind."""
    copy = folder / "tree"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, str(copy)], check=True, timeout=120, capture_output=True)
    [wheel] = folder.glob("ottla-*.whl")
    return wheel


def environment(home: Path, wheel: Path) -> Path:
    """Make an environment with ottla from the wheel, and two wrong ones; return the folder of its programs."""
    programs = virtual_environment(home / "right", PYTHON, wheel)
    for name, found in ((WITHOUT_OTTLA, None), (OTHER_MINOR, wheel)):
        other, script = virtual_environment(home / name, name, found), programs / name
        script.write_text(f'#!/bin/sh\nexec {other / name} "$@"\n')
        script.chmod(0o755)
    packages = _packages(home / OTHER_MINOR)
    (packages / "another_minor.py").write_text(OTHER_VERSION)
    (packages / "another_minor.pth").write_text("import another_minor\n")  # Debian has a sitecustomize of its own
    return programs


def virtual_environment(home: Path, name: str, wheel: Path | None, *, shared: bool = True) -> Path:
    """Make a virtual environment; return the folder of its programs, in which Python has this name."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True, timeout=60)
    (home / "bin" / name).symlink_to(sys.executable)
    packages = _packages(home)
    # A folder named in a .pth file is searched, but .pth files in it are not read: no editable ottla comes with it.
    if shared:
        (packages / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    if wheel is not None:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    return home / "bin"


def _packages(home: Path) -> Path:
    return home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


@dataclass(slots=True)
class Standalone:
    """A master and its workers."""

    folder: Path
    eventually: Callable[[Callable[[], bool]], None]
    environment: dict[str, str] = field(default_factory=dict)
    """Additional environment variables, by which executors find stores."""
    wheel: Path = Path()
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """The master, then workers, the oldest first."""
    port: int = 0
    _launched: int = 0

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the master, then two workers; build the wheel meanwhile."""
        self.port = free_port()
        self._launch("master.Master", "--port", str(self.port), "--webui-port", str(free_port()), path=[])
        self.wheel = built_wheel(self.folder)
        homes = [environment(self.folder / f"worker-{number}", self.wheel) for number in (1, 2)]
        self.eventually(lambda: listening(self.port))
        for home in homes:
            self._launch_worker(home)
        self._registered()

    def add_worker(self) -> None:
        """Start one more worker, in an environment of its own."""
        self._launch_worker(environment(self.folder / f"worker-{self._launched}", self.wheel))
        self._registered()

    def kill_worker(self) -> None:
        """Kill the oldest worker and all processes below it."""
        worker = self.processes.pop(1)
        for process in [worker.pid, *descendants(worker.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        worker.wait(120)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(120)

    def _launch_worker(self, programs: Path) -> None:
        options = ["--cores", "2", "--memory", "2g", "--webui-port", str(free_port())]
        options += ["--work-dir", str(self.folder / f"work-{self._launched}"), self.master]
        self._launch("worker.Worker", *options, path=[programs])

    def _registered(self) -> None:
        wanted = self._launched - 1
        self.eventually(lambda: self._log(0).read_text().count("Registering worker") == wanted)

    def _log(self, number: int) -> Path:
        return self.folder / f"process-{number}.log"

    def _launch(self, role: str, *arguments: str, path: list[Path]) -> None:
        with self._log(self._launched).open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", "--host", "127.0.0.1",
                     *arguments],
                    env={**bare_environment(path), **self.environment},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )  # fmt: skip
        self._launched += 1


def bare_environment(path: list[Path]) -> dict[str, str]:
    """This process's environment without its own Python's, and with these folders first on the PATH."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    folders = os.pathsep.join([*map(str, path), os.environ["PATH"]])
    spark = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": QUICK_SPARK}
    return {**kept, "PATH": folders, **spark}


def descendants(pid: int) -> Iterator[int]:
    """The processes below one."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield int(child)
                yield from descendants(int(child))


def listening(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
