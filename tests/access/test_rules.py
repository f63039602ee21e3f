"""Decisions by ACLs, against a model that looks at every ACL, and by the cases of Kafka's own authorizer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.access.rules import Rules, address_of
from ottla.kernel.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceKind

TOPIC, GROUP = ResourceKind.TOPIC, ResourceKind.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
HERE, THERE = "10.0.0.1", "10.0.0.2"
NAMES = st.sampled_from(["a", "ab", "abc", "b", "*", "ba"])
USERS = st.sampled_from(["User:bob", "User:eve", "User:*"])
HOSTS = st.sampled_from(["*", HERE, THERE])
ACLS = st.builds(
    Acl,
    resource=st.sampled_from([TOPIC, GROUP]),
    name=NAMES,
    pattern=st.sampled_from([LITERAL, PREFIXED]),
    principal=USERS,
    host=HOSTS,
    operation=st.sampled_from(Operation),
    permission=st.sampled_from(Permission),
)


def rule(
    name: str = "t",
    operation: Operation = Operation.READ,
    permission: Permission = ALLOW,
    *,
    pattern: PatternType = LITERAL,
    principal: str = "User:bob",
    host: str = "*",
) -> Acl:
    return Acl(TOPIC, name, pattern, principal, host, operation, permission)


def by_hand(acls: list[Acl], principal: str, host: str, operation: Operation, resource: ResourceKind, name: str, *,
            is_open: bool) -> bool:  # fmt: skip
    """Kafka's rules, read from its documentation: no index, no early end."""
    about = [acl for acl in acls if acl.resource is resource and acl.fits(name)]
    if not about:
        return is_open
    mine = [acl for acl in about if acl.principal in (principal, "User:*") and acl.host in (host, "*")]
    if any(acl.permission is DENY and acl.operation in (operation, Operation.ALL) for acl in mine):
        return False
    enough = {operation, Operation.ALL}
    if operation is Operation.DESCRIBE:
        enough |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    if operation is Operation.DESCRIBE_CONFIGS:
        enough |= {Operation.ALTER_CONFIGS}
    return any(acl.permission is ALLOW and acl.operation in enough for acl in mine)


@given(
    st.lists(ACLS, max_size=8),
    st.sampled_from(["User:bob", "User:eve"]),
    st.sampled_from([HERE, THERE]),
    st.sampled_from(Operation),
    NAMES,
    st.booleans(),
)
def test_the_index_decides_as_a_look_at_every_acl_does(acls, principal, host, operation, name, is_open):
    decided = Rules(acls, open_without_acl=is_open).decide(principal, host, operation, TOPIC, name)
    assert decided.allowed == by_hand(acls, principal, host, operation, TOPIC, name, is_open=is_open)
    if decided.rule is not None:
        assert decided.rule in acls
        assert decided.rule.permission is (ALLOW if decided.allowed else DENY)


@given(st.lists(ACLS, max_size=6), st.sampled_from([Operation.WRITE, Operation.READ]))
def test_a_right_to_any_topic_is_a_right_to_one_of_them(acls, operation):
    rules = Rules(acls)
    if rules.decide_on_any("User:bob", HERE, operation, TOPIC).allowed:
        names = [f"{acl.name}{more}" for acl in acls for more in ("", "~")] + ["hardcode", "~"]
        assert any(rules.decide("User:bob", HERE, operation, TOPIC, name).allowed for name in names)


@given(
    st.lists(ACLS, max_size=6), st.sampled_from(Operation), st.sampled_from(["", "a", "ab", "b", "c"]), st.booleans()
)
def test_a_right_to_all_topics_is_a_right_to_each_of_them(acls, operation, prefix, is_open):
    rules = Rules(acls, open_without_acl=is_open)
    names = [prefix + more for more in ("", "a", "b", "bc", "c", "~")]
    each = [rules.decide("User:bob", HERE, operation, TOPIC, name).allowed for name in names if name != "*"]
    if rules.decide_on_all("User:bob", HERE, operation, TOPIC, prefix).allowed:
        assert all(each)


