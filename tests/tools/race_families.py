"""A small machine of its own for tests of `bench.others`: a family that is watched, and processes beside it.

`python race_families.py CASE` prints the ticks that others used. The outermost process adopts like init, and only its
descendants are looked at, so that nothing else on the real machine counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.keeper import kept  # noqa: E402
from bench.others import Others, Process, family_of, processes_now  # noqa: E402

BURN = "import time\nwhile time.process_time() < 0.4: pass\n"
PARENT_THAT_ENDS = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {BURN!r}]).pid)"
PARENT_THAT_NEVER_WAITS = (
    "import signal, subprocess, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    f"child = subprocess.Popen([sys.executable, '-c', {BURN!r}])\nprint(child.pid, flush=True); sys.stdin.read()"
)


def watch(init: int, case: str) -> int:
    """Start the watched family as a process of its own, and be the others beside it."""
    command = [sys.executable, __file__, case, str(init)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as family:
        assert family.stdin is not None and family.stdout is not None
        family.stdout.readline()
        if case == "others-end":
            subprocess.run([sys.executable, "-c", BURN], check=True)
        if case == "others-live":
            command = [sys.executable, "-c", BURN + "print(flush=True); input()"]
            other = subprocess.Popen(command, stdin=-1, stdout=-1, start_new_session=True)
            assert other.stdout is not None
            other.stdout.readline()
        print(family.communicate("go on\n")[0].strip())
        if case == "others-live":
            other.communicate(b"\n")
    return family.returncode


def look(init: int, case: str, root: int) -> int:
    """The watched family: look, let descendants end or others work, look again."""
    others = Others(root)
    others.look(machine(init))
    print("looking", flush=True)
    if case == "ours-adopted":
        command = [sys.executable, "-c", PARENT_THAT_ENDS]
        wait_for_end(int(subprocess.check_output(command, start_new_session=True)))
    if case == "ours-unwaited":
        with subprocess.Popen([sys.executable, "-c", PARENT_THAT_NEVER_WAITS], stdin=-1, stdout=-1) as parent:
            assert parent.stdout is not None
            wait_for_end(int(parent.stdout.readline()))
            parent.communicate()
    sys.stdin.readline()
    others.look(machine(init))
    print(others.ticks, flush=True)
    return 0


def machine(init: int) -> dict[int, Process]:
    processes = processes_now()
    return {pid: processes[pid] for pid, _ in family_of(init, processes)}


def wait_for_end(pid: int) -> None:
    """Return once the process is neither running nor waiting to be reaped."""
    while pid in processes_now():
        os.sched_yield()


if __name__ == "__main__":
    name, *init_pid = sys.argv[1:]
    if init_pid:
        sys.exit(kept(lambda root: look(int(init_pid[0]), name, root)))
    sys.exit(kept(lambda root: watch(root, name)))
