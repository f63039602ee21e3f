"""Kafka Streams' operations in Python: a topology as a value, the engine that runs it, and a test driver.

Nothing here needs Spark but `run` on it, and only `run` needs a broker.
"""

from ottla.streams.builder import StreamsBuilder
from ottla.streams.difference import Difference, difference
from ottla.streams.errors import ProcessingError, SerdeError, TopologyError
from ottla.streams.graph import Topology
from ottla.streams.grouped import CogroupedStream, GroupedStream, GroupedTable, WindowedCogroupedStream, WindowedStream
from ottla.streams.kept import query
from ottla.streams.on_error import Choice, Fault, OnError
from ottla.streams.queries import Age, Answer, Query, Row
from ottla.streams.registry_serdes import MemoryRegistry, avro, json_schema, protobuf
from ottla.streams.running import run
from ottla.streams.serdes import BYTES, FLOAT32, FLOAT64, INT16, INT32, INT64, JSON, TEXT, Serde
from ottla.streams.stream import Split, Stream
from ottla.streams.table import GlobalTable, Table
from ottla.streams.testing import TestRecord, TopologyTest
from ottla.streams.values import Place, Record, Stamped, Windowed
from ottla.streams.vectorised import Vectorised, vectorised
from ottla.streams.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows

__all__ = [
    "BYTES", "FLOAT32", "FLOAT64", "INT16", "INT32", "INT64", "JSON", "TEXT", "Age", "Answer", "Choice",
    "CogroupedStream", "Difference", "Fault", "GlobalTable", "GroupedStream", "GroupedTable", "JoinWindows",
    "MemoryRegistry", "OnError", "Place", "ProcessingError", "Query", "Record", "Row", "Serde", "SerdeError",
    "SessionWindows", "SlidingWindows", "Split", "Stamped", "Stream", "StreamsBuilder", "Table", "TestRecord",
    "TimeWindows", "Topology", "TopologyError", "TopologyTest", "Vectorised", "Windowed", "WindowedCogroupedStream",
    "WindowedStream", "avro", "difference", "json_schema", "protobuf", "query", "run", "vectorised",
]  # fmt: skip
