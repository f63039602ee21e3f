"""Lists where the open descriptors of this process lead."""

import os
from pathlib import Path


def descriptors() -> list[str]:
    """Returns where each open descriptor leads: a path, or `socket:[inode]` and the like.

    Other threads of the process open and close files meanwhile: a test counts the ones that lead to its own files,
    never all of them.
    """
    targets = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            targets.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
    return targets
