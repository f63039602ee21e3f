"""Names of subjects and the contexts they are in: `:.context:name`, or `name` alone in the default context."""

from __future__ import annotations

DEFAULT_CONTEXT = "."
_RESERVED = frozenset({"__GLOBAL", "__EMPTY"})
_GLOBAL_CONTEXT = ".__GLOBAL"


def split(subject: str) -> tuple[str, str]:
    """A subject's context and its name in it. `:.ctx:` names the context itself: its name is empty."""
    if subject.startswith(":."):
        context, colon, name = subject[1:].partition(":")
        if colon:
            return context, name
        return context, ""
    return DEFAULT_CONTEXT, subject


def qualified(subject: str, context: str = DEFAULT_CONTEXT) -> str:
    """The one spelling of a subject; `context` counts if the subject names none."""
    if not subject.startswith(":."):
        return join(context, subject)
    return join(*split(subject))


def join(context: str, name: str) -> str:
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def context_of(subject: str) -> str:
    return split(subject)[0]


def is_valid(subject: str) -> bool:
    """True if a subject may be registered."""
    context, name = split(subject)
    return bool(name) and context != _GLOBAL_CONTEXT and is_valid_scope(subject)


def is_valid_scope(scope: str) -> bool:
    """True if a subject or a context may have settings."""
    context, name = split(scope)
    return name not in _RESERVED and is_valid_context(context) and not any(map(_is_control, scope))


def _is_control(letter: str) -> bool:
    return letter < " " or "\x7f" <= letter <= "\x9f"


def is_valid_context(context: str) -> bool:
    return context.startswith(".") and ":" not in context


def matches(subject: str, prefix: str) -> bool:
    """True if a subject has this `subjectPrefix`: `:*:` stands for every context, no context for the default one."""
    if prefix.startswith(":*:"):
        return split(subject)[1].startswith(prefix[3:])
    context, name = split(prefix)
    own_context, own_name = split(subject)
    return own_context == context and own_name.startswith(name)
