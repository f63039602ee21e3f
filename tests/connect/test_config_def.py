"""Options of plugins: values are parsed and refused in Kafka's words, and forms are answered from the declarations."""

from __future__ import annotations

import pytest

from ottla.connect.checks import all_of, between, distinct, non_empty_list, non_empty_text, non_null, one_of, understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Password, Type, Width, parsed, text_of
from ottla.connect.errors import ConfigException


def errors(option: Option, given: dict[str, object]) -> list[str]:
    return ConfigDef(option).validate(given)[0].errors


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Type.STRING, " a ", "a"),
        (Type.INT, "+7", 7),
        (Type.SHORT, "-32768", -32768),
        (Type.LONG, "9223372036854775807", (1 << 63) - 1),
        (Type.DOUBLE, "1e3", 1000.0),
        (Type.BOOLEAN, "TRUE", True),
        (Type.LIST, "a , b,c", ["a", "b", "c"]),
        (Type.LIST, "", []),
        (Type.INT, 5, 5),
        (Type.STRING, None, None),
    ],
)
def test_a_value_is_read_as_its_option_says(kind, text, value):
    found = parsed("x", text, kind)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Type.INT, "x", "Invalid value x for configuration o: Not a number of type INT"),
        (Type.INT, "3000000000", "Invalid value 3000000000 for configuration o: Not a number of type INT"),
        (Type.DOUBLE, "1,5", "Invalid value 1,5 for configuration o: Not a number of type DOUBLE"),
        (Type.BOOLEAN, "yes", "Invalid value yes for configuration o: Expected value to be either true or false"),
        (Type.STRING, 5, "Invalid value 5 for configuration o: Expected value to be a string, but it was a int"),
        (Type.LIST, 5, "Invalid value 5 for configuration o: Expected a comma separated list."),
    ],
)
def test_a_value_of_another_type_is_refused_in_kafkas_words(kind, value, message):
    assert errors(Option("o", kind), {"o": value}) == [message]


def test_a_missing_value_is_named_and_then_shown_to_the_check():
    assert errors(Option("o", Type.STRING, check=one_of("a", "b")), {}) == [
        'Missing required configuration "o" which has no default value.',
        "Invalid value null for configuration o: String must be one of: a, b",
    ]
    with pytest.raises(ConfigException, match='Missing required configuration "o"'):
        ConfigDef(Option("o", Type.STRING)).parse({})


@pytest.mark.parametrize(
    ("check", "value", "reason"),
    [
        (one_of("V1", "V2", any_case=True), "v3", "String must be one of (case insensitive): V1, V2"),
        (between(least=1), 0, "Value must be at least 1"),
        (between(most=3), 4, "Value must be no more than 3"),
        (non_empty_text, "", "String must be non-empty"),
        (non_empty_list, [], "Empty list"),
        (non_null, None, "entry must be non null"),
        (understood(int, "no number: "), "x", "no number: invalid literal for int() with base 10: 'x'"),
        (all_of(non_empty_text, one_of("a")), "b", "String must be one of: a"),
    ],
)
def test_checks_speak_kafkas_words(check, value, reason):
    with pytest.raises(ConfigException) as refusal:
        check("o", value)
    shown = {None: "null"}.get(value, value) if not isinstance(value, list) else "[]"
    assert str(refusal.value) == f"Invalid value {shown} for configuration o: {reason}"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "Configuration 'o' must not be empty. Valid values include: any non-empty value"),
        (["a", "a"], "Configuration 'o' values must not be duplicated."),
        (["a", ""], "Configuration 'o' values must not be empty."),
        (None, "Configuration 'o' values must not be null."),
    ],
)
def test_a_list_of_names_has_each_once(values, message):
    with pytest.raises(ConfigException) as refusal:
        distinct(may_be_empty=False)("o", values)
    assert str(refusal.value) == message
    distinct(may_be_empty=True)("o", [])


def test_checks_let_good_values_pass():
    one_of("V1", any_case=True)("o", "v1")
    between(least=1, most=3)("o", 2)
    non_empty_text("o", None)
    understood(int)("o", "5")
    distinct(may_be_empty=False)("o", ["a", "b"])


def test_a_form_is_answered_from_the_declaration():
    option = Option(
        "batch.size", Type.INT, 2000, Importance.LOW, "Lines at once.", between(least=1), "Reading", 3, Width.SHORT
    )
    assert option.definition() == {
        "name": "batch.size",
        "type": "INT",
        "required": False,
        "default_value": "2000",
        "importance": "LOW",
        "documentation": "Lines at once.",
        "group": "Reading",
        "order_in_group": 3,
        "width": "SHORT",
        "display_name": "batch.size",
        "dependents": [],
    }
    assert ConfigDef(option).validate({"batch.size": "0"})[0].answer()["value"] == {
        "name": "batch.size",
        "value": "0",
        "recommended_values": [],
        "errors": ["Invalid value 0 for configuration batch.size: Value must be at least 1"],
        "visible": True,
    }


def test_an_unknown_key_is_named_with_the_nearest_option():
    options = ConfigDef(Option("errors.tolerance", Type.STRING, "none"))
    assert options.unknown({"errors.tolerence": "all", "errors.tolerance": "all"}) == [
        "Unknown configuration 'errors.tolerence' (did you mean errors.tolerance?)"
    ]


def test_a_secret_is_never_shown():
    secret = parsed("p", "hunter2", Type.PASSWORD)
    assert isinstance(secret, Password)
    assert f"{secret} {secret!r}" == "[hidden] [hidden]"
    assert secret.value == "hunter2"
    assert text_of(secret, Type.PASSWORD) == "[hidden]"


def test_options_of_several_declarations_join():
    both = ConfigDef(Option("a", Type.INT, 1)).joined(ConfigDef(Option("b", Type.LIST, ["x", "y"])))
    assert both.parse({"a": "5"}) == {"a": 5, "b": ["x", "y"]}
    assert [each["default_value"] for each in both.definitions()] == ["1", "x,y"]
