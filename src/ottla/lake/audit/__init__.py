"""Checks whether a lake is complete, and keeps it in order."""
