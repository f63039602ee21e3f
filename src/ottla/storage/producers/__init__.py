"""The writers of a log: its producers, and its leaders' epochs."""
