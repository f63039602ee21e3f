"""TLS for everything that listens or dials: contexts from Kafka's `ssl.*` options, names of certificates."""
