"""Random sequences of clients, zombies, timeouts and moves of transactional ids: the shard's promises hold."""

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from transaction_desk import P0, P1, P2, TIMEOUT_MS, Desk

from ottla.kernel.errors import ErrorCode
from ottla.transactions.entries import decode_entry, transaction_of
from ottla.transactions.transitions import follows_on
from ottla.transactions.values import LAST_EPOCH, TransactionState

NAMES = st.sampled_from(["a", "b"])
PLACES = st.integers(0, 5)
SOME = st.lists(st.sampled_from([P0, P1, P2]), min_size=0, max_size=3)
VERSIONS = st.sampled_from([0, 2])
OK = ErrorCode.NONE


class TransactionLives(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.desk = Desk()
        self.known = defaultdict(list)
        """By transactional id, all producers that were ever handed out, also to zombies."""
        self.given_at_init = set()
        self.jumped_back_ms = 0
        self.answered = {}
        """By transactional id, True if the ending transaction was answered as a commit."""

    def some(self, name, place):
        known = self.known[name]
        return known[-1 - place % len(known)] if known else (1, 0)

    def note(self, name, given):
        producer = (given.producer_id, given.producer_epoch)
        if given.error == OK and producer not in self.known[name]:
            self.known[name].append(producer)

    @rule(name=NAMES, place=PLACES, knows=st.booleans())
    def init(self, name, place, knows):
        expected = self.some(name, place) if knows else None
        before = self.desk.shard.transactions.get(name)
        given = self.desk.init(expected, name=name)
        if given.error == OK:
            producer = (given.producer_id, given.producer_epoch)
            assert before is None or before.state != TransactionState.ONGOING
            assert given.producer_epoch < LAST_EPOCH
            if not knows:
                assert producer not in self.given_at_init, "no two producers are given one id and epoch"
            self.given_at_init.add(producer)
        self.note(name, given)

    @rule(name=NAMES, place=PLACES, partitions=SOME, version=VERSIONS)
    def add(self, name, place, partitions, version):
        producer = self.some(name, place)
        error = self.desk.add(producer, *partitions, version=version, name=name)
        if error == OK:
            now = self.desk.shard.transactions[name]
            assert now.state == TransactionState.ONGOING and set(partitions) <= now.partitions
            assert (now.producer_id, now.producer_epoch) == producer

    @rule(name=NAMES, place=PLACES, commit=st.booleans(), version=VERSIONS)
    def end(self, name, place, commit, version):
        producer = self.some(name, place)
        before = self.desk.shard.transactions.get(name)
        answer = self.desk.end(producer, commit=commit, version=version, name=name)
        if answer.error != OK:
            return
        if before.state == TransactionState.ONGOING:
            assert (before.producer_id, before.producer_epoch) == producer, "a zombie ends nothing"
            self.answered[name] = commit
        if version == 2:
            self.note(name, answer)

    @rule(name=NAMES, place=PLACES, partitions=SOME)
    def verify(self, name, place, partitions):
        producer = self.some(name, place)
        before = len(self.desk.log)
        answer = self.desk.verify(producer, *partitions, name=name)
        assert len(self.desk.log) == before
        now = self.desk.shard.transactions.get(name)
        if not isinstance(answer, ErrorCode):
            inside = {each for each, error in answer.items() if error == OK}
            assert inside == set(partitions) & now.partitions
            assert not inside or now.state == TransactionState.ONGOING

    @rule(place=PLACES, partition=st.sampled_from([P0, P1, P2]))
    def mark(self, place, partition):
        if self.desk.markers:
            sent = self.desk.markers[-1 - place % len(self.desk.markers)]
            if partition in sent.partitions:
                self.desk.mark(partition, of=sent)

    @rule()
    def leaders_answer_all_markers(self):
        for sent in list(self.desk.markers):
            self.desk.mark(of=sent)
        assert not any(each.prepared for each in self.desk.shard.transactions.values())

    @rule(ms=st.sampled_from([1, 1_000, 10_000, TIMEOUT_MS]))
    def time_goes_by(self, ms):
        self.desk.pass_ms(ms)

    @rule(back_ms=st.sampled_from([1_000, -1_000, 100_000]))
    def the_wall_clock_jumps(self, back_ms):
        self.desk.wall_start_ms -= back_ms
        self.jumped_back_ms += max(0, back_ms)

    @rule()
    def another_broker_takes_over(self):
        self.desk.fail_over()

    @rule(at_hand=st.booleans())
    def producer_ids_run_out_or_come_again(self, at_hand):
        self.desk.ids_at_hand = at_hand

    @rule(error=st.sampled_from([None, ErrorCode.NOT_ENOUGH_REPLICAS]))
    def appends_are_refused_or_not(self, error):
        if error is None:
            self.desk.refusing = None
        else:
            before = dict(self.desk.shard.transactions)
            self.desk.refusing = error
            self.desk.init(name="a")
            self.desk.end(self.some("b", 0), commit=True, version=2, name="b")
            self.desk.refusing = None
            assert self.desk.shard.transactions == before, "what was not written did not happen"

    @invariant()
    def the_log_obeys_the_table_of_transitions(self):
        last = {}
        for key, value in self.desk.log:
            entry = decode_entry(key, value)
            name, after = entry.key.transactional_id, transaction_of(entry.value)
            assert follows_on(last.get(name), after), (last.get(name), after)
            before = last.get(name)
            if before is not None and before.producer_id == after.producer_id:
                assert after.producer_epoch >= before.producer_epoch, "epochs never fall"
            last[name] = after

    @invariant()
    def the_live_state_is_the_replayed_one(self):
        assert self.desk.replayed().transactions == self.desk.shard.transactions

    @invariant()
    def the_compacted_log_says_the_same(self):
        newest = dict(self.desk.log)
        self.desk.log, whole = list(newest.items()), self.desk.log
        assert self.desk.replayed().transactions == self.desk.shard.transactions
        self.desk.log = whole

    @invariant()
    def all_markers_of_a_transaction_are_of_the_kind_that_was_answered(self):
        for sent in self.desk.markers:
            now = self.desk.shard.transactions[sent.transactional_id]
            if (
                now.prepared
                and (now.producer_id, now.producer_epoch) == sent[1:3]
                and now.state != TransactionState.ONGOING
            ):
                expected = now.state == TransactionState.PREPARE_COMMIT
                assert not expected or self.answered[sent.transactional_id], "a commit that nobody asked for"

    @invariant()
    def nobody_shares_a_producer_id(self):
        ids = [each.producer_id for each in self.desk.shard.transactions.values()]
        assert len(ids) == len(set(ids))

    def teardown(self):
        self.desk.ids_at_hand, self.desk.refusing = True, None
        self.desk.pass_ms(self.jumped_back_ms + 2 * TIMEOUT_MS)
        self.desk.fail_over()
        self.leaders_answer_all_markers()
        self.desk.pass_ms(1_000)
        states = {each.state for each in self.desk.shard.transactions.values()}
        assert states <= {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}


TransactionLives.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_lives = TransactionLives.TestCase
