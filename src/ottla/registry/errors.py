"""Refusals of the registry, with the codes and sentences that clients know."""

from __future__ import annotations

from ottla.registry.records import Reference
from ottla.web.exchange import HttpError


class RegistryError(HttpError):
    """An answer with `error_code` and `message`; the first three digits of the code are the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(int(str(code)[:3]), message, code=code)


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(what: int | str | None = None) -> RegistryError:
    return RegistryError(40403, "Schema not found" if what is None else f"Schema {what} not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40406, f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def level_not_configured(subject: str) -> RegistryError:
    return RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_configured(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, reasons: list[str]) -> RegistryError:
    """The code is the bare HTTP status, as clients of all versions expect it."""
    about = f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
    return RegistryError(409, f"{about}, details: [{', '.join(reasons)}]")


INVALID_SCHEMA = 42201


def invalid_schema(why: str) -> RegistryError:
    return RegistryError(INVALID_SCHEMA, f"Invalid schema: {why}")


def no_reference(reference: Reference) -> str:
    """The reason for an invalid schema: what it refers to is not there."""
    return f"no schema for the reference {reference.name}: subject {reference.subject}, version {reference.version}"


def not_authorized(why: str) -> RegistryError:
    return RegistryError(40301, why)


def invalid_version(version: str) -> RegistryError:
    return RegistryError(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )


def invalid_level(level: object) -> RegistryError:
    return RegistryError(
        42203,
        f"Invalid compatibility level {level}. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive",
    )


def invalid_mode(mode: object) -> RegistryError:
    return RegistryError(
        42204,
        f"Invalid mode {mode}. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT and FORWARD",
    )


def not_permitted(why: str) -> RegistryError:
    return RegistryError(42205, why)


def reference_exists(subject: str, version: int) -> RegistryError:
    return RegistryError(42206, f"One or more references exist to the schema {{subject={subject},version={version}}}.")


def id_does_not_match(why: str) -> RegistryError:
    return RegistryError(42207, why)


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid subject name")


def too_large(limit: int) -> RegistryError:
    return RegistryError(42209, f"The schema is larger than {limit} bytes")


def invalid_rule_set(why: str) -> RegistryError:
    return RegistryError(42210, f"Invalid rule set: {why}")


def context_not_empty(context: str) -> RegistryError:
    return RegistryError(42211, f"The specified context '{context}' is not empty")


def used_up(subject: str) -> RegistryError:
    return RegistryError(50001, f"No id or no version is left for subject '{subject}': the greatest are in use")


def store_failed(why: str) -> RegistryError:
    return RegistryError(50001, f"The registry's topic cannot be written or read: {why}")


def timed_out(why: str) -> RegistryError:
    return RegistryError(50002, f"The write was not confirmed in time and may still take effect: {why}")
