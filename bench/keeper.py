"""Keeps a family of processes together: a process that stays behind and adopts every descendant whose parent ended.

Otherwise such a process would become a child of init, where nobody could tell its time from that of others.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_CHILD_SUBREAPER = 36


def kept(work: Callable[[int], int]) -> int:
    """Run `work` in a child and return its exit status. It gets the pid of the process at the family's root.

    Both processes return from here, so call it as the last thing: `sys.exit(kept(main))`.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot adopt processes whose parent ended")
    root = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the child as well
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that it stops its brokers
        return work(root)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    return reap_until(child)


def reap_until(child: int) -> int:
    """Wait for every process that ends here, until the child has; return its status as a shell tells it."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
