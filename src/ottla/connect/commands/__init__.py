"""The verbs of `ottla connect` that speak to a worker over HTTP."""
