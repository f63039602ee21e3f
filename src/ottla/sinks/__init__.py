"""Connectors that stand on the lake and its stores: files of records by Confluent's names, and the lake itself."""
