"""A driver of the campaign, to be killed: one topology on Spark until the ends of its topics.

python -m tests.streams.campaign.driver TOPOLOGY BOOTSTRAP CHECKPOINT NAMES_IN_JSON MAX_RECORDS
"""

from __future__ import annotations

import json
import sys

from tests.streams.in_batches import built_over

from ottla.streams import run


def main(topology: str, bootstrap: str, checkpoint: str, names: str, max_records: str) -> None:
    """Run it."""
    topics = json.loads(names)
    run(
        built_over(topology, topics),
        application_id=f"app-{topics['out']}",
        bootstrap=bootstrap,
        on="spark",
        master="local[2]",
        checkpoint=checkpoint,
        max_records=int(max_records),
        available_now=True,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
