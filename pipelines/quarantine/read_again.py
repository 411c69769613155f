"""Bad records that a rebuild of their table reads again: a retry of them later would bring them in a second time."""

from __future__ import annotations

from paimon_table import TableName
from paimon_table.errors import ConfigError
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import Replays
from pipelines.config.config import PipelineConfig
from pipelines.jobs.job_progress import watched
from pipelines.prepared import own_tables
from pipelines.quarantine.quarantine_views import Opened
from sources.wording import counted


def check_read_again(config: PipelineConfig, identifier: str) -> None:
    """Refuse to begin a rebuild of a table that counts records while some of its own are in the quarantine.

    Elsewhere a row ends up the same. A rebuild that has begun goes on.
    """
    table = own_tables(config).catalog.find(TableName.of(identifier)) if "." in identifier else None
    if table is None or config.source.on_bad_record == "fail" or Replays(Checkpoint(config)).unfinished(identifier):
        return
    is_counting = table.options.merge_engine == "aggregation" or bool(table.write_traits.accumulating)
    if table.schema.primary_keys and not is_counting:
        return
    quarantine = Opened(config)
    with watched("files") as progress:
        lines = quarantine.records(quarantine.bad.files(), progress)
        count = sum(quarantine.names.of(line) == identifier for line in lines)
    if count:
        raise ConfigError(
            f"the quarantine has {counted(count, 'record')} of table {identifier}, which a rebuild reads again: a retry"
            f" behind it would count them twice. Save them (tidemark quarantine show FILE --table {identifier} --format"
            f" json), then drop them (tidemark quarantine drop FILE --table {identifier}): those that cannot be read"
            " this time either come back"
        )
