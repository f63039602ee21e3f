"""After a process has used up its file descriptors, the store continues once some are free."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCE = """
import contextlib, os, queue, resource
from ottla.coordination.sqlite import SqliteCoordination
from ottla.kernel.seams import Written

callbacks = queue.SimpleQueue()

def answered(slot):
    while not slot.full:
        callbacks.get(timeout=60)()
    return slot

def wait(slot):
    return answered(slot).result()

def look_and_say(what):
    ours.look_now()
    answered(ours.head())  # perhaps by an error; the look comes first
    print(what, sorted(ours.live()), flush=True)

ours = SqliteCoordination({directory!r}, 1, callbacks.put)
other = SqliteCoordination({directory!r}, 2, callbacks.put)
assert isinstance(wait(ours.append([b"one"], 0)), Written)
look_and_say("before")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
with contextlib.suppress(OSError):
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
look_and_say("without")
other._doorbell.ring()
while taken:
    os.close(taken.pop())
assert isinstance(wait(ours.append([b"two"], 1)), Written)
other.close()
assert wait(ours.head()) == 2
ours.look_now()
wait(ours.head())
print("after", sorted(ours.live()), flush=True)
ours.close()
"""


def test_nobody_is_thought_dead_and_the_store_goes_on(tmp_path: Path):
    source = SOURCE.format(directory=str(tmp_path / "metadata"))
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == ["before [1, 2]", "without [1, 2]", "after [1]"]


def test_an_append_that_is_written_is_answered_although_nobody_can_be_told(tmp_path: Path):
    """Otherwise the command would be decided again on top of its own result."""
    source = SOURCE.format(directory=str(tmp_path / "metadata")).partition("resource.setrlimit")[0]
    source += """
listdir = os.listdir
def none_left(path):
    raise OSError(24, "Too many open files")
os.listdir = none_left
assert isinstance(wait(ours.append([b"two"], 1)), Written)
os.listdir = listdir
other.close()
ours.close()
"""
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
