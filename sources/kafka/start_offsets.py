"""Decides where reading Kafka starts, and checks that Kafka still has the records from there on.

Spark asks for a start only if a checkpoint is new. If the tables were written under an earlier checkpoint of the same
pipeline, ``on_lost_checkpoint`` decides. ``resume`` starts at their lowest position and drops rows that a table already
has, ``fail`` stops, ``restart`` reads from ``start`` again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from paimon_table.errors import ConfigError, Outage
from paimon_table.nearest_name import nearest
from sources.kafka.admin import KafkaAdmin
from sources.kafka.lost_records import RecordsLost, loss_words, lost_records
from sources.kafka.offset_ranges import text_of
from sources.kafka.settings import EARLIEST, LATEST, KafkaSettings
from sources.loss import How, Loss
from sources.positions import Bounds, Place
from sources.wording import NAMES_SHOWN, first_of


def source_bounds(admin: KafkaAdmin, kafka: KafkaSettings) -> dict[Place, Bounds]:
    """The offsets that Kafka has of the topics to read. Raises ConfigError for listed topics that do not exist."""
    known = admin.topic_ids()
    check_listed(kafka, known)
    return admin.bounds(name for name in known if kafka.topics.selects(name))


def check_listed(kafka: KafkaSettings, known: Collection[str]) -> None:
    """Raise ConfigError for listed topics that are not among the ``known`` ones."""
    missing = [name for name in kafka.topics.names if name not in known]
    if missing:
        close = {name: nearest(name, known) for name in missing}
        told = [f"'{name}'" + (f" (did you mean '{hint}'?)" if hint else "") for name, hint in close.items()]
        are = "topics are" if len(missing) > 1 else "topic is"
        raise ConfigError(
            f"Kafka at {kafka.servers}: {len(missing)} listed {are} missing, or this user may not see it: "
            f"{', '.join(told)}. Create it, grant Describe and Read on it, or remove it from source.kafka.topics"
        )


def no_topic_words(kafka: KafkaSettings, known: Collection[str]) -> str | None:
    """Why no topic is read although there are patterns; None if one is, or if all are."""
    topics = kafka.topics
    if topics.names or topics.is_everything or any(map(topics.selects, known)):
        return None
    patterns = ", ".join(f"'{pattern}'" for pattern in topics.include)
    said = (
        f"match source.kafka.topics.include ({patterns})" if patterns else ("remain after source.kafka.topics.exclude")
    )
    plain = {pattern: nearest(pattern.replace("\\", "").replace(".*", ""), known) for pattern in topics.include}
    close = [f"did you mean '{hint}'?" for hint in plain.values() if hint is not None][:1]
    there = [f"there are: {', '.join(first_of(sorted(known), NAMES_SHOWN))}"] if known else ["there is none at all"]
    return (
        f"no topics of Kafka at {kafka.servers} {said}, or this user may not see them; {(close or there)[0]}"
        " (a pattern is a regular expression for the whole name)"
    )


def start_behind_words(
    kafka: KafkaSettings, bounds: Mapping[Place, Bounds], begins: Callable[[int], Mapping[Place, int]]
) -> str | None:
    """Why a first start finds nothing although topics have records; ``begins`` gives the offsets of a time in ms."""
    if not any(held.begin < held.readable_end for held in bounds.values()):
        return "its topics hold no records" if bounds else None
    match kafka.start:
        case "latest":
            return "source.kafka.start is latest, and no record has come since"
        case datetime() as moment:
            at = begins(int(moment.timestamp() * 1000))
            if all(at.get(place, 0) >= held.readable_end for place, held in bounds.items()):
                return (
                    f"source.kafka.start ({moment.isoformat()}) is later than the last record of each topic. To read"
                    " the older records, correct the time and move the checkpoint away"
                )
    return None


def starting_options(
    kafka: KafkaSettings, resume: Mapping[Place, int], bounds: Mapping[Place, Bounds]
) -> dict[str, str]:
    """Spark options for the start; ``resume`` wins for the partitions that it names."""
    if resume:
        return {"startingOffsets": text_of(_resume_offsets(kafka, resume, bounds))}
    match kafka.start:
        case datetime() as moment:
            return {
                "startingTimestamp": str(int(moment.timestamp() * 1000)),
                "startingOffsetsByTimestampStrategy": "latest",
            }
        case str() as word:
            return {"startingOffsets": word}
        case chosen:
            _check_start(chosen, bounds)
            return {"startingOffsets": text_of({**dict.fromkeys(bounds, EARLIEST), **chosen})}


def starting_positions(
    kafka: KafkaSettings,
    resume: Mapping[Place, int],
    bounds: Mapping[Place, Bounds],
    begins_at: Callable[[int], Mapping[Place, int]],
) -> dict[Place, int]:
    """The start in each partition; ``resume`` wins for the partitions that it names.

    ``begins_at`` gives the offsets of a time in ms.
    """
    match kafka.start:
        case _ if resume:
            chosen: Mapping[Place, int] = _resume_offsets(kafka, resume, bounds)
        case datetime() as moment:
            chosen = begins_at(int(moment.timestamp() * 1000))
        case str() as word:
            chosen = dict.fromkeys(bounds, EARLIEST if word == "earliest" else LATEST)
        case Mapping() as offsets:
            _check_start(offsets, bounds)
            chosen = offsets
    found = {}
    for place, held in bounds.items():
        at = chosen.get(place, EARLIEST)
        found[place] = held.begin if at == EARLIEST else held.readable_end if at == LATEST else at
    return found


def _check_start(chosen: Mapping[Place, int], bounds: Mapping[Place, Bounds]) -> None:
    for (topic, partition), offset in chosen.items():
        held = bounds.get((topic, partition))
        where = f"source.kafka.start: topic {topic} partition {partition}"
        if held is None:
            raise ConfigError(f"{where} is not read by this pipeline; remove it, or add its topic to `topics`")
        if offset not in (EARLIEST, LATEST) and not held.begin <= offset <= held.end:
            raise ConfigError(
                f"{where} holds offsets {held.begin} to {held.end}, not {offset}; write one of these, -2 for the"
                " earliest or -1 for the latest"
            )


def _resume_offsets(
    kafka: KafkaSettings, resume: Mapping[Place, int], bounds: Mapping[Place, Bounds]
) -> dict[Place, int]:
    losses = lost_on_resume(resume, bounds)
    if losses and not (kafka.goes_on_after_loss and all(loss.end is not None for loss in losses)):
        raise cannot_resume(losses)
    starts = {**resume, **{loss.place: loss.end for loss in losses if loss.end is not None}}
    return {place: min(starts.get(place, EARLIEST), held.readable_end) for place, held in bounds.items()}


def cannot_resume(losses: Sequence[Loss]) -> RecordsLost:
    """The error of a new checkpoint if records after the positions of the tables are lost."""
    go_on = (
        ""
        if any(x.how is How.WENT_BACK for x in losses)
        else "set `on_data_loss: continue` to continue without them, or "
    )
    return RecordsLost(
        f"the tables cannot continue from their positions: {loss_words(losses)}; {go_on}set on_lost_checkpoint to "
        "restart to read the records in Kafka from `start` again. Before that, drop tables without primary key and "
        "tables that aggregate: they would count records twice. In other tables, rows that no later record changes "
        "stay as they are"
    )


def lost_on_resume(resume: Mapping[Place, int], bounds: Mapping[Place, Bounds]) -> list[Loss]:
    """The lost records after the positions of the tables, in partitions that still exist."""
    return lost_records({place: at for place, at in resume.items() if place in bounds and at != EARLIEST}, bounds)


def check_selected(
    checkpoint: str, kafka: KafkaSettings, closed: Mapping[Place, int], planned: Mapping[Place, int]
) -> None:
    """Raise ConfigError if the checkpoint at path ``checkpoint`` has read topics that the source no longer selects.

    Also if the checkpoint has ``planned`` a batch of such topics, which Spark would run first.
    """
    unread = sorted({topic for topic, _ in (*closed, *planned) if not kafka.topics.selects(topic)})
    if unread:
        has = "has read" if any(topic == unread[0] for topic, _ in closed) else "has a batch planned that reads"
        raise ConfigError(
            f"checkpoint {checkpoint} {has} topics that source.kafka.topics no longer selects:"
            f" {', '.join(unread)}. Select them again, or move the checkpoint away: with on_lost_checkpoint: resume"
            " the next start continues from the positions in the tables"
        )


def check_readable(closed: Mapping[Place, int], bounds: Mapping[Place, Bounds]) -> None:
    """Raise Outage if ``closed`` is beyond the offsets that are readable now, which is transient."""
    held_back = [place for place, at in closed.items() if place in bounds and at > bounds[place].readable_end]
    if held_back:
        topic, partition = held_back[0]
        raise Outage(
            f"topic {topic} partition {partition} was read beyond the beginning of a transaction that is still "
            "open. Start again when the transaction has ended, or set isolation.level to read_uncommitted under "
            "source.kafka.options"
        )


def refusal_of(losses: Sequence[Loss], closed: Mapping[Place, int]) -> RecordsLost:
    """The error of a checkpoint whose next records are lost; ``closed`` is the end of its last closed batch.

    No other choice is better. A start at other, stated offsets would reread records that tables have beyond the last
    closed batch. It would also skip records that paused tables have not read yet.
    """
    lost = {loss.place[0] for loss in losses}
    read = ", ".join(f"{topic}-{p} to offset {at}" for (topic, p), at in sorted(closed.items()) if topic in lost)
    return RecordsLost(
        f"records were lost before they were read: {loss_words(losses)} (read: {read or 'nothing'}); set "
        "`on_data_loss: continue` to continue with the remaining records, for one start or permanently. Rows that "
        "no later record changes"
        " stay as they are"
    )
