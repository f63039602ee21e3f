"""`ottla cluster up` and `down`: the options of brokers on this machine. server/cluster_up.py runs them."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

from ottla.cli.command import Command
from ottla.cli.connect import client_settings, read_properties
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
from ottla.cli.secure_folder import CLIENT, SERVER, SecureFolder
from ottla.cli.secure_making import init, set_address
from ottla.cli.secure_texts import ADMIN, LISTENER, BrokerPlace
from ottla.cli.start import LOG_LEVEL, SET
from ottla.server.cluster_down import down
from ottla.server.cluster_up import DEFAULT_DATA, UpOptions, up

_LEAST_MS = 1000
_SECURE = "secure"


def _up(given: Given) -> int:
    secured: dict[str, Any] = _secured(given.need("data")) if "secure" in given else {}
    return up(
        UpOptions(
            **secured,
            brokers=given.count("brokers"),
            data=given.need("data"),
            port=given.number("port"),
            zookeeper=given.text("zookeeper"),
            restart="no-restart" not in given,
            set=given.all("set"),
            log_level=given.need("log-level"),
            format=given.need("format"),
        )
    )


def _secured(data: str) -> dict[str, Any]:
    """The options of a cluster whose folder has that of `ottla secure`, which is made where it is not there."""
    folder = SecureFolder(os.path.join(data, _SECURE))
    if not folder.has(SERVER):
        init(folder, BrokerPlace((), 0), ())
        sys.stderr.write(f"ottla: made {folder.directory}: an authority, a certificate, and the user {ADMIN}\n")
    client = folder.user_path(ADMIN, CLIENT)
    security = client_settings(read_properties(client)).security
    return {
        "config": folder.path(SERVER),
        "listener": LISTENER,
        "client": client,
        "security": security,
        "tell_addresses": partial(set_address, folder),
    }


def _down(given: Given) -> int:
    timeout_ms = given.duration_ms("timeout") or 0
    if timeout_ms < _LEAST_MS:
        raise Misuse(f"--timeout {given.text('timeout')}: at least 1 s is possible")
    return down(given.need("data"), timeout_ms / 1000)


UP = Command(
    "ottla cluster up [--brokers N] [--data DIR] [--port BASE]",
    "Run a cluster of brokers on this machine until Ctrl-C or `ottla cluster down`.\n\n"
    "From three brokers on, topics have three replicas and min.insync.replicas is 2, unless --set says otherwise.\n"
    "--format text is a table on a terminal and lines elsewhere; json is an object a line.",
    _up,
    [
        Option("brokers", "The number of brokers.", "N", "Integer", default="3"),
        Option("data", "Where data lives.", "DIR", default=DEFAULT_DATA),
        Option(
            "port",
            "Brokers listen on BASE, BASE+1 and so on; 0: on free ports; both are kept for the next time. Default: "
            "those kept from the last time, else 9092 and so on where they are free.",
            "BASE",
            "Integer",
        ),
        Option("zookeeper", "Keep the metadata in a ZooKeeper ensemble, not in DIR/store.", "HOSTS[/CHROOT]"),
        Option(
            "secure",
            f"Encrypt, and let in those who have a password, by the folder DIR/{_SECURE} of `ottla secure`. It is made "
            "where it is not there.",
        ),
        Option("no-restart", "Leave a broker that died dead."),
        SET,
        LOG_LEVEL,
    ],
    connects=False,
)

DOWN = Command(
    "ottla cluster down [--data DIR]",
    "End the cluster that `ottla cluster up` runs on this machine, in another terminal or in the background: every "
    "broker hands over what it leads and stops.",
    _down,
    [
        Option("data", "Where its data lives.", "DIR", default=DEFAULT_DATA),
        Option(
            "timeout",
            "Give up where the cluster is silent for so long.",
            "TIME",
            "Duration",
            default="60s",
            bare="s",
        ),
    ],
    has_json=False,
    connects=False,
)
