"""The calls that both faces of the client have, each declared once: `call.py` says how."""
