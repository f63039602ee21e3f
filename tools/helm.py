"""Holds the Helm chart against helm: `make helm` lints it, renders it for one broker and for three, and reads that.

`rendered` and `problems` need no cluster. The checks are about what helm does not know: the broker's options, and that
services select pods that are there.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ottla.config.resolve import environment_texts, read_static

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "packaging" / "helm" / "ottla"
HELM = ROOT / ".cache" / "helm" / "helm"
TEMPLATE = ("template", "kafka", str(CHART), "--namespace", "streams", "--kube-version", "1.31.0")
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "one broker": (),
    "three brokers": ("-f", str(CHART / "values-three.yaml")),
    "one secured broker": (
        *("--set", "configSecret=broker", "--set", "clientSecret=client"),
        *("--set", "registry.enabled=true", "--set", "console.enabled=true"),
    ),
}
REFUSED: Mapping[str, tuple[str, ...]] = {
    "zookeeper": ("--set", "brokers=3"),
    "broker": ("--set", "broker=3"),
    "clientSecret": ("--set", "configSecret=broker", "--set", "registry.enabled=true"),
}
"""Values that helm must refuse, by a word of its refusal."""


def main() -> int:
    print(helm("lint", "--strict", str(CHART)).stdout.strip())
    wrong = []
    for name, options in VARIANTS.items():
        documents = rendered(options)
        wrong += [f"{name}: {problem}" for problem in problems(documents)]
        print(f"{name}: {', '.join(sorted(document['kind'] for document in documents))}")
    for word, options in REFUSED.items():
        done = helm(*TEMPLATE, *options, check=False)
        if done.returncode == 0 or word not in done.stderr:
            wrong.append(f"{' '.join(options)} was not refused with the word {word}: {done.stderr.strip()}")
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


def helm(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(HELM), *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"helm {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done


def rendered(options: Iterable[str]) -> list[dict[str, Any]]:
    """The documents that helm would send to a cluster."""
    text = helm(*TEMPLATE, *options).stdout
    return [document for document in yaml.safe_load_all(text) if document]


def problems(documents: list[dict[str, Any]]) -> list[str]:
    """Faults of rendered documents that helm cannot know."""
    found = []
    pods = [document for document in documents if document["kind"] in ("StatefulSet", "Deployment")]
    labels = [pod["spec"]["template"]["metadata"]["labels"] for pod in pods]
    names = {document["metadata"]["name"] for document in documents if document["kind"] == "Service"}
    for document in documents:
        name, spec = f"{document['kind']} {document['metadata']['name']}", document["spec"]
        selector = spec.get("selector", {})
        selector = selector.get("matchLabels", selector)
        if not any(selector.items() <= each.items() for each in labels):
            found.append(f"{name} selects no pod")
        if document["kind"] == "StatefulSet" and spec["serviceName"] not in names:
            found.append(f"{name} names a service that is not there: {spec['serviceName']}")
    for pod in pods:
        name, spec = pod["metadata"]["name"], pod["spec"]["template"]["spec"]
        volumes = {volume["name"] for volume in spec["volumes"]}
        volumes |= {claim["metadata"]["name"] for claim in pod["spec"].get("volumeClaimTemplates", ())}
        for container in spec["containers"]:
            if missing := {mount["name"] for mount in container["volumeMounts"]} - volumes:
                found.append(f"{name} mounts what is not there: {sorted(missing)}")
            security = container["securityContext"]
            if not security["readOnlyRootFilesystem"] or security["allowPrivilegeEscalation"]:
                found.append(f"{name} may write its files, or get more rights")
            found += [f"{name}: {wrong}" for wrong in wrong_options(container.get("env", ()))]
    return found


def wrong_options(variables: Iterable[Mapping[str, str]]) -> list[str]:
    """Faults of a broker's options, as the broker itself reads them from its environment."""
    environment = {variable["name"]: variable["value"] for variable in variables}
    if not environment:
        return []
    try:
        static = read_static(environment=environment)
    except ValueError as fault:
        return [str(fault)]
    lost = set(environment_texts(environment)) - set(static.texts)
    return [*static.warnings, *(f"{name} was not taken" for name in sorted(lost))]


if __name__ == "__main__":
    sys.exit(main())
