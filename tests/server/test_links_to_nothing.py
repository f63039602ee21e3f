"""A file of a broker that is a link to nothing is refused in a sentence that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.processes import DidNotStart, OttlaProcess


@pytest.mark.parametrize("name", ["meta.properties", ".lock", "metadata/metadata.db"])
def test_a_link_to_nothing_is_named_with_the_remedy(tmp_path: Path, name: str) -> None:
    with OttlaProcess(tmp_path) as broker:
        broker.stop()
        path = tmp_path / name
        body = path.read_bytes()
        path.unlink()
        path.symlink_to("/nothing/is/here")
        with pytest.raises(DidNotStart) as refused:
            broker.start()
        assert f"{path}' (a link to /nothing/is/here, where nothing is" in str(refused.value)
        assert "remove the link and start again" in str(refused.value)
        path.unlink()
        path.write_bytes(body)
        broker.start()
