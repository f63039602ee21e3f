"""Judges of a finished run: each takes the history of events and returns the anomalies that it finds in it."""
