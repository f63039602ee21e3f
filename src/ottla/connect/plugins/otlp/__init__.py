"""The OTLP source: log records of OpenTelemetry over HTTP, as protobuf or JSON."""
