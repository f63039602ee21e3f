"""The schemas by which `ottla produce` writes values and `ottla consume` reads them, from a registry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.extras import extra, missing
from ottla.cli.faults import BadInput, Misuse, text_of
from ottla.cli.input.lines import InputRow
from ottla.cli.input.rows import Encode, as_json, as_written
from ottla.client.model import ConsumedRecord

if TYPE_CHECKING:
    from ottla.client.registry_client import RegistryClient

VALUE_HEADER = "__value_schema_id"
_PART = "a schema"
_KINDS = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}


def encoder(wish: str, topic: str, registry: str, *, text: bool) -> Encode:
    """Writes rows by the schema that is wished for: a file, `latest`, an id, or a subject.

    `text`: fields are text that stands for numbers, as in CSV. BadInput where there is no such schema.
    """
    console = extra(_PART)
    try:
        schema, schema_id = _found(console, wish, topic, _client(registry))
        made = console.ValueEncoder(schema, schema_id, text=text)
    except (ValueError, LookupError) as fault:
        raise BadInput(f"--schema {wish}: {fault}") from None
    except ModuleNotFoundError as fault:
        raise missing(_PART, str(fault.name)) from None

    def encode(row: InputRow) -> bytes:
        try:
            found: bytes = made.encode(
                row.fields, lambda value: as_written(row) if value is row.fields else as_json(value, row.place)
            )
        except console.BadPayload as fault:
            raise BadInput(f"{row.place}: {fault}") from None
        return found

    return encode


def _found(console: Any, wish: str, topic: str, client: RegistryClient) -> tuple[Any, int]:
    """The schema and its id; a file's is registered under the topic's subject."""
    subject = f"{topic}-value"
    suffix = Path(wish).suffix
    if suffix in _KINDS:
        schema = console.WriterSchema(_KINDS[suffix], text_of(wish))
        return schema, client.register(subject, schema)
    if wish.isascii() and wish.isdecimal():
        return client.schema(int(wish)), int(wish)
    latest = client.latest(subject if wish == "latest" else wish)
    return latest.schema, latest.schema_id


def _client(registry: str) -> RegistryClient:
    from ottla.client.registry_client import registry as client_of
    from ottla.client.registry_client import registry_urls

    try:
        return client_of(registry_urls(registry, "--registry"))
    except ValueError as fault:
        raise Misuse(str(fault)) from None


class Decoding:
    """Reads the values of records by the schemas that they name."""

    def __init__(self, registry: str) -> None:
        client = _client(registry)
        self._console = extra(_PART)
        self._decoder = self._console.ValueDecoder(client.schema)

    def decoded(self, records: Sequence[ConsumedRecord]) -> list[ConsumedRecord]:
        """The records with their values in JSON; BadInput names one that cannot be read."""
        headers = [dict(record.headers).get(VALUE_HEADER) for record in records]
        try:
            found = self._decoder.decode([record.value for record in records], headers)
        except ModuleNotFoundError as fault:
            raise missing(_PART, str(fault.name)) from None
        return [self._shown(record, value) for record, value in zip(records, found, strict=True)]

    def _shown(self, record: ConsumedRecord, value: Any) -> ConsumedRecord:
        place = f"{record.topic}-{record.partition} at offset {record.offset}"
        if isinstance(value, self._console.BadPayload):
            raise BadInput(f"{place}: {value}; without --schema values are shown as they are")
        return record if record.value is None else record._replace(value=as_json(value, place))
