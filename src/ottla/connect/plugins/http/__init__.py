"""The HTTP sink: records become requests to a web service."""
