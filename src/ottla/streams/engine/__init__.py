"""The engine: a pure machine that runs a topology. Records go in; results and changed entries of stores come out."""
