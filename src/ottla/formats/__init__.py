"""Avro, JSON Schema and Protobuf, without brokers, files or sockets: compatibility, columns."""
