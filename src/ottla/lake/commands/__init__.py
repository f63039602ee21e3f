"""The lake's commands."""
