"""`format("ottla")`: where Spark comes in. Options are understood in options.py; reading goes on in batch.py and
stream.py, writing in sink.py."""

from __future__ import annotations

from dataclasses import replace

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

from ottla.rows.value_options import VALUE, VALUE_ERROR
from ottla.spark.options import Source, SourceOptions, check_source, sink_options, source_columns, source_options
from ottla.spark.plainly import said_plainly

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
    VALUE_ERROR: StringType(),
}


def row_schema(columns: tuple[str, ...], value: DataType | None = None) -> StructType:
    """The rows of Spark's own connector, or these of their columns; `value` is the type of typed values."""
    kinds = COLUMN_TYPES if value is None else {**COLUMN_TYPES, VALUE: value}
    return StructType([StructField(name, kinds[name]) for name in columns])


class OttlaDataSource(DataSource):
    """Kafka topics as rows, by the Kafka protocol, without a jar."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    @said_plainly()
    def schema(self) -> StructType:
        given = check_source(self.options)
        columns = source_columns(self.options)
        if not given.values.typed or VALUE not in columns:
            return row_schema(columns)
        from ottla.spark.values import value_type

        return row_schema(columns, value_type(given.values, lambda: topics_of(given)))

    @said_plainly()
    def reader(self, schema: StructType) -> DataSourceReader:
        from ottla.spark.batch import OttlaBatchReader, OttlaFilteringReader

        options = self._with_value_type(source_options(self.options, streaming=False), schema)
        return OttlaFilteringReader(options) if options.pushdown else OttlaBatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Keep a refusal until Spark asks for an offset: one raised here is hidden by a fault of Spark's own."""
        from ottla.spark.stream import OttlaStreamReader, RefusedStreamReader

        try:
            options = self._with_value_type(source_options(self.options, streaming=True), schema)
        except ValueError as refusal:
            return RefusedStreamReader(str(refusal))
        return OttlaStreamReader(options)

    @said_plainly()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ottla.spark.sink import OttlaBatchWriter

        if overwrite:
            raise ValueError('Save mode Overwrite not allowed for Kafka, which only appends: write .mode("append")')
        return OttlaBatchWriter(sink_options(self.options), schema)

    @said_plainly()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from ottla.spark.sink import OttlaStreamWriter

        return OttlaStreamWriter(sink_options(self.options), schema)

    def _with_value_type(self, options: SourceOptions, schema: StructType) -> SourceOptions:
        """The options with the type that values got when the query started."""
        if tuple(schema.fieldNames()) != source_columns(self.options):
            raise ValueError("Kafka source has a fixed schema and cannot be set with a custom one")
        if VALUE not in schema.fieldNames():
            return options
        return replace(options, value_type=schema[VALUE].dataType)


def topics_of(given: Source) -> list[str]:
    """The names of the topics that a source reads; those that match a pattern are asked for."""
    if given.selection.topics or given.selection.partitions:
        return sorted({*given.selection.topics, *(each.topic for each in given.selection.partitions)})
    from ottla.rows.connections import cluster

    views = cluster(given.kafka).topics()
    return sorted(name for name, view in views.items() if given.selection.chosen(name, internal=view.is_internal))
