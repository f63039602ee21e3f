"""One file declares a whole pipeline: topics, schemas, connectors, streams, loads, mirrors, alerts.

`document.py` reads it with the place of every value, `parts.py` says what may stand in it, `check.py` finds what cannot
work, `plan.py` compares it with a cluster, `supervise.py` runs it.
"""
