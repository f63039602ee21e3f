"""The exceptions of Connect, by Kafka's names. `java_class` is the name that dead letters and statuses carry."""

from __future__ import annotations


class ConnectException(Exception):
    """A connector, a converter or a transformation failed."""

    java_class = "org.apache.kafka.connect.errors.ConnectException"


class RetriableException(ConnectException):
    """The same operation may succeed later."""

    java_class = "org.apache.kafka.connect.errors.RetriableException"


class DataException(ConnectException):
    """A record's data does not have the form that was asked for."""

    java_class = "org.apache.kafka.connect.errors.DataException"


class SchemaBuilderException(DataException):
    """A schema that contradicts itself."""

    java_class = "org.apache.kafka.connect.errors.SchemaBuilderException"


class UnknownField(DataException):
    """A transformation names a field that the schema does not have. Java throws IllegalArgumentException."""

    java_class = "java.lang.IllegalArgumentException"


class ConfigException(ConnectException):
    """A configuration that cannot be used."""

    java_class = "org.apache.kafka.common.config.ConfigException"

    @classmethod
    def of(cls, name: str, value: object, reason: str = "") -> ConfigException:
        """The exception about one option's value, in Kafka's words."""
        return cls(f"Invalid value {shown(value)} for configuration {name}{f': {reason}' if reason else ''}")


def shown(value: object) -> str:
    """A value of a configuration as Java prints it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return f"[{', '.join(shown(item) for item in value)}]"
    return str(value)
