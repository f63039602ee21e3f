"""Tests of the programs that tests start: they end with the run, even when it is killed."""

import signal
import subprocess
import sys

_PARENT = """
import subprocess, sys, signal
from tests.signals import ending_with_parent
child = subprocess.Popen(["sleep", "600"], preexec_fn=ending_with_parent(signal.SIGQUIT))
print(child.pid, flush=True)
child.wait()
"""


def test_a_program_ends_when_the_run_that_started_it_is_killed():
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) > 0
        parent.send_signal(signal.SIGKILL)
        assert parent.stdout.read() == ""  # the program holds the pipe open for as long as it lives
