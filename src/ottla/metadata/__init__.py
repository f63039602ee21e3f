"""What the metadata log can say (`entries.py`) and the one state that follows from it (`state.py`)."""
