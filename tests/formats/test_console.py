"""Values as `ottla consume` shows them."""

from tests.lake.matrix_cases import avro_payload, avro_record

from ottla.formats.console import BadPayload, ValueDecoder
from ottla.formats.wire import framed
from ottla.formats.writer import WriterSchema


def test_a_day_that_python_lacks_costs_its_own_value_alone():
    written = avro_record("int")
    payloads = [avro_payload(written, {"v": day, "id": 7}) for day in (1, (1 << 31) - 1, 2)]
    decoder = ValueDecoder(lambda _: WriterSchema("AVRO", avro_record({"type": "int", "logicalType": "date"})))
    first, bad, last = decoder.decode(framed(1, payloads).to_pylist(), [None] * 3)
    assert (str(first["v"]), str(last["v"])) == ("1970-01-02", "1970-01-03")
    assert isinstance(bad, BadPayload) and "cannot be shown" in str(bad)
