"""Records in the quarantine that the pipeline has still to read, so that a retry would bring them twice.

An earlier checkpoint has put them aside, and the tables do not say that they have come so far: the process was killed
within that batch, or the tables are to be filled.
"""

from __future__ import annotations

from functools import cached_property

from paimon_table import TableName
from pipelines.bad_records.bad_lines import REPLAY, RETRY, BadLine
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig
from pipelines.config.table_rules import TargetRule
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.target_names import source_names
from sinks.commit.positions import Position
from sources.dumps.dump_lines import MALFORMED_PREFIX


class StillToRead:
    """As checkpoint and tables are when it is made."""

    def __init__(self, config: PipelineConfig, own: OwnTables) -> None:
        self._config = config
        self._own = own
        checkpoint = Checkpoint(config)
        self._query = checkpoint.query_id
        self._has_begun = checkpoint.closed_batch is not None
        self._ends = checkpoint.kafka_positions() if config.source.kafka is not None else None
        self._is_there: dict[str, bool] = {}

    def words(self, line: BadLine, table: str) -> str | None:
        """Why a record for ``table`` waits; None where it does not."""
        if line.topic.startswith(MALFORMED_PREFIX) or "." not in table:
            return None
        rule = self._rule(line)
        if rule is not None and rule.backfill and not self._exists(table):
            return (
                f"table {table} is not there, and its rule has `backfill: true`: start the pipeline, which makes it and"
                " reads what there is for it, these records too"
            )
        place = (line.topic, line.partition)
        if self._has_begun:
            owner = line.file.owner
            is_of_this = owner.startswith((RETRY, REPLAY, self._query or RETRY))
            is_ahead = not is_of_this and line.offset >= (self._ends or {}).get(place, line.offset + 1)
        else:
            position = self._positions.get(table)
            is_ahead = position is None or line.offset >= position.offsets.get(place, 0)
        if not is_ahead:
            return None
        return (
            f"the checkpoint is new, and the pipeline has still to read these records of {line.topic} for table"
            f" {table}: start it first, then retry what is left"
        )

    def _exists(self, table: str) -> bool:
        if table not in self._is_there:
            self._is_there[table] = self._own.catalog.find(TableName.of(table)) is not None
        return self._is_there[table]

    def _rule(self, line: BadLine) -> TargetRule | None:
        return self._config.rule_for(*source_names(line.topic, line.source), line.topic)

    @cached_property
    def _positions(self) -> dict[str, Position]:
        return dict(self._own.positions().known)
