"""One session of Spark for all tasks of a process."""

import pytest

from ottla.connect.errors import ConfigException
from ottla.connect.shared_spark import SharedSpark


class Opened:
    """Stands for a session that Spark has opened."""

    made: list = []  # noqa: RUF012  # emptied by the fixture

    def __init__(self, settings, **named):
        self.settings, self.spark, self.answers, self.ended = settings, object(), True, ""
        self.made.append(self)

    def close(self):
        self.ended = "closed"

    def forget(self):
        self.ended = "forgotten"


@pytest.fixture
def sessions(monkeypatch):
    monkeypatch.setattr("ottla.spark.submit.open_session", Opened)
    Opened.made.clear()
    yield Opened.made
    assert all(each.ended for each in Opened.made), "a session was left open"


def test_tasks_share_a_session_that_ends_with_the_last_of_them(sessions):
    first, second = SharedSpark("local[2]", ("a=b",)), SharedSpark("local[2]", ("a=b",))
    assert first.session() is second.session()
    assert (sessions[0].settings.master, sessions[0].settings.conf) == ("local[2]", ("a=b",))
    first.release()
    assert sessions[0].ended == ""
    second.release()
    assert sessions[0].ended == "closed"


def test_another_master_for_the_same_session_is_refused(sessions):
    first, second = SharedSpark("local[2]", ()), SharedSpark("yarn", ())
    first.session()
    with pytest.raises(ConfigException, match="give them the same"):
        second.session()
    second.release()
    first.release()


def test_a_session_whose_java_process_ended_is_opened_anew(sessions):
    first, second = SharedSpark(None, ()), SharedSpark(None, ())
    before = first.session()
    sessions[0].answers = False
    assert second.session() is not before
    assert sessions[0].ended == "forgotten"
    first.release()
    second.release()
