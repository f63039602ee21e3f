"""`format("ottla")`: where Spark comes in. Options are understood in options.py; reading goes on in batch.py and
stream.py, writing in sink.py."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.spark.options import check_source, sink_options, source_columns, source_options

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
COLUMN_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS_TYPE,
}


def row_schema(columns: tuple[str, ...]) -> StructType:
    """The rows of Spark's own connector, or these of their columns."""
    return StructType([StructField(name, COLUMN_TYPES[name]) for name in columns])


class OttlaDataSource(DataSource):
    """Kafka topics as rows, by the Kafka protocol, without a jar."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        check_source(self.options)
        return row_schema(source_columns(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from ottla.spark.batch import OttlaBatchReader, OttlaFilteringReader

        self._check_schema(schema)
        options = source_options(self.options, streaming=False)
        return OttlaFilteringReader(options) if options.pushdown else OttlaBatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from ottla.spark.stream import OttlaStreamReader

        self._check_schema(schema)
        return OttlaStreamReader(source_options(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ottla.spark.sink import OttlaBatchWriter

        if overwrite:
            raise ValueError(
                "Save mode Overwrite not allowed for Kafka. Allowed save modes are Append and ErrorIfExists."
            )
        return OttlaBatchWriter(sink_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from ottla.spark.sink import OttlaStreamWriter

        return OttlaStreamWriter(sink_options(self.options), schema)

    def _check_schema(self, schema: StructType) -> None:
        if tuple(schema.fieldNames()) != source_columns(self.options):
            raise ValueError("Kafka source has a fixed schema and cannot be set with a custom one")
