"""All connectors: those shipped, and those that installed packages offer as entry points `ottla.connect`.

A room above this one offers its connectors in the same way: it knows this room, and not the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from ottla.config.option import nearest
from ottla.connect.errors import ConfigException
from ottla.connect.plugins.base import Connector, SinkConnector, SourceConnector
from ottla.connect.plugins.binlog.source import MariaDbConnector
from ottla.connect.plugins.capture.postgres import PostgresConnector
from ottla.connect.plugins.directory.source import DirectorySourceConnector
from ottla.connect.plugins.file_stream import FileStreamSinkConnector, FileStreamSourceConnector
from ottla.connect.plugins.http.sink import HttpSinkConnector
from ottla.connect.plugins.http.source import HttpSourceConnector
from ottla.connect.plugins.http.webhook import WebhookSourceConnector
from ottla.connect.plugins.jdbc.sink import JdbcSinkConnector
from ottla.connect.plugins.jdbc.source import JdbcSourceConnector
from ottla.connect.plugins.mail.imap import ImapSourceConnector
from ottla.connect.plugins.otlp.source import OtlpSourceConnector
from ottla.connect.plugins.search.sink import SearchSinkConnector
from ottla.connect.plugins.syslog.source import SyslogSourceConnector

GROUP: Final = "ottla.connect"
"""The group of entry points; each is a class of a connector."""
AnyConnector = type[SourceConnector] | type[SinkConnector]
SHIPPED: Final[tuple[AnyConnector, ...]] = (
    FileStreamSourceConnector, FileStreamSinkConnector, JdbcSourceConnector, JdbcSinkConnector,
    DirectorySourceConnector, HttpSinkConnector, HttpSourceConnector, WebhookSourceConnector, PostgresConnector,
    MariaDbConnector,     SyslogSourceConnector, OtlpSourceConnector, ImapSourceConnector, SearchSinkConnector,
)  # fmt: skip
OFFERED: Final = tuple(
    EntryPoint(value.rpartition(":")[2], value, GROUP)
    for value in (
        "ottla.sinks.files.connectors:S3SinkConnector",
        "ottla.sinks.files.connectors:HdfsSinkConnector",
        "ottla.sinks.lake:LakeSinkConnector",
        "ottla.mirror.connectors:MirrorSourceConnector",
        "ottla.mirror.connectors:MirrorCheckpointConnector",
        "ottla.mirror.connectors:MirrorHeartbeatConnector",
    )
)
"""The entry points of rooms above, which are installed with this one."""


@cache
def connectors() -> dict[str, AnyConnector]:
    """All connectors by their class, in the order of their names; ConfigException for an entry point that is none."""
    found = {each.java_class: each for each in SHIPPED}
    for point in (*OFFERED, *entry_points(group=GROUP)):
        each = point.load()
        if not (isinstance(each, type) and issubclass(each, SourceConnector | SinkConnector)):
            raise ConfigException(
                f"the entry point {point.name} of {GROUP} is {each!r}: make it a SourceConnector or a SinkConnector"
            )
        found[each.java_class] = each
    return dict(sorted(found.items()))


def connector(name: str) -> AnyConnector:
    """The connector of a class, of the last part of its name, or of that without `Connector`, as in Kafka."""
    by_name = {known: each for each in connectors().values() for known in names(each)}
    if name not in by_name:
        raise ConfigException(
            f"Failed to find any class that implements Connector and which name matches {name}"
            f"{nearest(name, by_name)}, available connectors are: {', '.join(connectors())}"
        )
    return by_name[name]


def kind_of(config: Mapping[str, str] | None) -> str:
    """`source` or `sink`; `unknown` where the connector is gone, or its plugin is not installed here."""
    try:
        return connector((config or {}).get("connector.class", "")).kind
    except ConfigException:
        return "unknown"


def names(each: type[Connector]) -> list[str]:
    """All names of a connector."""
    found: list[str] = []
    for java_class in (each.java_class, *each.aliases):
        short = java_class.rpartition(".")[2]
        found += [java_class, short, short.removesuffix("Connector")]
    return list(dict.fromkeys(found))
