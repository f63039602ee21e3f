"""Coordinators of groups and transactions: a runner for each partition of their topics that is led here."""
