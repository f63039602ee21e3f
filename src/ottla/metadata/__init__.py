"""The entries of the metadata log (`entries.py`) and the one state that follows from them (`state.py`)."""
