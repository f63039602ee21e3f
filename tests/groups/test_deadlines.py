from ottla.groups.deadlines import STOOD_STILL_MS, DeadlineKey, DeadlineKind, KeyedDeadlines

A = DeadlineKey(DeadlineKind.SESSION, "g", "a")
B = DeadlineKey(DeadlineKind.SESSION, "g", "b")


def taken(deadlines: KeyedDeadlines, now_ms: int) -> list[DeadlineKey]:
    keys = []
    while (key := deadlines.take(now_ms)) is not None:
        keys.append(key)
    return keys


def test_deadlines_come_due_in_order_of_time_and_only_once():
    deadlines = KeyedDeadlines()
    deadlines.set(A, 20)
    deadlines.set(B, 10)
    assert deadlines.next_ms() == 10
    assert taken(deadlines, 9) == []
    assert taken(deadlines, 20) == [B, A]
    assert taken(deadlines, 1000) == []
    assert deadlines.next_ms() is None


def test_a_deadline_moved_later_does_not_come_due_at_its_old_time():
    deadlines = KeyedDeadlines()
    deadlines.set(A, 10)
    deadlines.set(A, 30)
    assert taken(deadlines, 29) == []
    assert deadlines.next_ms() == 30
    assert taken(deadlines, 30) == [A]


def test_a_deadline_moved_earlier_comes_due_at_its_new_time():
    deadlines = KeyedDeadlines()
    deadlines.set(A, 30)
    deadlines.set(A, 10)
    assert taken(deadlines, 10) == [A]
    assert taken(deadlines, 30) == []


def test_a_deadline_moved_back_and_forth_comes_due_once():
    deadlines = KeyedDeadlines()
    for at_ms in (10, 30, 10, 30, 20):
        deadlines.set(A, at_ms)
    assert taken(deadlines, 19) == []
    assert taken(deadlines, 100) == [A]


def test_a_cancelled_deadline_never_comes_due_and_may_be_set_again():
    deadlines = KeyedDeadlines()
    deadlines.set(A, 10)
    deadlines.cancel(A)
    assert deadlines.next_ms() is None
    deadlines.set(A, 5)
    assert taken(deadlines, 10) == [A]


def test_heartbeats_do_not_make_the_heap_grow():
    deadlines = KeyedDeadlines()
    for now_ms in range(10_000):
        deadlines.set(A, now_ms + 100)
    assert len(deadlines._by_all._heap) == 1
    assert taken(deadlines, 10_098) == []
    assert taken(deadlines, 10_099) == [A]


def test_postponing_moves_what_is_set_and_not_what_is_set_afterwards():
    deadlines = KeyedDeadlines()
    deadlines.set(A, 10)
    deadlines.postpone(50)
    deadlines.set(B, 40)
    assert deadlines.at(A) == 60
    assert taken(deadlines, 59) == [B]
    assert taken(deadlines, 60) == [A]


def test_a_busy_process_postpones_a_deadline_by_its_own_timeout_in_all():
    deadlines = KeyedDeadlines()
    deadlines.set(A, 1000, timeout_ms=1000)
    deadlines.set(B, 1000)
    for _ in range(100):
        deadlines.postpone(60)
    assert deadlines.at(A) == deadlines.next_ms() == 2000
    assert deadlines.at(B) == 7000, "who waits for nobody has no bound"
    assert taken(deadlines, 1999) == []
    assert taken(deadlines, 2000) == [A]
    assert taken(deadlines, 6999) == []
    assert taken(deadlines, 7000) == [B]


def test_a_heartbeat_is_forgiven_anew():
    deadlines = KeyedDeadlines()
    deadlines.set(A, 1000, timeout_ms=1000)
    for _ in range(100):
        deadlines.postpone(60)
    deadlines.set(A, 3000, timeout_ms=1000)
    deadlines.postpone(60)
    assert deadlines.at(A) == 3060


def test_a_process_that_stood_still_postpones_by_all_of_it_however_long():
    deadlines = KeyedDeadlines()
    deadlines.set(A, 1000, timeout_ms=1000)
    deadlines.postpone(30_000)
    for _ in range(100):
        deadlines.postpone(STOOD_STILL_MS)
    assert deadlines.at(A) == 1000 + 30_000 + 100 * STOOD_STILL_MS
    for _ in range(100):
        deadlines.postpone(60)
    assert taken(deadlines, 31_999 + 100 * STOOD_STILL_MS) == []
    assert taken(deadlines, 32_000 + 100 * STOOD_STILL_MS) == [A]


def test_a_bounded_deadline_that_was_taken_or_cancelled_comes_due_no_second_time():
    deadlines = KeyedDeadlines()
    deadlines.set(A, 10, timeout_ms=10)
    deadlines.set(B, 10, timeout_ms=10)
    deadlines.cancel(B)
    assert taken(deadlines, 10) == [A]
    deadlines.postpone(60)
    assert taken(deadlines, 1000) == []
    assert deadlines.next_ms() is None
    assert len(deadlines) == 0
