"""Programs that take signals as if started from a terminal, and programs that end with the run that started them."""

import contextlib
import ctypes
import signal
import sys
from collections.abc import Callable, Sequence

_PR_SET_PDEATHSIG = 1
_START = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def from_a_terminal(command: Sequence[str]) -> list[str]:
    """The command, to be run so that signals act on it: a suite under `nohup` hands ignored ones on."""
    return [sys.executable, "-c", _START, *command]


def ending_with_parent(number: signal.Signals) -> Callable[[], None]:
    """A `preexec_fn` by which the kernel sends the program a signal when its parent ends, even by `kill -9`.

    The signal acts, also where the suite ignores it, as under `nohup`.
    """
    kernel = ctypes.CDLL(None)

    def ask() -> None:
        signal.signal(number, signal.SIG_DFL)
        with contextlib.suppress(AttributeError):  # another system than Linux
            kernel.prctl(_PR_SET_PDEATHSIG, number)

    return ask
