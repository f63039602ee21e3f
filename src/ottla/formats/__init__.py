"""What is known about Avro, JSON Schema and Protobuf, without brokers, files or sockets: compatibility, columns."""
