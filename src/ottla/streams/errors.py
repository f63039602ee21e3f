"""The errors of stream applications: a topology that cannot be, and a record that cannot be handled."""


class TopologyError(ValueError):
    """The topology cannot be built or run as it is written; the message says what to change."""


class SerdeError(ValueError):
    """A key or a value does not fit its serde."""


class ProcessingError(RuntimeError):
    """A user's function failed; the message names the node and the record's place."""
