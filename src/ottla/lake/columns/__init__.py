"""Rows as columns: types, JSON, change events, folders and windows of rows. Pure."""
