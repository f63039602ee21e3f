"""Jobs as users without ottla write them: Avro by fastavro on executors, Delta tables on S3 by Spark's writer."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

FASTAVRO_ROWS = (
    "key binary, id bigint, customer int, item string, price double, paid boolean, note string, at timestamp, "
    "partition int, offset bigint, timestamp timestamp"
)
"""The columns of bench/avro_decode.py's records beside those of the connector."""


def by_fastavro(batches: Iterator[pa.RecordBatch], schema: str) -> Iterator[pa.RecordBatch]:
    """A function for `mapInArrow`: decode each value to a dict, then the dicts to columns."""
    import fastavro
    import pyarrow as pa

    parsed = fastavro.parse_schema(json.loads(schema))
    fields = pa.schema(
        [("id", pa.int64()), ("customer", pa.int32()), ("item", pa.string()), ("price", pa.float64()),
         ("paid", pa.bool_()), ("note", pa.string()), ("at", pa.timestamp("us", "UTC"))]
    )  # fmt: skip
    for batch in batches:
        values = batch.column("value").to_pylist()
        rows = [fastavro.schemaless_reader(io.BytesIO(value), parsed, None) for value in values]
        decoded = pa.RecordBatch.from_pylist(rows, fields)
        rest = ("partition", "offset", "timestamp")
        yield pa.RecordBatch.from_arrays(
            [batch.column("key"), *decoded.columns, *(batch.column(name) for name in rest)],
            names=["key", *fields.names, *rest],
        )


def delta_settings() -> dict[str, str]:
    """Settings of Spark for `session`: Delta's catalog, and S3A at the endpoint that the environment names."""
    return {
        "spark__sql__extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark__sql__catalog__spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark__hadoop__fs__s3a__endpoint": os.environ["AWS_ENDPOINT_URL"],
        "spark__hadoop__fs__s3a__endpoint__region": os.environ["AWS_REGION"],
        "spark__hadoop__fs__s3a__path__style__access": "true",
        "spark__hadoop__fs__s3a__connection__ssl__enabled": "false",
        "spark__hadoop__fs__s3a__aws__credentials__provider": (
            "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
        ),
    }
