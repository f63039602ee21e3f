"""Inputs of `ottla produce`: files and standard input of several formats become runs of records."""
