"""Topics that a reset deletes."""

from __future__ import annotations

from ottla.streams.reset import own_topics


def test_own_topics_are_those_of_the_application_and_no_others() -> None:
    own = [
        "app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic",
        "app-counts-changelog",
        "app-counts-repartition",
        "app-joined-subscription-response-topic",
    ]
    others = ["app-results", "app2-counts-changelog", "counts-changelog", "app-topic", "application-x-changelog"]
    assert own_topics("app", [*others, *own]) == tuple(own)
