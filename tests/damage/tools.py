"""The commands that an administrator runs after damage: `ottla log check` before the start, `ottla doctor` after it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.damage.brokers import LAUNCH
from tests.damage.values import Told

_WITHIN_S = 60


def log_check(directory: Path) -> Told:
    """Run `ottla log check` on the log directory of a stopped broker."""
    return _run("log", "check", str(directory))


def doctor(bootstrap: str) -> Told:
    return _run("doctor", "-b", bootstrap)


def _run(*words: str) -> Told:
    """Run a command as the brokers are run: file modes bind root too."""
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCH] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*launcher, sys.executable, "-m", "ottla", *words],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_WITHIN_S,
        env={**os.environ, "NO_COLOR": "1"},
        check=False,
    )
    return Told(done.returncode, done.stdout + done.stderr)
