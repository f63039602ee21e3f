"""Topics that an ordinary request neither deletes nor empties: internal ones, the registry's, and those marked.

Called by `topics.py` and `configs.py`. The option `deletion.protection` of a topic decides (config/topic.py): only
`false`, which an administrator sets, lets an internal topic be deleted or emptied.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.kernel.errors import ApiError, ErrorCode

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
PROTECTION = "deletion.protection"
_POLICY = "cleanup.policy"
_ALWAYS_COMPACTED = ("__consumer_offsets", "__transaction_state")
_SCHEMAS = ("_schemas", "_schemas_ids")
"""Topics of a registry, with the default name; others are marked by the registry itself."""
_HOLDS = {
    "__consumer_offsets": "the committed offsets of all groups",
    "__transaction_state": "the state of all transactions; without it, each open one must be aborted by hand",
    "__share_group_state": "the state of share groups",
    "_schemas": "all schemas of a registry",
    "_schemas_ids": "the ids that a registry has given out",
}


def is_protected(name: str, configs: Mapping[str, str]) -> bool:
    """True if a topic with these options of its own is not to be deleted or emptied."""
    setting = configs.get(PROTECTION, "auto").strip().lower()
    if setting in ("true", "false"):
        return setting == "true"
    return name in INTERNAL_TOPICS or (name in _SCHEMAS and _keeps_records(configs))


def deletion_refused(name: str, configs: Mapping[str, str]) -> ApiError | None:
    """The error of a request that would delete a protected topic; None if it may be deleted."""
    if not is_protected(name, configs):
        return None
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"The topic '{name}' is protected: it holds {_content(name)}. To delete it with all that, use "
        f"`ottla topic delete --internal {name}`, or set {PROTECTION}=false on the topic first.",
    )


def policy_refused(name: str, before: Mapping[str, str] | None, after: Mapping[str, str]) -> ApiError | None:
    """The error of options under which retention would empty a protected topic; None if they may be set.

    `before`: the topic's own options up to now; None for a new topic.
    """
    before = before or {}
    setting, kept = after.get(PROTECTION, "auto").strip().lower(), _keeps_records(before)
    guarded = name in _ALWAYS_COMPACTED or (kept and (setting == "true" or name in _SCHEMAS))
    as_before = bool(before) and before.get(_POLICY) == after.get(_POLICY)
    if setting == "false" or not guarded or as_before or _keeps_records(after):
        return None
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"The topic '{name}' is protected: it holds {_content(name)}, which retention would delete. Set "
        f"{_POLICY}=compact on the topic itself, without 'delete'; or set {PROTECTION}=false first.",
    )


def _keeps_records(configs: Mapping[str, str]) -> bool:
    """True if the topic says itself that retention deletes nothing."""
    policy = configs.get(_POLICY)
    return policy is not None and "delete" not in [part.strip() for part in policy.split(",")]


def _content(name: str) -> str:
    return _HOLDS.get(name, "records that are to be kept")