@pytest.mark.parametrize(
    ("acls", "prefix", "wanted"),
    [
        ([rule("*")], "", True),
        ([rule("*")], "a", True),
        ([rule("ab", pattern=PREFIXED)], "abc", True),
        ([rule("ab", pattern=PREFIXED)], "a", False),
        ([rule("abc")], "abc", False),
        ([rule("*"), rule("abc", permission=DENY)], "ab", False),
        ([rule("*"), rule("abc", permission=DENY)], "b", True),
        ([rule("*"), rule("a", permission=DENY, pattern=PREFIXED)], "ab", False),
        ([rule("*"), rule("abc", permission=DENY, principal="User:eve")], "ab", True),
        ([rule("*", Operation.ALL)], "", True),
        ([], "", False),
    ],
)
def test_a_right_to_all_topics_of_a_prefix_takes_a_pattern_that_covers_them_and_no_denied_name(acls, prefix, wanted):
    assert Rules(acls).decide_on_all("User:bob", HERE, Operation.READ, TOPIC, prefix).allowed is wanted
    assert Rules(acls, super_users=["User:bob"]).decide_on_all("User:bob", HERE, Operation.READ, TOPIC, prefix).allowed


def test_all_topics_are_open_where_no_acl_of_anybody_is_about_one_of_them():
    rules = Rules([rule("abc", principal="User:eve")], open_without_acl=True)
    assert rules.decide_on_all("User:bob", HERE, Operation.READ, TOPIC, "b").allowed
    assert not rules.decide_on_all("User:bob", HERE, Operation.READ, TOPIC, "ab").allowed


def test_a_super_user_may_do_what_is_denied():
    rules = Rules([rule(permission=DENY, principal="User:*")], super_users=["User:root"])
    assert rules.decide("User:root", HERE, Operation.READ, TOPIC, "t").allowed
    assert not rules.decide("User:bob", HERE, Operation.READ, TOPIC, "t").allowed


def test_a_decision_names_the_acl_that_made_it():
    allowing, denying = rule("t", pattern=PREFIXED), rule("tx", permission=DENY)
    rules = Rules([allowing, denying])
    assert rules.decide("User:bob", HERE, Operation.READ, TOPIC, "ty").rule == allowing
    assert rules.decide("User:bob", HERE, Operation.READ, TOPIC, "tx").rule == denying
    assert rules.decide("User:eve", HERE, Operation.READ, TOPIC, "ty").why == "no ACL allows it"
    assert str(allowing) == "ALLOW User:bob from *: READ on topic prefix t"


@pytest.mark.parametrize("denied", [[rule("w", Operation.WRITE, DENY)], [rule("", Operation.WRITE, DENY)]])
def test_a_right_to_any_topic_is_lost_where_its_pattern_is_denied(denied):
    denied = [acl._replace(pattern=PREFIXED) if not acl.name else acl for acl in denied]
    rules = Rules([rule("w", Operation.WRITE), *denied])
    assert not rules.decide_on_any("User:bob", HERE, Operation.WRITE, TOPIC).allowed
    assert Rules([rule("w", Operation.WRITE)]).decide_on_any("User:bob", HERE, Operation.WRITE, TOPIC).allowed


def test_addresses_are_compared_whatever_their_form():
    in_full = rule(host="0:0:0:0:0:0:0:1")
    assert Rules([in_full]).decide("User:bob", "::1", Operation.READ, TOPIC, "t").allowed
    assert Rules([rule(host="127.0.0.1")]).decide("User:bob", "::ffff:127.0.0.1", Operation.READ, TOPIC, "t").allowed
    assert address_of("FE80::1%eth0") == "fe80::1"
    assert address_of("host.example.org") == "host.example.org"


def test_a_filter_by_match_takes_every_pattern_that_covers_the_name():
    acls = [rule("ab"), rule("a", pattern=PREFIXED), rule("*"), rule("abc", pattern=PREFIXED), rule("x")]
    taken = [acl for acl in acls if AclFilter(TOPIC, "ab", PatternType.MATCH).takes(acl)]
    assert taken == acls[:3]
    assert [acl for acl in acls if AclFilter(name="a", pattern=LITERAL).takes(acl)] == []
    assert [acl for acl in acls if AclFilter(TOPIC, "a").takes(acl)] == [acls[1]]
