"""Metrics: declared once, counted as plain integers, rendered when somebody asks."""
