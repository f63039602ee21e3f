"""ottla: a distributed commit log that speaks the Kafka protocol, with its pipeline on Apache Spark."""

__version__ = "0.1.0"
