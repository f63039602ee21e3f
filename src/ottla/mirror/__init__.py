"""Copies topics, consumer groups and heartbeats from one cluster to another, as MirrorMaker 2 does, batch by batch."""
