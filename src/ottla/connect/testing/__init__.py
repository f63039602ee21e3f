"""Tests a connector of your own without a broker: it is driven through what a worker may do to it.

    from ottla.connect.testing import OtherSide, check_sink, check_source, sink_records

Each check that fails becomes a sentence of one `PluginFaults`. Next door, `source.py` and `sink.py` have the checks.
"""

from ottla.connect.testing.side import OtherSide, PluginFaults, sink_records
from ottla.connect.testing.sink import check_sink
from ottla.connect.testing.source import check_source

__all__ = ["OtherSide", "PluginFaults", "check_sink", "check_source", "sink_records"]
