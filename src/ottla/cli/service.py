"""`ottla service install`: units for systemd, with the user, the folders and the example configuration that they need.

The units give each program no more than it uses: no other user's files, no devices, no kernel settings, no privileges.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.cli.command import Command, noun, print_json, wants_json
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option, nearest_word

_UNIT = """\
[Unit]
Description={about}
Documentation=file:///usr/share/doc/ottla/README.md
After=network-online.target{after}
Wants=network-online.target

[Service]
Type=exec
User={user}
Group={user}
ExecStart={program} {arguments}
Restart=on-failure
RestartSec=2
TimeoutStopSec=120
LimitNOFILE=1048576
UMask=0027
StateDirectory=ottla
StateDirectoryMode=0750
ConfigurationDirectory=ottla
WorkingDirectory=/var/lib/ottla
ReadWritePaths={data}

NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
CapabilityBoundingSet=
AmbientCapabilities=
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""

_SERVER_PROPERTIES = """\
# Options of the broker, by Apache Kafka's names. Every option: `ottla config get broker 1 --all` while it runs.
node.id=1
log.dirs={data}

# Only this machine is served. Before others are: `ottla secure init`, or the page on security.
listeners=PLAINTEXT://127.0.0.1:9092
"""

_WORKER_PROPERTIES = """\
# A worker of Connect, by Apache Kafka's names.
bootstrap.servers=127.0.0.1:9092
group.id=connect-cluster
config.storage.topic=connect-configs
offset.storage.topic=connect-offsets
status.storage.topic=connect-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
listeners=http://127.0.0.1:8083
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that systemd runs: its unit, what it is, its arguments, and the example of its configuration."""

    unit: str
    about: str
    arguments: str
    configuration: tuple[str, str] | None = None


PROGRAMS = {
    "broker": Program(
        "ottla.service",
        "ottla, a distributed commit log",
        "start --config /etc/ottla/server.properties",
        ("server.properties", _SERVER_PROPERTIES),
    ),
    "registry": Program(
        "ottla-registry.service", "ottla's schema registry", "registry start -b 127.0.0.1:9092 --port 8081"
    ),
    "connect": Program(
        "ottla-connect.service",
        "a worker of ottla's Connect",
        "connect start /etc/ottla/connect-distributed.properties",
        ("connect-distributed.properties", _WORKER_PROPERTIES),
    ),
}


def command(arguments: Sequence[str]) -> int:
    return noun("service", VERBS, arguments)


def files(names: Sequence[str], *, program: str, user: str, data: str) -> dict[str, str]:
    """The files to write, by absolute path: units, the user, the folders, configurations."""
    written = {
        "/usr/lib/sysusers.d/ottla.conf": f'u {user} - "ottla" /var/lib/ottla\n',
        "/usr/lib/tmpfiles.d/ottla.conf": (
            f"d {data} 0750 {user} {user} -\nd /etc/ottla 0750 root {user} -\n"
            + "".join(f"z {_configured(name)} 0640 root {user} -\n" for name in names if PROGRAMS[name].configuration)
        ),
    }
    for name in names:
        one = PROGRAMS[name]
        after = "" if name == "broker" else " ottla.service"
        unit = _UNIT.format(
            about=one.about, after=after, user=user, program=program, arguments=one.arguments, data=data
        )
        written[f"/usr/lib/systemd/system/{one.unit}"] = unit
        if one.configuration is not None:
            written[_configured(name)] = one.configuration[1].format(data=data)
    return written


def _configured(name: str) -> str:
    configuration = PROGRAMS[name].configuration
    assert configuration is not None
    return f"/etc/ottla/{configuration[0]}"


def _install(given: Given) -> int:
    names = given.words or ("broker",)
    for name in names:
        if name not in PROGRAMS:
            nearest = nearest_word(name, list(PROGRAMS))
            raise Misuse(f"there is no service {name}; " + (f"did you mean {nearest}?" if nearest else "see --help"))
    program = given.text("program") or shutil.which("ottla") or sys.argv[0]
    data = given.need("data")
    for path, what in ((program, "--program"), (data, "--data")):
        if not path.startswith("/") or any(character.isspace() or character in '%"\\' for character in path):
            raise Misuse(f"{what} {path}: give an absolute path without blanks, quotes, % or backslashes")
    root = Path(given.need("root"))
    written, kept = [], []
    for name, text in files(names, program=program, user=given.need("user"), data=data).items():
        file = root / name.removeprefix("/")
        if name.startswith("/etc/") and file.exists():
            kept.append(str(file))
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        written.append(str(file))
    if wants_json(given):
        print_json({"written": written, "kept": kept})
        return 0
    sys.stdout.write("".join(f"wrote  {path}\n" for path in written))
    sys.stdout.write("".join(f"kept   {path}, which was there\n" for path in kept))
    units = " ".join(PROGRAMS[name].unit for name in names)
    sys.stdout.write(
        "next:  systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload\n"
        f"       systemctl enable --now {units}\n"
    )
    return 0


VERBS = {
    "install": Command(
        "ottla service install [SERVICE...]",
        "Write systemd units, their user, folders and example configurations. SERVICE is broker, registry or connect; "
        "without any, the broker's are written. Files under /etc that are there are kept.",
        _install,
        [
            Option("root", "Write below this folder instead, as packages do.", "DIR", default="/"),
            Option("program", "The program to run. Default: ottla, where the shell finds it.", "PATH"),
            Option("user", "The user that it runs as.", "NAME", default="ottla"),
            Option("data", "Where data lives.", "DIR", default="/var/lib/ottla"),
        ],
        words=(0, len(PROGRAMS)),
        connects=False,
    )
}
