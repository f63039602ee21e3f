"""The replicas on this broker: opened, led or followed, moved, repaired, checked, compacted."""
