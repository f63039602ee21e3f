"""Producing: batches gathered and sent, transactions, and the count of sent records."""
