"""A schema registry with the interface of Confluent's, kept in a compacted topic of any Kafka cluster."""
