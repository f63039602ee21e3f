"""Configurations, ACLs, quotas and users of a cluster: asked for, and put back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.backup.manifest import Backup, BackupRefused
from ottla.client.admin.admin import ConfigOperation, ConfigSource, Resource, ResourceType
from ottla.client.aio.admin import Admin
from ottla.kernel.acls import Acl, Operation, PatternType, Permission, ResourceKind
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.quotas import QuotaEntity
from ottla.messages.describe_configs import DescribeConfigsResourceResult

_ALL_BROKERS = Resource(ResourceType.BROKER, "")
_NAMES = {"user": "user", "client-id": "client_id", "ip": "ip"}


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """The configurations that a topic has of its own, and all that are in force."""

    own: dict[str, str]
    inherited: dict[str, str]


async def topic_configs(admin: Admin, topics: Collection[str]) -> dict[str, TopicConfigs]:
    """The configurations of topics."""
    if not topics:
        return {}
    found: dict[str, TopicConfigs] = {}
    asked = [Resource(ResourceType.TOPIC, each) for each in topics]
    for resource, configs in (await admin.describe_configs(asked)).items():
        if isinstance(configs, Exception):
            raise configs
        own = _own(configs, ConfigSource.DYNAMIC_TOPIC_CONFIG)
        found[resource.name] = TopicConfigs(own, {each.name: each.value or "" for each in configs})
    return found


def _own(configs: Iterable[DescribeConfigsResourceResult], source: ConfigSource) -> dict[str, str]:
    return {
        each.name: each.value
        for each in configs
        if each.config_source == source and not each.is_sensitive and each.value is not None
    }


async def rights_of(admin: Admin) -> tuple[dict[str, Any], list[str]]:
    """ACLs, quotas, users and the configurations of all brokers, as fields of a backup; notes about what is missing."""
    notes: list[str] = []
    acls: list[Acl] = []
    try:
        acls = await admin.describe_acls()
    except ApiError as fault:
        if fault.code is not ErrorCode.SECURITY_DISABLED:
            raise
    quotas = await admin.describe_quotas()
    users = await admin.describe_users()
    if users:
        notes.append("users are kept by name alone: no broker tells their keys, so a restore asks for new passwords")
    configs = (await admin.describe_configs([_ALL_BROKERS]))[_ALL_BROKERS]
    if isinstance(configs, Exception):
        raise configs
    secret = [each.name for each in configs
              if each.is_sensitive and each.config_source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG]  # fmt: skip
    if secret:
        notes.append(f"secret configurations of brokers are not told, and not kept: {', '.join(sorted(secret))}")
    return {
        "acls": tuple((int(a), b, int(c), d, e, int(f), int(g)) for a, b, c, d, e, f, g in acls),
        "quotas": tuple((entity.parts, dict(values)) for entity, values in quotas.items()),
        "users": tuple((user.name, dict(user.mechanisms)) for user in users),
        "broker_configs": _own(configs, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    }, notes


async def require_acls(admin: Admin, backup: Backup) -> None:
    """Refuse a cluster without ACLs for a backup that has some: it would let everybody in."""
    if not backup.acls:
        return
    try:
        await admin.describe_acls()
    except ApiError as fault:
        if fault.code is not ErrorCode.SECURITY_DISABLED:
            raise
        raise BackupRefused(
            f"the backup has {len(backup.acls)} ACLs, and the cluster knows none: give its brokers "
            "authorizer.class.name as the old cluster had it, or restore --without-acls"
        ) from None


async def put_rights(admin: Admin, backup: Backup, *, with_acls: bool) -> None:
    """Put ACLs, quotas and configurations of brokers in force."""
    if with_acls and backup.acls:
        await admin.create_acls([
            Acl(ResourceKind(a), b, PatternType(c), d, e, Operation(f), Permission(g))
            for a, b, c, d, e, f, g in backup.acls
        ])  # fmt: skip
    for parts, values in backup.quotas:
        await admin.alter_quotas(QuotaEntity(**{_NAMES[kind]: name for kind, name in parts.items()}), values)
    if backup.broker_configs:
        await set_configs(admin, _ALL_BROKERS, backup.broker_configs)


async def set_configs(
    admin: Admin, resource: Resource, configs: Mapping[str, str], delete: Collection[str] = ()
) -> None:
    """Set configurations, and take others back to their defaults; the first refusal rises."""
    changes: list[tuple[str, ConfigOperation, str | None]] = [
        (name, ConfigOperation.SET, value) for name, value in configs.items()
    ]
    changes += [(name, ConfigOperation.DELETE, None) for name in delete]
    if changes:
        fault = (await admin.alter_configs({resource: changes}))[resource]
        if fault is not None:
            raise fault
