"""The signals that ask a process of ours to stop."""

from __future__ import annotations

import signal


def stopping_signals() -> tuple[signal.Signals, ...]:
    """SIGTERM, SIGINT (Ctrl-C), and the SIGHUP of a terminal that closes, unless that is ignored, as under `nohup`."""
    always = (signal.SIGTERM, signal.SIGINT)
    return always if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*always, signal.SIGHUP)
