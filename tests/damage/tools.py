"""The commands that an administrator runs after damage: `ottla log check` before the start, `ottla doctor` after it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.damage.brokers import OBEY_MODES
from tests.damage.values import Told
from tests.forked_program import run_program

_WITHIN_S = 60


def log_check(directory: Path) -> Told:
    """Run `ottla log check` on the log directory of a stopped broker."""
    return _run("log", "check", str(directory))


def doctor(bootstrap: str) -> Told:
    return _run("doctor", "-b", bootstrap)


def _run(*words: str) -> Told:
    """Run a command as the brokers are run: file modes bind root too."""
    ran = run_program([*words], environment={**os.environ, "NO_COLOR": "1"}, timeout_s=_WITHIN_S, before=OBEY_MODES)
    return Told(ran.returncode, (ran.stdout + ran.stderr).decode(errors="replace"))
