"""Kafka's command-line tools: the flags and the output of Apache Kafka 4.3, without a JVM."""
