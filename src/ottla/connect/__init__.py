"""Apache Kafka Connect's job: everything into topics and out of them."""
