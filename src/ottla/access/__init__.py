"""The owner of a connection: SASL's mechanisms, both sides of each, and the states of a connection until it is known.

Pure: bytes and `now_ms` in, answers out. The broker's gate (broker/requests/gate.py) and the client drive it.
"""
