"""ACLs in the metadata: decided, applied, in a snapshot, and not before every broker knows them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.access.rules import Rules
from ottla.cluster import acls
from ottla.cluster.commands import CreateAcls, DeleteAcls
from ottla.kernel.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceKind
from ottla.kernel.errors import ApiError
from ottla.metadata.acls import split_acls
from ottla.metadata.snapshot import load_snapshot, take_snapshot
from ottla.metadata.state import METADATA_VERSION, Metadata


def acl(name: str, user: str = "bob") -> Acl:
    return Acl(ResourceKind.TOPIC, name, PatternType.PREFIXED, f"User:{user}", "*", Operation.READ, Permission.ALLOW)


def state_with(*some: Acl) -> Metadata:
    state = Metadata()
    state.features[METADATA_VERSION] = 7
    apply(state, acls.create(CreateAcls(some), state))
    return state


def apply(state: Metadata, bodies: list | ApiError) -> None:
    assert not isinstance(bodies, ApiError)
    for body in bodies:
        state.apply(state.version + 1, body)


def test_an_acl_that_is_there_is_not_written_again():
    state = state_with(acl("a"))
    assert acls.create(CreateAcls((acl("a"), acl("b"), acl("b"))), state) != []
    apply(state, acls.create(CreateAcls((acl("a"), acl("b"), acl("b"))), state))
    assert sorted(state.acls) == [acl("a"), acl("b")]
    assert acls.create(CreateAcls((acl("a"),)), state) == []


def test_filters_remove_what_they_take_and_nothing_else():
    state = state_with(acl("a"), acl("b"), acl("b", "eve"))
    apply(state, acls.delete(DeleteAcls((AclFilter(principal="User:eve"), AclFilter(name="a"))), state))
    assert list(state.acls) == [acl("b")]
    assert acls.delete(DeleteAcls((AclFilter(name="none"),)), state) == []


def test_each_change_of_acls_has_a_version_and_a_snapshot_keeps_them():
    state = state_with(acl("a"), acl("b"))
    before = state.acls_version
    apply(state, acls.delete(DeleteAcls((AclFilter(name="a"),)), state))
    assert state.acls_version > before
    loaded = load_snapshot(take_snapshot(state))
    assert loaded.acls == state.acls == {acl("b"): None}
    assert loaded.acls_version > before


def test_no_acl_is_written_while_a_broker_does_not_know_them():
    state = Metadata()
    state.features[METADATA_VERSION] = 6
    for refused in (acls.create(CreateAcls((acl("a"),)), state), acls.delete(DeleteAcls(()), state)):
        assert isinstance(refused, ApiError)
        assert "older release" in refused.message


def test_many_acls_are_split_into_entries_that_the_store_takes():
    long = [acl("n" * 249, f"{'u' * 200}{number}") for number in range(600)]
    runs = list(split_acls(long))
    assert len(runs) > 1
    assert sum(map(len, runs)) == 600


SOME = st.builds(acl, st.sampled_from(["a", "ab", "*"]), st.sampled_from(["bob", "eve"]))
FILTERS = st.builds(
    AclFilter,
    resource=st.just(ResourceKind.TOPIC),
    name=st.sampled_from([None, "a", "abc"]),
    pattern=st.sampled_from([1, PatternType.MATCH, PatternType.PREFIXED]),
    principal=st.sampled_from([None, "User:bob"]),
)
EDITS = st.one_of(
    st.builds(CreateAcls, st.lists(SOME, max_size=3).map(tuple)),
    st.builds(DeleteAcls, st.lists(FILTERS, max_size=2).map(tuple)),
    st.just("failover"),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(EDITS, max_size=8))
def test_after_any_edits_and_failovers_the_acls_are_those_of_a_plain_set(edits):
    """A broker that comes up begins with a snapshot: nothing is lost in it, and nothing comes back."""
    state, model = state_with(), set()
    for edit in edits:
        if edit == "failover":
            state = load_snapshot(take_snapshot(state))
        elif isinstance(edit, CreateAcls):
            apply(state, acls.create(edit, state))
            model |= set(edit.acls)
        else:
            apply(state, acls.delete(edit, state))
            model = {one for one in model if not any(each.takes(one) for each in edit.filters)}
        assert set(state.acls) == model
        rules = Rules(state.acls)
        for name in ("a", "abc", "b"):
            allowed = rules.decide("User:bob", "10.0.0.1", Operation.READ, ResourceKind.TOPIC, name).allowed
            assert allowed == any(one.fits(name) and one.principal == "User:bob" for one in model)
