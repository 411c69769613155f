"""A pipeline that is new to a table which another one has fed from the same topic: its records come a second time.

That happens with a copy of a pipeline file under another name, with a renamed pipeline, and where a topic goes from one
pipeline to another. Rows of a key end up equal; sums and tables without primary key would count every record twice.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from paimon_table import Table
from paimon_table.errors import ConfigError
from pipelines.config.config import PipelineConfig
from sinks.commit.table_sink import TableSink

log = logging.getLogger(__name__)

_BEHIND = (
    ". To go on behind it, stop it and begin a new checkpoint with `start: {{offsets: {{{topic}: {{{places}}}}}}}`"
    " under source.kafka"
)
"""What helps where there is a `start`."""

Offsets = Mapping[int, int]
"""The next offset by partition."""


def check_repeated_reads(config: PipelineConfig, sink: TableSink, topic: str) -> None:
    """Refuse a topic that another pipeline has brought into a table that counts; elsewhere a warning.

    ConfigError says where the other one stands: `start` with offsets from there on reads each record once. The first
    commit raises it too, where the other pipeline has begun since.
    """
    warned: set[str] = set()
    sink.check_first(lambda: _check(config, sink, topic, warned))


def _check(config: PipelineConfig, sink: TableSink, topic: str, warned: set[str]) -> None:
    for pipeline, offsets in sink.read_by_others(topic).items():
        if _begins_behind(config, topic, offsets):
            continue
        told = f"table {sink.identifier} has records of topic {topic} from pipeline {pipeline}"
        places = ", ".join(f"{partition}: {offset}" for partition, offset in sorted(offsets.items()))
        counted = _counted(sink.table)
        behind = "" if config.source.kafka is None else _BEHIND.format(topic=topic, places=places)
        if counted is not None and not config.source.skips_records:
            raise ConfigError(
                f"{told}: pipeline {config.name} would bring them a second time, and {counted}. Write into another"
                f" table (another `into`), or go on as pipeline {pipeline}, by that name{behind}"
            )
        if pipeline not in warned and (counted is not None or not _keeps_newest(sink.table)):
            warned.add(pipeline)
            effect = counted or "older rows stand in the place of newer ones until it has come as far"
            log.warning("%s up to offsets %s: of what pipeline %s reads again, %s", told, places, config.name, effect)


def _counted(table: Table) -> str | None:
    """What a record that comes twice does; None where its row ends up the same."""
    if not table.schema.primary_keys:
        return "each adds its row again"
    columns = table.write_traits.accumulating
    return f"each counts again in {', '.join(columns)}" if columns else None


def _keeps_newest(table: Table) -> bool:
    """Whether a row that comes late loses against a newer one of its key."""
    return bool(table.options.sequence_fields) or table.options.merge_engine == "first-row"


def _begins_behind(config: PipelineConfig, topic: str, offsets: Offsets) -> bool:
    """Whether the file says offsets at which the other pipeline has nothing yet."""
    start = config.source.start_offsets
    if start is None:
        return False
    begins = start.get(topic, {})
    return all(begins.get(partition, 0) >= offset for partition, offset in offsets.items())
