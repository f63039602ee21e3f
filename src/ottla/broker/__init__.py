"""The broker without a socket: metadata, partitions, waits, sessions, and one story per request."""
