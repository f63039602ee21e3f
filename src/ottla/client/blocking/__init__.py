"""The blocking face, over sockets."""
