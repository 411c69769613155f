"""Reading Kafka for one pipeline: checks before the query, the stream, a watch during it, and why it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from paimon_table.errors import BrokenInvariant, ConfigError, Outage, SinkUnavailable, TidemarkError
from sources.kafka.admin import KafkaAdmin, connected, kafka_admin
from sources.kafka.failures import NOT_THERE, causes_in, is_of_kafka, kafka_failure
from sources.kafka.first_look import topics_at_first_look
from sources.kafka.group_offsets import GroupOffsets
from sources.kafka.lost_records import (
    RecordsLost,
    TopicsChanged,
    incomplete,
    loss_words,
    lost_in_batch,
    lost_records,
    lost_with,
)
from sources.kafka.record_streams import DirectStream, RecordStream, SparkStream
from sources.kafka.settings import EARLIEST, KafkaSettings
from sources.kafka.slices import KafkaSlices
from sources.kafka.small_batches import SmallBatches
from sources.kafka.start_offsets import (
    cannot_resume,
    check_listed,
    check_readable,
    check_selected,
    lost_on_resume,
    no_topic_words,
    refusal_of,
    source_bounds,
    start_behind_words,
)
from sources.kafka.watch import PATIENCE, KafkaWatch
from sources.lag import Lag
from sources.loss import How, Loss, Losses
from sources.pace import Pace
from sources.positions import Bounds, Place, Positions, Reading, Recorded
from sources.reader import OnStart, ReadHere, ShareReader, Standing
from sources.wording import NAMES_SHOWN, counted, first_of

log = logging.getLogger(__name__)

LAST_PATIENCE = {"default.api.timeout.ms": "5000", "request.timeout.ms": "3000"}
"""Timeouts of the last commits."""


class KafkaReader:
    """The ``SourceReader`` of topics in Kafka."""

    is_drained_by_spark = True
    unread_bytes: int | None = None

    def __init__(self, settings: KafkaSettings, standing: Standing) -> None:
        self._settings = settings
        self._standing = standing
        self._records: RecordStream = (
            DirectStream(settings, standing, self._pass_over) if settings.is_direct else SparkStream(settings, standing)
        )
        self._spark: SparkSession | None = None
        self._watch: KafkaWatch | None = None
        self._group: GroupOffsets | None = None
        self._earlier_group_failures = 0
        self.lag = Lag()
        self._gone: set[Place] = set()
        self._noted: set[str] = set()
        """Topics that have no id, or whose ids are recorded."""
        self._known_policies: set[str] = set()
        self.losses = Losses()
        self.failure: TidemarkError | None = None
        self.unfinished: Sequence[str] = ()
        self.why_nothing: str | None = None

    @property
    def share_reader(self) -> ShareReader | None:
        """See ``SourceReader``; None if Spark's reader reads."""
        return self._records.share_reader

    @property
    def read_here(self) -> ReadHere | None:
        """See ``SourceReader``; None if Spark's reader reads."""
        reader = self._records.share_reader
        return None if reader is None else SmallBatches(reader)

    @property
    def begin_words(self) -> str:
        match self._settings.start:
            case str() as word:
                return f"begins at the {word} record"
            case _:
                return "begins where source.kafka.start says"

    def check(self) -> None:
        """See ``SourceReader``: checks servers, login and topics without Java's client."""
        known = topics_at_first_look(self._settings)
        if known is not None:
            check_listed(self._settings, known)
            self._tell_no_topic(known)

    def stream(self, spark: SparkSession, slots: int, on_start: OnStart, pace: Pace, interval_s: float) -> DataFrame:
        """See ``SourceReader``; refuses losses, or reports and skips them."""
        self.stop()
        self._spark = spark
        self.failure = None
        with self._admin() as admin:
            known = admin.topic_ids()
            ids = self._selected(known)
            bounds = source_bounds(admin, self._settings)
            self._tell_no_topic(known)
            self._tell_compacted(admin, ids.keys() - self._known_policies)
            self._known_policies |= ids.keys()
        resumed: Positions = {}
        if self._standing.is_new:
            resumed = self._resume_positions(self._cut_recorded(ids, bounds), bounds)
            self._records.begin(resumed, bounds, lambda time_ms: self._at(ids, time_ms))
            self._pass_over(lost_on_resume(resumed, bounds))
            if not resumed:
                self._tell_start_behind(ids, bounds)
        else:
            self._go_on(ids, bounds)
        self._standing.note_topics(ids)
        self._noted = {*ids}
        on_start(topics_words(self._settings.servers, bounds), bool(resumed))
        self._start_watching(spark)
        return self._records.frame(spark, slots, len(bounds), pace, interval_s)

    def _at(self, topics: Collection[str], time_ms: int) -> Mapping[Place, int]:
        with self._admin() as admin:
            return admin.offsets_at(topics, time_ms)

    def _tell_no_topic(self, known: Collection[str]) -> None:
        """A pattern that matches no topic looks like an idle source: log it, and that nothing was read."""
        told_before, self.why_nothing = self.why_nothing, no_topic_words(self._settings, known)
        self.unfinished = () if self.why_nothing is None else (self.why_nothing,)
        if self.why_nothing not in (None, told_before):
            log.warning("%s: %s. The pipeline waits for a topic", self._standing.pipeline, self.why_nothing)

    def _tell_start_behind(self, topics: Collection[str], bounds: Mapping[Place, Bounds]) -> None:
        """Log why a first start finds nothing, if it begins after the last record."""
        words = start_behind_words(self._settings, bounds, lambda time_ms: self._at(topics, time_ms))
        if words is not None:
            self.why_nothing = words
            log.warning("%s: %s. The pipeline waits for new records", self._standing.pipeline, words)

    def _tell_compacted(self, admin: KafkaAdmin, topics: Collection[str]) -> None:
        """Warn of topics whose records may disappear unread without a visible gap."""
        try:
            compacted = admin.compacted(topics)
        except TidemarkError as error:  # a separate right, which many users do not have
            log.debug(
                "%s: Tidemark cannot read the clean-up policies of the topics: %s", self._standing.pipeline, error
            )
            return
        if compacted:
            log.warning(
                "%s: %s compacted (cleanup.policy). If Kafka removes records before Tidemark reads them, sums "
                "and logs of events lack them, and rows that were deleted meanwhile stay. Tidemark cannot detect "
                "this afterwards: set"
                " min.compaction.lag.ms of the topic longer than any downtime of the pipeline or a table",
                self._standing.pipeline,
                f"topic {compacted[0]} is"
                if len(compacted) == 1
                else f"{counted(len(compacted), 'topic')} ({', '.join(first_of(compacted, NAMES_SHOWN))}) are",
            )

    @property
    def silent_s(self) -> float | None:
        """See ``SourceReader``."""
        return None if self._watch is None else self._watch.silent_s

    @property
    def group_failure_count(self) -> int:
        """See ``SourceReader``; over all queries of this reader."""
        return self._earlier_group_failures + (0 if self._group is None else self._group.failure_count)

    def note_read(self, topics: Collection[str]) -> None:
        """See ``SourceReader``; asks Kafka once for topics that appeared since the query began."""
        new = {*topics} - self._noted
        if new:
            with self._admin() as admin:
                self.note_topics(self._selected(admin.topic_ids()))
            self._noted |= new
            if self.failure is not None:
                raise self.failure

    def read_to(self, offsets: Positions, newest_s: Mapping[Place, float]) -> None:
        """See ``SourceReader``."""
        self.lag.read_to(offsets, newest_s)

    def _go_on(self, ids: Mapping[str, str], bounds: Mapping[Place, Bounds]) -> None:
        """Raise the error that keeps the checkpoint from continuing, unless the policy allows it to continue."""
        closed, planned = self._standing.closed(), self._standing.planned()
        check_selected(self._standing.checkpoint, self._settings, closed, planned)
        anew = self._standing.made_anew(ids)
        losses = self._losses(anew, closed, planned, bounds)
        if losses and not self._settings.goes_on_after_loss:
            raise refusal_of(losses, closed)
        ended = {loss.place[0] for loss in losses if loss.end is None}
        if ended and (hindered := sorted(ended & {*self._standing.taken_over(ids)})):
            raise RecordsLost(
                f"{loss_words(losses)}; on_data_loss: continue cannot continue in {', '.join(hindered)}. Tables took"
                " over offsets of the old topic from an earlier checkpoint, and would skip as many records of the new"
                f" one. Move the checkpoint {self._standing.checkpoint} away: with on_lost_checkpoint: resume the next"
                " start reads the new topic from its first record"
            )
        self._standing.begin_anew(anew)
        moved: dict[Place, int | None] = {}
        if self._settings.goes_on_after_loss:
            self._pass_over(losses)
            known = {**closed, **planned}
            moved.update(dict.fromkeys(place for place in known if place[0] in anew or place not in bounds))
            moved.update({x.place: bounds[x.place].end for x in losses if x.how is How.WENT_BACK})
            self._standing.move(moved)
            for place in moved:
                self.losses.told.pop(place, None)
        check_readable({place: at for place, at in closed.items() if place not in moved}, bounds)

    def _losses(
        self, anew: Collection[str], closed: Positions, planned: Positions, bounds: Mapping[Place, Bounds]
    ) -> list[Loss]:
        """The lost records after the closed batches; a topic that was never read counts as new.

        A ``planned`` batch may have read the topic: tables may have its rows, and would take them for rows of the new
        topic.
        """
        begun = {place for place, end in planned.items() if end > closed.get(place, 0)}
        read = {topic for (topic, _), at in closed.items() if at > 0} | {topic for topic, _ in begun}
        left = {place: at for place, at in closed.items() if place[0] not in anew}
        for place, end in planned.items():  # tables may have what the batch has read
            if place[0] not in anew and place in bounds and end > bounds[place].end:
                left[place] = end
        # Spark drops a topic while it does not exist; only earlier batches know how far it was read.
        let_go = self._standing.let_go({place for place in begun - closed.keys() if place[0] in anew})
        ended = {**dict.fromkeys(begun, 0), **let_go, **closed}
        return [*lost_with({*anew} & read, ended), *lost_records(left, bounds)]

    def _pass_over(self, losses: Sequence[Loss]) -> None:
        """Log the losses, each offset once."""
        for loss in losses:
            begin, end = max(loss.begin, self.losses.told.get(loss.place, 0)), loss.end
            if end is not None:
                if begin >= end:
                    continue
                loss = replace(loss, begin=begin)
                self.losses.told[loss.place] = end
            self.losses.add(loss)
            log.warning(
                "%s: %s; on_data_loss: continue continues without them",
                self._standing.pipeline,
                loss,
                extra=_lost(loss),
            )

    def attach(self, spark: SparkSession) -> None:
        self._spark = spark

    def slices(self) -> KafkaSlices:
        return KafkaSlices(self._settings, self._admin, self._pass_over)

    def stop(self) -> None:
        """See ``SourceReader``; commits the last offsets of the group, if that does not take long."""
        if self._watch is None:
            return
        self._watch.stop()
        group, self._group, self._watch = self._group, None, None
        if group is not None and group.is_due:
            with suppress(TidemarkError, Py4JError, OSError), self._admin(LAST_PATIENCE) as admin:
                group.tell(admin.commit_group)
        if group is not None:
            self._earlier_group_failures += group.failure_count

    def explained(self, text: str) -> TidemarkError | None:
        """See ``SourceReader``; asks Kafka again."""
        if not is_of_kafka(text):
            return None
        found: TidemarkError
        try:
            with self._admin(PATIENCE) as admin:
                bounds = source_bounds(admin, self._settings)
            closed = self._standing.closed()
            losses = lost_records(closed, bounds)
            if losses and not self._settings.goes_on_after_loss:
                raise refusal_of(losses, closed)
            check_readable(closed, bounds)
        except TidemarkError as error:
            found = error
        else:
            if NOT_THERE in text:
                found = Outage("Kafka did not have the planned records, but has them now; Tidemark reads them again")
            else:
                found = kafka_failure(self._settings.servers, causes_in(text))
        needs_help = isinstance(found, SinkUnavailable) and not isinstance(found, Outage)
        goes_on = "; start again then, it continues where it stopped" if needs_help else ""
        return type(found)(f"pipeline {self._standing.pipeline}: {found}{goes_on}")

    def _admin(self, patience: Mapping[str, str] | None = None) -> AbstractContextManager[KafkaAdmin]:
        if self._spark is None:
            raise BrokenInvariant("requests to Kafka need Spark's JVM, which has not started; please report")
        return kafka_admin(self._spark._jvm, self._settings, patience)

    def _selected(self, ids: Mapping[str, str]) -> dict[str, str]:
        return {name: id_ for name, id_ in ids.items() if self._settings.topics.selects(name)}

    def _resume_positions(self, recorded: Recorded, bounds: Mapping[Place, Bounds]) -> Positions:
        """The positions of the tables, if ``on_lost_checkpoint`` uses them."""
        found = {**recorded.positions, **dict.fromkeys(recorded.unread, EARLIEST)}
        match self._standing.on_lost_checkpoint:
            case "restart":
                self._tell_rows_without_records(recorded, bounds)
                return {}
            case "fail" if found:
                raise ConfigError(
                    f"checkpoint {self._standing.checkpoint} is new, but pipeline {self._standing.pipeline} has written"
                    " tables under another one; restore that checkpoint, or set on_lost_checkpoint to resume or restart"
                )
        ended = {place[0] for place in recorded.ended if self._settings.topics.selects(place[0])}
        losses = lost_with(ended, recorded.ended)
        if losses and not self._settings.goes_on_after_loss:
            raise cannot_resume(losses)
        self._pass_over(losses)
        return found

    def _cut_recorded(self, ids: Mapping[str, str], bounds: Mapping[Place, Bounds]) -> Recorded:
        """The positions of the tables; if losses are allowed, none is beyond the end of its partition."""
        recorded = self._standing.recorded(ids)
        beyond = {place: at for place, at in recorded.highest.items() if place in bounds and at > bounds[place].end}
        if not beyond or self._standing.on_lost_checkpoint != "resume":
            return recorded
        if not self._settings.goes_on_after_loss:
            raise cannot_resume(lost_records(beyond, bounds))
        self._pass_over(lost_records(beyond, bounds))
        self._standing.cut({place: bounds[place].end for place in beyond})
        return self._standing.recorded(ids)

    def _tell_rows_without_records(self, recorded: Recorded, bounds: Mapping[Place, Bounds]) -> None:
        selects = self._settings.topics.selects
        selected = {place: at for place, at in recorded.positions.items() if selects(place[0])}
        ended = {place[0] for place in recorded.ended if selects(place[0])}
        losses = [*lost_with(ended, recorded.ended), *lost_records(selected, bounds)]
        if losses:
            log.warning(
                "%s: reading starts again, but Kafka has lost records since the tables were written: %s. Rows "
                "that no later record changes stay as they are; if they must go, delete the tables first",
                self._standing.pipeline,
                loss_words(losses),
            )

    def _start_watching(self, spark: SparkSession) -> None:
        admin = connected(spark._jvm, self._settings, PATIENCE)
        self.lag.read_to(self._standing.closed())
        if self._settings.group_id is not None:
            self._group = GroupOffsets(self._standing.pipeline, self._settings.group_id, self.lag.positions)

        def topic_ids() -> Mapping[str, str]:
            return self._selected(admin.topic_ids())

        def answered(ids: Mapping[str, str]) -> None:
            self.note_topics(ids)
            self._look_at_ends(admin, ids)

        self._watch = KafkaWatch(
            self._standing.pipeline,
            self._settings.properties,
            topic_ids,
            answered,
            on_end=admin.close,
        )
        self._watch.start()

    def _look_at_ends(self, admin: KafkaAdmin, topics: Collection[str]) -> None:
        """During the query: the ends of the partitions, and the offsets of the group."""
        group = self._group
        if group is not None:
            group.tell(admin.commit_group)
        try:
            self.lag.ends_at(admin.ends(topics), time.time())
        except TidemarkError as error:
            log.debug("%s: Tidemark cannot read the ends of the topics: %s", self._standing.pipeline, error)

    @property
    def wants_readings(self) -> bool:
        """See ``SourceReader``."""
        return self._settings.goes_on_after_loss

    def note_topics(self, ids: Mapping[str, str]) -> None:
        """Record the topics that exist now; sets ``failure`` if one was recreated since it was read."""
        try:
            refusal = self._refusal_of_anew(ids)
            if refusal is not None:
                self.failure = self.failure or refusal
            else:
                self._tell_gone(ids)
                self._standing.note_topics(ids)
        except (OSError, TidemarkError) as error:
            log.warning("%s: Tidemark cannot record topics in the checkpoint: %s", self._standing.pipeline, error)

    def _tell_gone(self, ids: Mapping[str, str]) -> None:
        """Log the losses from deleted topics; Spark ignores these silently."""
        if not self._settings.goes_on_after_loss:
            return
        gone = {place: at for place, at in self._standing.closed().items() if place[0] not in ids}
        self._pass_over(lost_records({place: at for place, at in gone.items() if place not in self._gone}, {}))
        self._gone = {*gone}

    def check_read(self, planned: Mapping[Place, tuple[int, int]], readings: Sequence[Reading]) -> None:
        """See ``SourceReader``: the topics must match those of the checkpoint; reports missing records."""
        with self._admin() as admin:
            refusal = self._refusal_of_anew(self._selected(admin.topic_ids()))
            if refusal is not None:
                raise refusal
            suspects = incomplete(planned, readings)
            begins = admin.begins(suspects) if suspects else {}
        self._pass_over(lost_in_batch({place: planned[place] for place in suspects}, readings, begins))

    def _refusal_of_anew(self, ids: Mapping[str, str]) -> TidemarkError | None:
        """Why the running query must end, if topics were recreated since they were read."""
        anew = self._standing.made_anew(ids)
        if not anew:
            return None
        closed = self._standing.closed()
        # If losses are refused, a batch that began after the topic was recreated must not count as a loss.
        planned = self._standing.planned() if self._settings.goes_on_after_loss else {}
        losses = self._losses(anew, {place: at for place, at in closed.items() if place[0] in anew}, planned, {})
        if losses and not self._settings.goes_on_after_loss:
            return refusal_of(losses, closed)
        if not losses and {*anew} <= {topic for topic, _ in closed}:
            return None  # they were never read
        # If the stream has no position, Spark dropped the topic while it did not exist; tables may have offsets.
        return TopicsChanged(f"topics were recreated: {', '.join(anew)}; the query starts again to read them")


def _lost(loss: Loss) -> dict[str, object]:
    """The loss as an event of the log."""
    topic, partition = loss.place
    fields = {"topic": topic, "partition": partition, "begin": loss.begin, "end": loss.end, "reason": loss.how.value}
    return {"event": "records-lost", "fields": fields}


def topics_words(servers: str, places: Collection[Place]) -> str:
    """``3 topics with 12 partitions of localhost:9092 (a, b, c)``."""
    topics = sorted({topic for topic, _ in places})
    if not topics:
        return f"no topic of {servers} yet"
    words = f"{counted(len(topics), 'topic')} with {counted(len(places), 'partition')} of {servers}"
    return f"{words} ({', '.join(first_of(topics, NAMES_SHOWN))})"
