"""The options of the sink for Elasticsearch and OpenSearch, by Confluent's names and defaults."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from ottla.connect.checks import between, one_of
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.errors import ConfigException

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _urls(name: str, value: Any) -> None:
    for each in value or ():
        parts = urlsplit(each)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ConfigException.of(name, each, "write http://HOST:PORT; the user goes into connection.username")
        try:
            _ = parts.port
        except ValueError as fault:
            raise ConfigException.of(name, each, str(fault)) from None
    if not value:
        raise ConfigException.of(name, value, "name at least one address")


OPTIONS: Final = ConfigDef(
    Option("connection.url", Type.LIST, importance=_HIGH, doc="Addresses of the cluster; the next one is asked where "
           "one does not answer.", check=_urls),
    Option("connection.username", Type.STRING, None, _MEDIUM, "The user."),
    Option("connection.password", Type.PASSWORD, None, _MEDIUM, "The user's password."),
    Option("connection.compression", Type.BOOLEAN, False, _LOW, "Pack requests by gzip."),
    Option("connection.timeout.ms", Type.INT, 1000, _LOW, "The longest wait for a connection.", between(1)),
    Option("read.timeout.ms", Type.INT, 3000, _LOW, "The longest wait for an answer.", between(1)),
    Option("key.ignore", Type.BOOLEAN, False, _HIGH, "true: a document's id is topic+partition+offset, so each record "
           "is a document. false: the record's key is the id."),
    Option("topic.key.ignore", Type.LIST, [], _LOW, "Topics for which key.ignore is true."),
    Option("schema.ignore", Type.BOOLEAN, False, _HIGH, "false: an index that is new gets the mapping of the records' "
           "schema. true: the server guesses."),
    Option("topic.schema.ignore", Type.LIST, [], _LOW, "Topics for which schema.ignore is true."),
    Option("compact.map.entries", Type.BOOLEAN, True, _LOW, "Write maps with text for keys as objects."),
    Option("drop.invalid.message", Type.BOOLEAN, False, _LOW, "Leave out records that cannot be documents, with a log "
           "line."),
    Option("behavior.on.null.values", Type.STRING, "FAIL", _LOW, "A record without a value: ignore it, delete the "
           "document of its key, or fail.", one_of("ignore", "delete", "fail", any_case=True)),
    Option("behavior.on.malformed.documents", Type.STRING, "FAIL", _LOW, "A document that the server refuses: ignore "
           "it, warn, or fail.", one_of("ignore", "warn", "fail", any_case=True)),
    Option("write.method", Type.STRING, "INSERT", _LOW, "INSERT replaces documents, UPSERT merges fields into them.",
           one_of("INSERT", "UPSERT", any_case=True)),
    Option("external.version.header", Type.STRING, "", _LOW, "The header with a document's version; its offset by "
           "default."),
    Option("batch.size", Type.INT, 2000, _MEDIUM, "The most records of one request.", between(1, 1_000_000)),
    Option("bulk.size.bytes", Type.LONG, 5 << 20, _LOW, "The most bytes of one request.", between(1)),
    Option("max.in.flight.requests", Type.INT, 5, _MEDIUM, "Requests at the same time; 1 with UPSERT.",
           between(1, 1000)),
    Option("max.retries", Type.INT, 5, _LOW, "How often a request that may pass is sent again.", between(0)),
    Option("retry.backoff.ms", Type.LONG, 100, _LOW, "The wait before the first repetition; it doubles.", between(0)),
    Option("data.stream.type", Type.STRING, "NONE", _LOW, "Write into a data stream: logs or metrics.",
           one_of("LOGS", "METRICS", "NONE", any_case=True)),
    Option("data.stream.dataset", Type.STRING, "", _LOW, "The second part of the data stream's name."),
    Option("data.stream.namespace", Type.STRING, "${topic}", _LOW, "The third part of the data stream's name."),
    Option("data.stream.timestamp.field", Type.LIST, [], _LOW, "Fields for @timestamp, the first that is there; else "
           "the record's time."),
    Option("linger.ms", Type.LONG, 1, _LOW, "Has no effect: requests leave at once."),
    Option("flush.timeout.ms", Type.LONG, 180_000, _LOW, "Has no effect: a flush has nothing to wait for."),
    Option("flush.synchronously", Type.BOOLEAN, False, _LOW, "Has no effect: it is always so."),
    Option("max.buffered.records", Type.INT, 20_000, _LOW, "Has no effect: nothing is held."),
    Option("max.connection.idle.time.ms", Type.INT, 60_000, _LOW, "Has no effect."),
    Option("type.name", Type.STRING, "_doc", _LOW, "Has no effect: documents have no types since Elasticsearch 7."),
)  # fmt: skip
IDLE: Final = tuple(option.name for option in OPTIONS if option.doc.startswith("Has no effect"))
"""Options that are understood and change nothing."""
