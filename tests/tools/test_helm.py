"""The Helm chart's values against its schema, and the checks of `make helm`, which helm itself is not needed for."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import helm  # noqa: E402


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft7Validator:
    text = json.loads((helm.CHART / "values.schema.json").read_text("utf-8"))
    jsonschema.Draft7Validator.check_schema(text)
    return jsonschema.Draft7Validator(text)


def values(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((helm.CHART / "values.yaml").read_text("utf-8"))
    for name, value in changes.items():
        found[name] = {**found[name], **value} if isinstance(found[name], dict) else value
    return found


def test_the_values_of_one_broker_and_of_three_fit_the_schema(schema: jsonschema.Draft7Validator) -> None:
    schema.validate(values())
    three = yaml.safe_load((helm.CHART / "values-three.yaml").read_text("utf-8"))
    schema.validate(values(**three))


@pytest.mark.parametrize(
    "changes",
    [
        {"brokers": 3},
        {"brokers": 0},
        {"brokers": "3"},
        {"zookeeper": "zookeeper://host:2181"},
        {"config": {"log.retention.ms": 5}},
        {"config": {"node.id": "5"}},
        {"config": {"LOG_RETENTION_MS": "5"}},
        {"storage": {"size": "20 GB"}},
        {"registry": {"enable": True}},
        {"configSecret": "broker", "registry": {"enabled": True}},
        {"configSecret": "broker", "console": {"enabled": True}},
    ],
)
def test_values_that_would_not_work_are_refused(schema: jsonschema.Draft7Validator, changes: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(values(**changes))


def test_a_value_that_no_template_knows_is_refused(schema: jsonschema.Draft7Validator) -> None:
    with pytest.raises(jsonschema.ValidationError, match="broker"):
        schema.validate(values() | {"broker": 3})


def test_every_value_is_used_by_a_template() -> None:
    used = "".join(path.read_text("utf-8") for path in (helm.CHART / "templates").iterdir())
    assert [name for name in values() if f".Values.{name}" not in used] == []


def test_the_options_of_three_brokers_are_those_of_a_broker() -> None:
    three = yaml.safe_load((helm.CHART / "values-three.yaml").read_text("utf-8"))["config"]
    variables = [{"name": "KAFKA_" + name.upper().replace(".", "_"), "value": value} for name, value in three.items()]
    assert helm.wrong_options(variables) == []
    assert helm.wrong_options([{"name": "KAFKA_LOG_RETENSION_MS", "value": "1"}]) != []


SERVICE = {"kind": "Service", "metadata": {"name": "k"}, "spec": {"selector": {"a": "b"}}}
SECURE = {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}
CONTAINER = {"securityContext": SECURE, "volumeMounts": [{"name": "data"}]}
POD = {"metadata": {"labels": {"a": "b", "c": "d"}}, "spec": {"containers": [CONTAINER], "volumes": []}}
BROKERS = {
    "kind": "StatefulSet",
    "metadata": {"name": "k"},
    "spec": {
        "serviceName": "k",
        "selector": {"matchLabels": {"a": "b"}},
        "template": POD,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
    },
}


def test_documents_that_belong_together_have_no_problem_and_others_name_it() -> None:
    assert helm.problems([SERVICE, BROKERS]) == []
    lost = copy.deepcopy([SERVICE, BROKERS])
    lost[0]["spec"]["selector"] = {"a": "x"}
    lost[1]["spec"]["serviceName"] = "other"
    lost[1]["spec"]["volumeClaimTemplates"] = []
    lost[1]["spec"]["template"]["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = False
    assert helm.problems(lost) == [
        "Service k selects no pod",
        "StatefulSet k names a service that is not there: other",
        "k mounts what is not there: ['data']",
        "k may write its files, or get more rights",
    ]
