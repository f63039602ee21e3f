"""Names of certificates as Java prints them, and Kafka's rules over them."""

from __future__ import annotations

import pytest

from ottla.access.names import UnknownName, WrongRules, distinguished_name, mapping

SUBJECT = (
    (("countryName", "SE"),),
    (("organizationName", "Acme, Inc."),),
    (("organizationalUnitName", "a+b"), ("userId", "7")),
    (("commonName", "kafka1.example.com"),),
)
NAME = "CN=kafka1.example.com,OU=Servers,O=Acme,C=SE"


def test_a_subject_is_printed_last_name_first_and_escaped() -> None:
    assert distinguished_name(SUBJECT) == r"CN=kafka1.example.com,OU=a\+b+UID=7,O=Acme\, Inc.,C=SE"


@pytest.mark.parametrize(
    ("value", "said"),
    [("#x", r"CN=\#x"), ("a#b", r"CN=a\#b"), (" a ", r"CN=\ a\ "), ('"', r"CN=\""), ("a\\b", r"CN=a\\b"), ("", "CN=")],
)
def test_what_has_a_meaning_in_a_name_is_escaped(value: str, said: str) -> None:
    assert distinguished_name([[("commonName", value)]]) == said


def test_an_attribute_without_a_short_name_is_printed_by_its_number() -> None:
    assert distinguished_name([[("emailAddress", "a@b")]]) == "1.2.840.113549.1.9.1=#1603614062"
    with pytest.raises(UnknownName, match="houseIdentifier"):
        distinguished_name([[("houseIdentifier", "x")]])


def test_names_that_look_alike_are_not_the_same_name() -> None:
    alike = [
        ((("organizationName", "Acme"),), (("commonName", "alice"),)),
        ((("commonName", "alice"),), (("organizationName", "Acme"),)),
        ((("organizationName", "Acme"), ("commonName", "alice")),),
        ((("commonName", "alice"), ("organizationName", "Acme")),),
        ((("commonName", "alice,O=Acme"),),),
        ((("commonName", "alice+O=Acme"),),),
        ((("organizationName", "Acme"),), (("commonName", "alice\0"),)),
        ((("organizationName", "Acme"),), (("commonName", "alice\0.evil"),)),
        ((("organizationName", "Acme"),), (("commonName", " alice"),)),
        ((("organizationName", "Acme"),), (("commonName", "Alice"),)),
        ((("organizationName", "Acme"),), (("commonName", "\u0430lice"),)),
        ((("organizationName", "Acme"),), (("commonName", "alice"),), (("commonName", "alice"),)),
        ((("organizationName", "Acme"),), (("organizationalUnitName", ""),), (("commonName", "alice"),)),
    ]
    assert len({distinguished_name(subject) for subject in alike}) == len(alike)


def test_a_rule_fits_no_name_that_goes_on_behind_a_nul_or_a_line_end() -> None:
    user = mapping("RULE:^CN=([a-z]+),O=Acme$/$1/")
    assert user("CN=alice,O=Acme") == "alice"
    assert [user(name) for name in ("CN=alice,O=Acme\n", "CN=alice\0,O=Acme", "CN=eve,O=Acme\nCN=alice,O=Acme")] == [
        None, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("", NAME),
        ("DEFAULT", NAME),
        ("RULE:^CN=(.*?),OU=Servers.*$/$1/", "kafka1.example.com"),
        ("RULE:^CN=(.*?),OU=Servers.*$/$1/U", "KAFKA1.EXAMPLE.COM"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L", "kafka1.example.com@servers"),
        ("RULE:^CN=(.*?),OU=Nobody.*$/$1/,DEFAULT", NAME),
        ("RULE:^CN=(.*?),OU=Nobody.*$/$1/", None),
        ("RULE:^CN=kafka1/$0/", None),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT", "kafka1.example.com"),
    ],
)
def test_the_first_rule_that_fits_the_whole_name_counts(rules: str, user: str | None) -> None:
    assert mapping(rules)(NAME) == user


@pytest.mark.parametrize(
    "rules", ["RULE", "RULE:a", "RULE:a/b", "RULE:(/b/", "RULE:a/$1/", "default", "DEFAULT RULE:a/b/", "RULE:a/b/X"]
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(WrongRules):
        mapping(rules)
