"""Bytes to messages and back: frames, connections, the API table, and the two hot APIs by hand."""
