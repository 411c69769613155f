"""Where source tables are away: changed with the partitions of their topics, and with their table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.sources_away import Since, SourcesAway
from pipelines.config.config_file import load_pipeline
from sinks.commit.positions import FedBy
from sources.slices import SliceReader
from tests.support.quarantined import checkpoint, write_pipeline

A, B = (FedBy(topic, None, None, "t") for topic in "ab")
BEGIN = json.dumps({"a": {"0": 5, "1": 9}, "b": {"0": 7}})


class Offsets:
    """Positions as Kafka has them."""

    def offsets(self, position: str) -> dict[tuple[str, int], int]:
        return {(topic, int(p)): at for topic, of in json.loads(position).items() for p, at in of.items()}

    def position_at_offsets(self, offsets: dict[tuple[str, int], int]) -> str:
        nested: dict[str, dict[str, int]] = {}
        for (topic, partition), at in offsets.items():
            nested.setdefault(topic, {})[str(partition)] = at
        return json.dumps(nested)


def away(root: Path) -> SourcesAway:
    config = load_pipeline(write_pipeline(root))
    checkpoint(root, 3)
    noted = SourcesAway(Checkpoint(config))
    noted.write({"lake.t": {A: Since(2, BEGIN), B: Since(3, None)}, "lake.u": {A: Since(2, BEGIN)}})
    return noted


def begins(noted: SourcesAway) -> dict[str, object]:
    return {
        f"{table} {source.topic}": since.begin if since.begin is None else json.loads(since.begin)
        for table, sources in noted.read().items()
        for source, since in sources.items()
    }


def test_partitions_that_were_made_anew_or_have_lost_their_end(tmp_path: Path) -> None:
    noted = away(tmp_path)
    noted.move({("a", 0): None, ("a", 1): 4, ("b", 0): 99})
    moved = {"a": {"1": 4}, "b": {"0": 7}}
    assert begins(noted) == {"lake.t a": moved, "lake.t b": None, "lake.u a": moved}


def test_a_table_that_was_rolled_back_lacks_what_it_had_no_records_of(tmp_path: Path) -> None:
    noted = away(tmp_path)
    noted.lower("lake.t", [("a", 0)], cast(SliceReader, Offsets()))
    known = {"a": {"0": 5, "1": 9}, "b": {"0": 7}}
    assert begins(noted) == {"lake.t a": {"a": {"0": 5}, "b": {"0": 7}}, "lake.t b": None, "lake.u a": known}
