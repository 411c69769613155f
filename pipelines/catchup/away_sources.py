"""Source tables whose rule was away for a while, of tables that other source tables fed meanwhile.

Such a table goes on in the stream, and its position in the topics of those that are away stays where it was. Once a
rule leads them to it again it is caught up from its position in each topic, like a table that was rolled back. That
needs a topic of their own: in one that others feed it from too, its position has gone on with these, and nobody could
read what it misses without reading again what it has. Then both ends are told.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from paimon_table import TableName
from pipelines.checkpoint.sources_away import Since
from pipelines.config.config import PipelineConfig
from pipelines.tables.known_routes import is_led_elsewhere
from pipelines.tables.left_out import LeftOut
from pipelines.tables.merged_sources import told
from sinks.commit.positions import FedBy, Position
from sources.positions import Place
from sources.slices import SliceReader

log = logging.getLogger(__name__)


def sources_away(
    config: PipelineConfig,
    name: TableName,
    position: Position,
    known: Mapping[FedBy, Since],
    left_out: LeftOut,
    *,
    is_written: bool,
) -> dict[FedBy, Since]:
    """The sources of a table that no rule leads to it now; warns of those that have gone, where others feed it.

    ``is_written`` says whether a rule writes it.
    """
    batch_id, _ = left_out.next_batch
    away = [source for source in position.sources if is_led_elsewhere(config, name, source)]
    if len(away) < len(position.sources):
        for source in sorted({*away} - known.keys(), key=told):
            log.warning(
                "table %s: no rule leads records of %s to it any more; from batch %d on they are not in it",
                name,
                told(source),
                batch_id,
            )
    mark = left_out.missing.get(str(name))
    begin = left_out.next_begin if mark is None else mark.begun
    noted = {source: known.get(source) or Since(batch_id, begin, not is_written) for source in away}
    # One that stays away while its table is written again has a place of its own from then on.
    return {source: replace(one, with_table=one.with_table and not is_written) for source, one in noted.items()}


def bring_back(
    name: TableName,
    position: Position,
    back: Mapping[FedBy, Since],
    away: Collection[FedBy],
    left_out: LeftOut,
    reader: SliceReader,
    topic_ids: Mapping[str, str],
) -> None:
    """Let a table be caught up in the topics of sources that a rule leads to it again; where that cannot be, say so.

    ``topic_ids`` are the topics that are read.
    """
    if not back:
        return
    since = min(one.batch for one in back.values())
    names = ", ".join(map(told, sorted(back, key=told)))
    gone_on = position.sources.keys() - back.keys() - {*away}
    unnamed = {topic for topic, _ in position.offsets} - {source.topic for source in position.sources}
    others = {source.topic for source in gone_on} | unnamed
    batch_id, _ = left_out.next_batch
    anew = {source.topic for source in back if position.is_of_another(source.topic, topic_ids)}
    mark = left_out.marks.get(str(name))
    known = None if mark is None else (reader.offsets(mark.begun) if mark.begun is not None else {})
    begin = _begin(position.among(topic_ids), back, anew, known, left_out.next_begin, reader)
    if begin is None or not others.isdisjoint(source.topic for source in back):
        log.warning(
            "table %s: no rule led records of %s to it from batch %d on; those that came before batch %d are not in it:"
            " `tidemark replay FILE --table %s` reads them again, with --rebuild in any table",
            name,
            names,
            since,
            batch_id,
            name,
        )
        return
    reason = f"no rule led records of {names} to it from batch {since} on"
    topics = {topic for topic, _ in position.offsets} | {source.topic for source in back}
    left_out.go_back(str(name), reason, batch_id, begin, topics)
    log.warning("table %s: %s; it is caught up beside the stream", name, reason)


def _begin(
    position: Position,
    back: Mapping[FedBy, Since],
    anew: Collection[str],
    known: Mapping[Place, int] | None,
    next_begin: str | None,
    reader: SliceReader,
) -> str | None:
    """Where a table stands in each partition; in those of which it has no record, where it was last in the stream.

    Topics that were made ``anew`` are read from their first records. ``known`` is where a table stands that is behind.
    """
    now = None if next_begin is None else reader.offsets(next_begin)
    if now is None:
        return None
    stands = dict(now) if known is None else {place: known[place] for place in now if place in known}
    for source, since in back.items():
        begin = None if source.topic in anew else since.begin
        before = {} if begin is None else reader.offsets(begin) or {}
        places = [place for place in now if place[0] == source.topic]
        for place in places:
            if place in before and place in stands:
                stands[place] = min(before[place], stands[place])
            else:
                stands.pop(place, None)  # it came later: from its first record
    return reader.position_at_offsets({**stands, **position.offsets})
