"""Measures how fast Protobuf payloads become Arrow columns on one core, beside google.protobuf to dicts.

`python -m bench.protobuf_decode [--rows N]` prints thousands of records a second for records of seven fields.
"""

from __future__ import annotations

import argparse

from google.protobuf import message_factory
from google.protobuf.json_format import MessageToDict

from bench.avro_decode import rate
from ottla.formats.decoder import Decoder
from ottla.formats.protoc import compiled
from ottla.formats.wire import framed
from ottla.formats.writer import WriterSchema

SCHEMA = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1; int32 customer = 2; string item = 3; double price = 4; bool paid = 5; optional string note = 6;
  google.protobuf.Timestamp at = 7;
}
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    writer = WriterSchema("PROTOBUF", SCHEMA)
    order = message_factory.GetMessageClass(compiled(writer).message_types_by_name["Order"])
    payloads = []
    for at in range(rows):
        one = order(id=at * 7919, customer=at, item=f"item-{at % 1000:04}", price=at / 7, paid=at % 2 == 0)
        one.at.seconds = 1_700_000_000 + at
        if at % 3 == 0:
            one.note = f"note {at}"
        payloads.append(b"\0" + one.SerializeToString())
    values = framed(7, list(payloads))
    decoder = Decoder("protobuf", lambda _: writer)
    print(f"{sum(map(len, payloads)) / rows:.1f} bytes in a payload, {rows} of them")
    rate("decoder to Arrow", rows, lambda: decoder.decode(values).table)
    some = payloads[: rows // 10]
    rate("google.protobuf, to dicts", len(some), lambda: [MessageToDict(order.FromString(each[1:])) for each in some])


if __name__ == "__main__":
    main()
