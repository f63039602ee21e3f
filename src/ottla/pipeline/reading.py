"""Reads a pipeline from its file, with all that is found in it. Programs of streams that it names are imported."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.cli.faults import BadInput
from ottla.pipeline.check import Flows, check
from ottla.pipeline.document import Finding, read_documents
from ottla.pipeline.parts import Pipeline, pipeline_of

log = logging.getLogger("ottla.pipeline")


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """A pipeline as its file was when it was read."""

    path: Path
    pipeline: Pipeline
    flows: Flows
    changed_ns: int

    @classmethod
    def read(cls, name: str) -> PipelineFile:
        """The file of a valid pipeline; BadInput says what is wrong in another. Warnings are logged."""
        path = Path(name)
        changed_ns = path.stat().st_mtime_ns if path.exists() else 0
        pipeline, flows, warnings = valid_pipeline(path)
        for each in warnings:
            log.warning("%s", each)
        return cls(path, pipeline, flows, changed_ns)

    @property
    def is_old(self) -> bool:
        """True if the file has changed, or is gone. Programs that it names are imported once, whatever they are now."""
        try:
            return self.path.stat().st_mtime_ns != self.changed_ns
        except OSError:
            return True


def read_pipeline(path: Path, overlays: Sequence[Path] = ()) -> tuple[Pipeline, Flows, list[Finding]]:
    """The pipeline of a file, what flows in it, and what was found in it."""
    document = read_documents([path, *overlays], os.environ)
    pipeline = pipeline_of(document, path.parent, path.stem)
    flows = check(pipeline, document)
    return pipeline, flows, sorted(set(document.findings))


def valid_pipeline(path: Path, overlays: Sequence[Path] = ()) -> tuple[Pipeline, Flows, list[Finding]]:
    """The same, with nothing found but warnings; BadInput with all findings where one is no warning."""
    pipeline, flows, findings = read_pipeline(path, overlays)
    if any(not each.warning for each in findings):
        raise BadInput("\n".join(map(str, findings)))
    return pipeline, flows, findings


def state_folder(pipeline: Pipeline) -> Path:
    """The folder in which a run keeps what it knows, unless its command names another place."""
    return pipeline.folder / ".ottla" / pipeline.name
