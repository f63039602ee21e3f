"""Disks behind the `Disk` seam: real files, and memory."""
