"""Transactions: a machine that decides for one partition of `__transaction_state`.

broker/coordinators/transaction_coordinator.py runs it; the formats of its log are Kafka's.
"""
