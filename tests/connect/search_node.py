"""An OpenSearch of one node: its jars, its command, and calls to it."""

import json
import os
import shutil
import urllib.request
from pathlib import Path

from tests.java_tools import QUICK

HERE = Path(__file__).resolve().parent


def jars():
    """The folder of OpenSearch's jars, None where there is none."""
    for folder in (os.environ.get("OTTLA_OPENSEARCH_JARS"), HERE.parents[1] / ".cache" / "opensearch" / "libs"):
        if folder and shutil.which("java") and (Path(folder) / "opensearch-2.19.6.jar").exists():
            return Path(folder)
    return None


def node_command(home):
    """The command that runs a node with its data in a folder; it prints its port."""
    home.mkdir(exist_ok=True)
    node = HERE / "plugins" / "search" / "MiniOpenSearch.java"
    return ["java", *QUICK, f"-Dopensearch.path.home={home}", "-cp", f"{jars()}/*", str(node), str(home)]


def asked(url, path, method="GET", body=None):
    """The answer of a node, from JSON."""
    request = urllib.request.Request(
        url + path, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"},
        method=method,
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
