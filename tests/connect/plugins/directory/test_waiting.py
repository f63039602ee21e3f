"""Files become ready to be read."""

from ottla.connect.plugins.directory.waiting import Version, Waiting


def test_a_file_is_ready_once_two_looks_see_the_same_size_and_time():
    waiting = Waiting(by_time=False)
    assert waiting.ready({"a": Version(1, 1)}, complete=False) == []
    assert waiting.ready({"a": Version(2, 2)}, complete=False) == []
    assert waiting.ready({"a": Version(2, 2)}, complete=False) == [("a", Version(2, 2))]


def test_a_settled_file_is_ready_again_only_as_another_version():
    waiting = Waiting(by_time=False)
    waiting.settle("a", Version(1, 1))
    assert waiting.ready({"a": Version(1, 1)}, complete=True) == []
    assert waiting.ready({"a": Version(1, 2)}, complete=True) == [("a", Version(1, 2))]
