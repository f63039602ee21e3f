"""Fetches sets of jars with their runtime dependencies into .cache through Maven: `tools/jars.py SET...`.

Maven's settings decide from which repository they come. `OTTLA_KAFKA_JARS` may name a folder
that holds Apache Kafka's jars already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent / ".cache"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


@dataclass(frozen=True, slots=True)
class JarSet:
    """Artifacts to fetch, and a jar that must be there afterwards."""

    artifacts: tuple[str, ...]
    proof: str
    environment: str
    excluded_groups: str = ""
    excluded_artifacts: str = ""


SETS = {
    "kafka": JarSet(
        ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.kafka:kafka-tools:4.3.1"),
        "kafka_2.13-4.3.1.jar",
        "OTTLA_KAFKA_JARS",
    ),
    "streams": JarSet(
        (
            "org.apache.kafka:kafka-streams:4.3.1",
            "org.apache.kafka:kafka-streams-test-utils:4.3.1",
            "org.apache.kafka:connect-file:4.3.1",
            "org.slf4j:slf4j-simple:1.7.36",
        ),
        "kafka-streams-test-utils-4.3.1.jar",
        "OTTLA_STREAMS_JARS",
    ),
    "mirror": JarSet(
        (
            "org.apache.kafka:connect-mirror:4.3.1",
            "org.apache.kafka:connect-runtime:4.3.1",
            "org.slf4j:slf4j-simple:1.7.36",
        ),
        "connect-mirror-4.3.1.jar",
        "OTTLA_MIRROR_JARS",
    ),
    "debezium": JarSet(
        ("io.debezium:debezium-connector-postgres:3.6.1.Final",),
        "debezium-connector-postgres-3.6.1.Final.jar",
        "OTTLA_DEBEZIUM_JARS",
    ),
    "debezium-mariadb": JarSet(
        ("io.debezium:debezium-connector-mariadb:3.5.0.Final",),
        "debezium-connector-mariadb-3.5.0.Final.jar",
        "OTTLA_DEBEZIUM_MARIADB_JARS",
    ),
    # Kafka's worker brings Kafka's own jars and a logger.
    "connect-iceberg": JarSet(
        (
            "org.apache.iceberg:iceberg-kafka-connect:1.12.0",
            "org.apache.iceberg:iceberg-parquet:1.12.0",
            "org.apache.hadoop:hadoop-client-api:3.5.0",
            "org.apache.hadoop:hadoop-client-runtime:3.5.0",
        ),
        "iceberg-kafka-connect-1.12.0.jar",
        "OTTLA_CONNECT_ICEBERG_JARS",
        "org.apache.kafka,org.slf4j",
    ),
    "connect-jdbc": JarSet(
        ("io.debezium:debezium-connector-jdbc:3.5.0.Final",),
        "debezium-connector-jdbc-3.5.0.Final.jar",
        "OTTLA_CONNECT_JDBC_JARS",
        # A second Jackson beside the worker's would find modules of the other.
        "org.apache.kafka,org.slf4j,com.fasterxml.jackson.core,com.oracle.database.jdbc,com.microsoft.sqlserver,com.mysql",
    ),
    "activemq": JarSet(
        (
            "org.apache.activemq:activemq-broker:5.18.6",
            "org.apache.activemq:activemq-kahadb-store:5.18.6",
            "org.apache.activemq:activemq-stomp:5.18.6",
            "org.slf4j:slf4j-simple:1.7.36",
        ),
        "activemq-broker-5.18.6.jar",
        "OTTLA_ACTIVEMQ_JARS",
    ),
    "zookeeper": JarSet(
        (
            "org.apache.zookeeper:zookeeper:3.9.4",
            "io.dropwizard.metrics:metrics-core:4.1.12.1",
            "org.xerial.snappy:snappy-java:1.1.10.5",
        ),
        "zookeeper-3.9.4.jar",
        "OTTLA_ZOOKEEPER_JARS",
    ),
    "hdfs": JarSet(
        (
            "org.apache.hadoop:hadoop-client-api:3.5.0",
            "org.apache.hadoop:hadoop-client-runtime:3.5.0",
            "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
            "org.slf4j:slf4j-simple:1.7.36",
        ),
        "hadoop-client-minicluster-3.5.0.jar",
        "OTTLA_HDFS_JARS",
    ),
    "opensearch": JarSet(
        (
            "org.opensearch:opensearch:2.19.6",
            "org.opensearch.plugin:transport-netty4-client:2.19.6",
            "org.apache.logging.log4j:log4j-core:2.25.4",
            "org.apache.logging.log4j:log4j-api:2.25.4",
        ),
        "opensearch-2.19.6.jar",
        "OTTLA_OPENSEARCH_JARS",
    ),
    # Spark brings the Scala library itself; a second one beside it would shadow it.
    "spark-kafka": JarSet(
        (
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        ),
        "spark-sql-kafka-0-10_2.13-4.2.0.jar",
        "OTTLA_SPARK_KAFKA_JARS",
        "org.scala-lang,org.slf4j,org.apache.hadoop,com.google.code.findbugs",
    ),
    # Spark 4.2 brings Hadoop's client, Parquet, Jackson and loggers in versions of its own.
    "spark-delta": JarSet(
        ("io.delta:delta-spark_4.2_2.13:4.4.0", "org.apache.hadoop:hadoop-aws:3.5.0"),
        "delta-spark_4.2_2.13-4.4.0.jar",
        "OTTLA_SPARK_DELTA_JARS",
        "org.scala-lang,org.slf4j,org.apache.parquet,org.apache.logging.log4j,com.fasterxml.jackson.core,"
        "com.fasterxml.jackson.datatype,com.github.luben,io.airlift,org.xerial.snappy,org.roaringbitmap,"
        "commons-logging,commons-pool,com.google.code.findbugs",
        "hadoop-client-api,hadoop-client-runtime",
    ),
}


def main(names: list[str]) -> int:
    """Fetch the named sets; return 1 if one could not be fetched."""
    unknown = [name for name in names if name not in SETS]
    if unknown or not names:
        print(f"usage: jars.py SET..., one of {', '.join(SETS)}", file=sys.stderr)
        return 2
    return max(fetch(CACHE / name, SETS[name]) for name in names)


def fetch(folder: Path, wanted: JarSet) -> int:
    """Fill `folder/libs`, from the folder that the environment names or through Maven."""
    libs = folder / "libs"
    shutil.rmtree(libs, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    given = os.environ.get(wanted.environment)
    if given and (Path(given) / wanted.proof).exists():
        libs.symlink_to(Path(given).resolve())
        return 0
    (folder / "pom.xml").write_text(pom(wanted))
    command = ["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), COPY, f"-DoutputDirectory={libs}"]
    command += ["-DincludeScope=runtime", f"-DexcludeGroupIds={wanted.excluded_groups}"]
    command += [f"-DexcludeArtifactIds={wanted.excluded_artifacts}"]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode or not (libs / wanted.proof).exists():
        print((result.stdout + result.stderr)[-2000:], file=sys.stderr)
        return 1
    return 0


def pom(wanted: JarSet) -> str:
    """A Maven project that only depends on the wanted artifacts, with these versions also for indirect dependencies."""
    rows = []
    for artifact in wanted.artifacts:
        group, name, version = artifact.split(":")
        rows.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>ottla</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencyManagement><dependencies>{''.join(rows)}</dependencies></dependencyManagement>"
        f"<dependencies>{''.join(rows)}</dependencies></project>\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
