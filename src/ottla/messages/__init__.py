"""The messages of the Kafka protocol: one module for each API, request and response together, declarations only."""
