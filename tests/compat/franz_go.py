"""The program of the folder `go` on franz-go, compiled by the Go that `tools/setup.sh go` puts under .cache."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
import reaching

from ottla.client.blocking.admin import Admin

SOURCE = Path(__file__).parent / "go"
GO = SOURCE.parents[2] / ".cache" / "go" / "go" / "bin" / "go"


def go(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(GO), *arguments], cwd=SOURCE, capture_output=True, text=True, check=False)


def compiled(program: Path) -> Path:
    """The program, or a skip where Go or the modules cannot be had."""
    if not GO.exists():
        pytest.skip("no Go under .cache: run `tools/setup.sh go`")
    fetched = go("mod", "download")
    if fetched.returncode != 0:
        print(fetched.stderr.strip()[-300:])
        pytest.skip("Go's modules cannot be fetched")
    built = go("build", "-buildvcs=false", "-o", str(program), ".")
    assert built.returncode == 0, built.stderr[-3000:]
    return program


def command(program: Path, bootstrap: str, name: str, brokers: int, scene: str) -> Sequence[str]:
    return [str(program), bootstrap, name, str(brokers), scene]


def go_on_through(
    events: Iterable[Callable[[], object]], program: Path, bootstrap: str, name: str, brokers: int
) -> None:
    """Play the scene `failovers`: before the first event and after each, members commit what was written, and more."""
    with subprocess.Popen(
        command(program, bootstrap, name, brokers, "failovers"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as playing:
        assert playing.stdin is not None and playing.stdout is not None and playing.stderr is not None
        waiting = iter(events)
        while playing.stdout.readline() == "gone on\n":  # else it has ended, and says why below
            if (event := next(waiting, None)) is None:
                break
            event()
            print("go on", file=playing.stdin, flush=True)
        last, errors = playing.communicate(timeout=170)
        assert playing.returncode == 0, errors[-3000:]
        assert last.strip() == "all well"


def coordinator(bootstrap: str, group: str) -> int:
    """The broker that the cluster names as the group's coordinator."""
    with Admin(bootstrap, security=reaching.java()) as admin:
        return admin.cluster.run(admin.cluster.plan.coordinator(group)).id
