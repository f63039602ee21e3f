"""The ports that `--port 0` was given, by listener name: a small file in the data directory, so that they last.

It is no more than a convenience: where it is damaged that is said, a free port is taken, and the file is written anew.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress

log = logging.getLogger("ottla.server")
PORT_FILE = "port"
_LARGEST = 65_535
_ASIDE = ".aside"


def kept_ports(directory: str) -> dict[str, int]:
    """None of those that cannot be read is among them."""
    path = os.path.join(directory, PORT_FILE)
    kept: dict[str, int] = {}
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.split() for line in file if line.strip()]
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as fault:
        log.warning("%s cannot be read (%s): a free port is taken, and clients are to be told of it", path, fault)
        return {}
    for words in lines:
        if len(words) == 2 and words[1].isascii() and words[1].isdecimal() and 0 < int(words[1]) <= _LARGEST:
            kept[words[0]] = int(words[1])
        else:
            log.warning("%s is damaged: %r is no port of a listener, and a free one is taken", path, " ".join(words))
    return kept


def keep_port(directory: str, name: str, port: int) -> None:
    """Write it down beside the others; what stands in the way of the file is renamed."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, PORT_FILE)
    kept: dict[str, int] = {}
    if os.path.isdir(path):
        os.rename(path, path + _ASIDE)
    else:
        with suppress(OSError):
            kept = kept_ports(directory)
    kept[name] = port
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.writelines(f"{each} {number}\n" for each, number in sorted(kept.items()))
    os.replace(path + ".tmp", path)
