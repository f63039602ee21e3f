"""Declarations of messages, and the codecs compiled from them."""
