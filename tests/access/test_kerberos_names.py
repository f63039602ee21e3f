"""Names of users from principals, by the rules of Kafka's documentation and tests."""

from __future__ import annotations

import pytest

from ottla.access.kerberos_names import short_names
from ottla.access.names import WrongRules

REALM = "REALM.COM"


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        (["DEFAULT"], "alice@REALM.COM", "alice"),
        (["DEFAULT"], "kafka/host@REALM.COM", "kafka"),
        (["DEFAULT"], "alice@OTHER.COM", None),
        (["RULE:[1:$1](App.*)s/App\\.(.*)/$1/g", "DEFAULT"], "App.service-name@REALM.COM", "service-name"),
        (["RULE:[2:$1](App.*)s/App\\.(.*)/$1/g", "DEFAULT"], "App.service-name/example.com@REALM.COM", "service-name"),
        (["RULE:[1:$1]/L"], "User@REALM.COM", "user"),
        (["RULE:[1:$1]/U"], "User@REALM.COM", "USER"),
        (["RULE:[2:$1]/L"], "TestABC/host@FOO.COM", "testabc"),
        (["RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//"], "bob@OTHER.COM", "bob"),
        (["RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//"], "bob@REALM.COM", None),
        (["RULE:[1:$1](.*)s/a/b/"], "banana@REALM.COM", "bbnana"),
        (["RULE:[1:$1](.*)s/a/b/g"], "banana@REALM.COM", "bbnbnb"),
        (["RULE:[1:$1@$0](.*)"], "bob@REALM.COM", None),
        (["RULE:[1:$1](bo)"], "bob@REALM.COM", None),
        (["DEFAULT"], "no realm", None),
        (["DEFAULT"], "a/b/c@REALM.COM", None),
        (["DEFAULT"], "alice@REALM.COM@REALM.COM", None),
    ],
)
def test_the_first_rule_that_fits_makes_the_name(rules: list[str], principal: str, name: str | None) -> None:
    assert short_names(rules, REALM)(principal) == name


@pytest.mark.parametrize(
    "rule",
    ["", "default", "RULE:[1:$2]", "RULE:[1:$1](", "RULE:[1:$1](a[)", "RULE:[1:$1]s/a", "RULE:[1:$1]s/(a)/$2/"],
)
def test_a_text_that_is_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(WrongRules):
        short_names([rule], REALM)
