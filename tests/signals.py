"""Programs that take signals as one that was started from a terminal does."""

import sys
from collections.abc import Sequence

_START = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def from_a_terminal(command: Sequence[str]) -> list[str]:
    """The command, to be run so that signals act on it: a suite under `nohup` hands ignored ones on."""
    return [sys.executable, "-c", _START, *command]
