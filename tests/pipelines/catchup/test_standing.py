"""How a table stands, case by case: what was noted, what is found, and what is noted then.

Positions of the stream are those of Kafka. The stream begins batch 5 at ``NOW``; the table ``lake.t`` was made at 1 ms.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from paimon_table.errors import ConfigError
from pipelines.catchup.standing import (
    Files,
    RuleFacts,
    StreamFacts,
    TableFacts,
    Verdict,
    lacks_commits,
    standing,
    standing_of_paused,
)
from pipelines.checkpoint.book import Cause, Entry, Pause, Ruleless
from pipelines.checkpoint.reached import Reached
from pipelines.tables.paused_tables import FILLED
from sinks.commit.positions import FedBy, Position
from sources.kafka.settings import KafkaSettings
from sources.kafka.slices import KafkaSlices
from sources.positions import Place
from sources.topics import TopicSelection
from sources.wording import counted


def at(**topics: Mapping[int, int] | int) -> str:
    """A position: the next offset of partition 0 of each topic, or of several partitions."""
    nested = {topic: {0: of} if isinstance(of, int) else of for topic, of in topics.items()}
    return json.dumps({topic: {str(p): n for p, n in of.items()} for topic, of in nested.items()})


NOW, LATER = at(a=40, b=30), at(a=50, b=35)
STREAM = StreamFacts("shop", "cp", 5, NOW, None, {}, now_ms=1_000)
KAFKA = KafkaSlices(KafkaSettings("localhost:1", TopicSelection()), lambda: pytest.fail("asks Kafka"), lambda _: None)
A, B = FedBy("a", None, None, "t"), FedBy("b", None, None, "t")
FILES = Files(created_ms=1, newest_id=9)


def position(commits: int = 3, *sources: FedBy, **topics: int) -> Position:
    offsets = {(topic, 0): n for topic, n in (topics or {"a": 33}).items()}
    return Position("u", offsets, sources=dict.fromkeys(sources or (A,), ()), commit_count=commits, snapshot_id=9)


KNOWN = Entry(created_ms=1, commits=3, snapshot_id=9, topics=("a",))
IN_STREAM = TableFacts("lake.t", KNOWN, position(), FILES)
FAILED = Pause("lake.t", Cause.FAILED, "full", 500, 3, at(a=20), topics=("a",))
ASKED = replace(FAILED, cause=Cause.ASKED, reason="by hand")
NO_RULE = "no rule wrote it from batch 5 on"
GONE = Pause("lake.t", Cause.FAILED, NO_RULE, 1_000, 5, NOW, topics=("a",), public_reason=NO_RULE, has_rule=False)
FILLING = Pause("lake.t", Cause.NEW, FILLED, 1_000, 5, None, topics=("a",), public_reason=FILLED)


def lacking(count: int) -> str:
    return f"it lacks the last {counted(count, 'commit')} of the pipeline: restored from a backup, or rolled back"


def rolled_back(count: int, begin: str | None, *, cause: Cause = Cause.FAILED, batch: int = 5) -> Pause:
    reason = lacking(count)
    return Pause("lake.t", cause, reason, 1_000, batch, begin, topics=("a",), public_reason=reason)


@dataclass(frozen=True)
class Case:
    """Facts, and what is to come of them: the entry that is noted, and the lines that are said."""

    found: TableFacts
    noted: Entry
    says: tuple[str, ...] = ()
    stream: StreamFacts = field(default=STREAM)


def with_rules(table: TableFacts, **rules: object) -> TableFacts:
    return replace(table, rules=replace(table.rules, **rules))  # type: ignore[arg-type]


def paused(table: TableFacts, pause: Pause | None, **entry: object) -> TableFacts:
    return replace(table, entry=replace(table.entry, pause=pause, **entry))  # type: ignore[arg-type]


AWAY = with_rules(IN_STREAM, is_written=False)
LOW = replace(IN_STREAM, position=position(1, a=12))
NONE = replace(IN_STREAM, position=None)
NEW = TableFacts("lake.t", rules=RuleFacts(topics=frozenset({"a"})))

CASES = {
    # ---------------------------------------------------------------- nothing has happened
    "in the stream": Case(IN_STREAM, KNOWN),
    "in the stream, not looked at": Case(replace(IN_STREAM, files=None), KNOWN),
    "cannot be read": Case(replace(AWAY, is_readable=False), KNOWN),
    "paused by hand": Case(paused(IN_STREAM, ASKED), replace(KNOWN, pause=ASKED)),
    "failed before": Case(paused(IN_STREAM, FAILED), replace(KNOWN, pause=FAILED)),
    "dropped": Case(replace(NONE, files=Files(None)), KNOWN),
    "recreated by somebody": Case(replace(NONE, files=Files(created_ms=7, newest_id=1)), KNOWN),
    # ---------------------------------------------------------------- rules of tables
    "its rule is gone": Case(AWAY, replace(KNOWN, pause=GONE), ("no rule writes it; Tidemark keeps its position",)),
    "its rule is gone, a batch is under way": Case(
        AWAY,
        replace(KNOWN, pause=replace(GONE, after=LATER)),
        ("Tidemark keeps its position",),
        replace(STREAM, after=LATER),
    ),
    "its rule is still gone": Case(paused(AWAY, GONE), replace(KNOWN, pause=GONE)),
    "its rule is gone, it was paused": Case(
        paused(AWAY, ASKED), replace(KNOWN, pause=replace(ASKED, has_rule=False)), ("Tidemark keeps its position",)
    ),
    "its rule is back": Case(
        paused(IN_STREAM, GONE),
        replace(KNOWN, pause=replace(GONE, has_rule=True)),
        (f"{NO_RULE}; Tidemark catches it up alongside the stream",),
    ),
    "its rule is back, with topics of its own": Case(
        with_rules(paused(IN_STREAM, GONE), topics=frozenset({"b"})),
        replace(KNOWN, pause=replace(GONE, has_rule=True, topics=("a", "b"))),
        ("Tidemark catches it up",),
    ),
    "its rule is back, with topics that nobody knows": Case(
        with_rules(paused(IN_STREAM, GONE), topics=None),
        replace(KNOWN, pause=replace(GONE, has_rule=True, topics=())),
        ("Tidemark catches it up",),
    ),
    "its rule is back, it was paused by hand": Case(
        paused(IN_STREAM, replace(ASKED, has_rule=False)),
        replace(KNOWN, pause=ASKED),
        ("by hand; it stays paused",),
    ),
    "its rule is back, it was dropped meanwhile": Case(
        paused(replace(NONE, files=Files(None)), GONE), replace(KNOWN, paused_ms=1_000)
    ),
    "its rule is back and fills it, it was dropped meanwhile": Case(
        with_rules(paused(replace(NONE, files=Files(None)), replace(GONE, since_ms=400)), is_filled=True),
        replace(KNOWN, pause=FILLING),
        ("Tidemark catches it up",),
    ),
    "it failed before its first rows, and its rule is back": Case(
        TableFacts("lake.t", Entry(pause=replace(FAILED, has_rule=False))),
        Entry(pause=FAILED),
        ("full; Tidemark catches it up",),
    ),
    # ---------------------------------------------------------------- rules of source tables
    "one of its sources is led elsewhere": Case(
        with_rules(replace(IN_STREAM, position=position(3, A, B, a=33, b=21)), ruleless=frozenset({B})),
        replace(KNOWN, ruleless=(Ruleless(B, 5, NOW),)),
        ("no rule routes records of t (topic b) to it; it lacks them from batch 5 on",),
    ),
    "one of its sources is still led elsewhere": Case(
        with_rules(
            paused(replace(IN_STREAM, position=position(3, A, B)), None, ruleless=(Ruleless(B, 2, at(b=4)),)),
            ruleless=frozenset({B}),
        ),
        replace(KNOWN, ruleless=(Ruleless(B, 2, at(b=4)),)),
    ),
    "one of its sources is led elsewhere while it is paused": Case(
        with_rules(paused(replace(IN_STREAM, position=position(3, A, B)), ASKED), ruleless=frozenset({B})),
        replace(KNOWN, pause=ASKED, ruleless=(Ruleless(B, 5, ASKED.begin),)),
        ("no rule routes records of t (topic b)",),
    ),
    "it is back without one of its sources": Case(
        with_rules(
            paused(replace(IN_STREAM, position=position(3, A, B)), replace(GONE, batch=2)), ruleless=frozenset({B})
        ),
        replace(KNOWN, pause=replace(GONE, batch=2, has_rule=True), ruleless=(Ruleless(B, 2, NOW),)),
        (
            "Tidemark catches it up",
            "no rule routes records of t (topic b) to it; it lacks them from batch 2 on",
        ),
    ),
    "a source is back in a topic that feeds it otherwise too": Case(
        paused(
            replace(IN_STREAM, position=position(3, A, FedBy("a", None, None, "u"))),
            None,
            ruleless=(Ruleless(A, 2, at(a=4)),),
        ),
        KNOWN,
        ("no rule routed records of t (topic a) to it from batch 2 on; it lacks those from before batch 5",),
    ),
    "a source is back, in dump files": Case(
        paused(replace(IN_STREAM, position=position(3, A, B)), None, ruleless=(Ruleless(B, 2, None),)),
        KNOWN,
        ("from before batch 5: `tidemark replay",),
        replace(STREAM, begin=None),
    ),
    # ---------------------------------------------------------------- rolled back, restored
    "it was rolled back": Case(
        LOW,
        replace(KNOWN, commits=1, pause=rolled_back(2, at(a=12))),
        (f"{lacking(2)}; Tidemark reads it again from its position",),
    ),
    "it was rolled back, and is paused by hand": Case(
        paused(LOW, ASKED),
        replace(KNOWN, commits=1, pause=rolled_back(2, at(a=12), cause=Cause.ASKED)),
        ("reads it again",),
    ),
    "it was rolled back, and any topic may feed it": Case(
        paused(LOW, replace(FAILED, topics=())),
        replace(KNOWN, commits=1, pause=replace(rolled_back(2, at(a=12)), topics=())),
        ("reads it again",),
    ),
    "it was rolled back to before its first commit": Case(
        NONE, replace(KNOWN, commits=0, snapshot_id=0, pause=rolled_back(3, None)), ("lacks the last 3 commits",)
    ),
    "it was rolled back, its topic was recreated": Case(
        replace(LOW, position=replace(position(1, a=12), topics={"a": "1"})),
        replace(KNOWN, commits=1, pause=rolled_back(2, None)),
        ("reads it again",),
        replace(STREAM, topic_ids={"a": "2"}),
    ),
    "it was rolled back, and a source has no rule": Case(
        with_rules(
            paused(
                replace(IN_STREAM, position=position(1, A, B, a=12)),
                None,
                ruleless=(Ruleless(B, 2, at(a=7, b={0: 4, 1: 2})),),
            ),
            ruleless=frozenset({B}),
        ),
        replace(KNOWN, commits=1, pause=rolled_back(2, at(a=12)), ruleless=(Ruleless(B, 2, at(a=7)),)),
        ("reads it again",),
    ),
    "it was rolled back, and no rule writes it": Case(
        with_rules(LOW, is_written=False), replace(KNOWN, pause=GONE), ("Tidemark keeps its position",)
    ),
    "its commits have expired": Case(replace(NONE, files=Files(1, 12, earliest_id=10)), KNOWN),
    # ---------------------------------------------------------------- more than was noted
    "a batch that was killed has committed": Case(
        replace(IN_STREAM, position=position(4, a=39, c=2)), replace(KNOWN, commits=4, topics=("a", "c"))
    ),
    "found under a new checkpoint": Case(
        replace(IN_STREAM, entry=Entry()), replace(KNOWN, commits=3, snapshot_id=9, topics=("a",))
    ),
    "found under a new checkpoint, without a rule": Case(
        replace(AWAY, entry=Entry()), replace(KNOWN, pause=GONE), ("Tidemark keeps its position",)
    ),
    # ---------------------------------------------------------------- new tables
    "new": Case(NEW, Entry()),
    "new, and filled": Case(with_rules(NEW, is_filled=True), Entry(pause=FILLING), (FILLED,)),
    "new, and filled from all topics": Case(
        with_rules(NEW, is_filled=True, topics=None), Entry(pause=replace(FILLING, topics=())), (FILLED,)
    ),
    "new, and nothing was read that is for it": Case(with_rules(NEW, is_filled=True, topics=frozenset()), Entry()),
}


def told(verdict: Verdict) -> list[str]:
    return [text for _, text in verdict.remarks]


def normal(entry: Entry) -> Entry:
    """With positions in one spelling."""

    def spelt(begin: str | None) -> str | None:
        return None if begin is None else json.dumps(json.loads(begin), sort_keys=True)

    ruleless = tuple(replace(one, begin=spelt(one.begin)) for one in entry.ruleless)
    pause = None if entry.pause is None else replace(entry.pause, begin=spelt(entry.pause.begin))
    return replace(entry, pause=pause, ruleless=ruleless)


@pytest.mark.parametrize("name", CASES)
def test_a_table_stands(name: str) -> None:
    case = CASES[name]
    verdict = standing(case.found, case.stream, KAFKA)
    assert normal(verdict.entry) == normal(case.noted)
    says = told(verdict)
    assert len(says) == len(case.says)
    assert all(text.startswith("table lake.t: ") and words in text for text, words in zip(says, case.says, strict=True))


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("new")])
def test_a_start_that_was_killed_decides_the_same_again(name: str) -> None:
    """What was noted is what is found then: nothing changes, and nothing is said twice."""
    case = CASES[name]
    first = standing(case.found, case.stream, KAFKA)
    again = standing(replace(case.found, entry=first.entry), replace(case.stream, now_ms=2_000), KAFKA)
    assert (normal(again.entry), told(again)) == (normal(first.entry), [])


# ---------------------------------------------------------------- sources that come back


@pytest.mark.parametrize(
    ("pause", "expected"),
    [
        (None, {"a": {"0": 7, "1": 4}, "b": {"0": 30, "1": 20}, "c": {"0": 5}}),
        (at(a=9, b=28), {"a": {"0": 7}, "b": {"0": 30}}),
    ],
    ids=["in the stream", "paused"],
)
def test_a_source_that_is_back_is_read_from_where_the_table_stands_in_each_partition(
    pause: str | None, expected: dict[str, dict[str, int]]
) -> None:
    """Known: a-0 to 7 and b-0 to 30. It was without a since batch 2, where a had two partitions."""
    stream = replace(STREAM, begin=at(a={0: 40, 1: 40, 2: 9}, b={0: 33, 1: 20}, c=5))
    known = Entry(1, 3, 9, ("a", "b"), ruleless=(Ruleless(A, 2, at(a={0: 10, 1: 4})),))
    if pause is not None:
        known = replace(known, pause=replace(FAILED, begin=pause, topics=("a", "b")))
    table = TableFacts("lake.t", known, position(3, A, B, a=7, b=30), FILES)

    verdict = standing(table, stream, KAFKA)

    assert verdict.entry.pause is not None
    assert json.loads(verdict.entry.pause.begin or "") == expected
    assert verdict.entry.ruleless == ()
    assert "from batch 2 on; Tidemark catches it up alongside the stream" in told(verdict)[0]
    assert verdict.entry.pause.topics == ("a", "b")


def test_a_source_that_is_back_is_read_from_the_begin_of_its_recreated_topic() -> None:
    stream = replace(STREAM, topic_ids={"a": "2", "b": "1"})
    known = Entry(1, 3, 9, ("a", "b"), ruleless=(Ruleless(A, 2, at(a=10)),))
    found = replace(position(3, A, B, a=7, b=21), topics={"a": "1", "b": "1"})

    pause = standing(TableFacts("lake.t", known, found, FILES), stream, KAFKA).entry.pause

    assert pause is not None and json.loads(pause.begin or "") == {"b": {"0": 21}}


# ---------------------------------------------------------------- what nobody can read again


def test_a_position_that_expires_after_a_rollback_to_it_is_not_missed() -> None:
    """The newest snapshot of that moment is another writer's, and is still there."""
    back = standing(
        TableFacts("lake.t", KNOWN, position(1), Files(1, newest_id=12, earliest_id=8)), STREAM, KAFKA
    ).entry
    assert back.pause is not None and (back.commits, back.snapshot_id) == (1, 9)

    assert standing(TableFacts("lake.t", back, None, Files(1, 15, earliest_id=10)), STREAM, KAFKA).entry == back


@pytest.mark.parametrize("newest_id", [4, 12], ids=["no commits since", "others have committed since"])
def test_a_table_whose_snapshots_are_older_and_say_nothing_is_refused(newest_id: int) -> None:
    table = replace(NONE, files=Files(1, newest_id, earliest_id=3))
    with pytest.raises(ConfigError, match=rf"lake\.t was rolled back, .*has the snapshots 3 to {newest_id}"):
        standing(table, STREAM, KAFKA)


class DumpPositions:
    """Positions of dump files: offsets of tables do not tell where to go on."""

    def offsets(self, position: str) -> Mapping[Place, int] | None:
        return None

    def position_at_offsets(self, offsets: Mapping[Place, int]) -> str | None:
        return None


def test_a_table_that_dump_files_cannot_bring_up_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"lacks the last 2 commits of pipeline shop that checkpoint cp has .*Dump"):
        standing(LOW, STREAM, DumpPositions())


# ---------------------------------------------------------------- while it is caught up

UNDER_WAY = replace(FAILED, reached=Reached(at(a=25), 5, 600))


@pytest.mark.parametrize(
    ("found", "noted"),
    [
        (paused(IN_STREAM, UNDER_WAY), None),
        (paused(LOW, UNDER_WAY), replace(KNOWN, commits=1, pause=rolled_back(2, at(a=12)))),
        (paused(replace(NONE, files=Files(None)), UNDER_WAY), None),
        (
            paused(replace(NONE, files=Files(7)), replace(FILLING, reached=UNDER_WAY.reached, since_ms=600)),
            replace(KNOWN, commits=0, snapshot_id=0, pause=FILLING),
        ),
        (paused(TableFacts("lake.t", files=Files(7)), FILLING), None),
    ],
    ids=["as it was", "rolled back", "dropped", "dropped while it was filled", "has no rows yet"],
)
def test_a_paused_table_is_looked_at_before_each_slice(found: TableFacts, noted: Entry | None) -> None:
    verdict = standing_of_paused(found, STREAM, KAFKA)
    assert (verdict.is_moved, normal(verdict.entry)) == (noted is not None, normal(noted or found.entry))


def test_two_pauses_of_a_table_never_have_the_same_time() -> None:
    """Who commits their slices is named after it; clocks may go back."""
    known = replace(KNOWN, pause=replace(FAILED, since_ms=5_000))
    moved = standing(replace(LOW, entry=known), STREAM, KAFKA).entry
    assert moved.pause is not None and moved.pause.since_ms == 5_001
    assert moved.resumed().next_pause_ms(1_000) == 5_002


@pytest.mark.parametrize(("commits", "expected"), [(2, True), (3, False), (4, False)])
def test_a_table_lacks_commits(commits: int, expected: bool) -> None:
    assert lacks_commits(replace(IN_STREAM, position=position(commits))) is expected


def test_what_is_lost_is_a_warning_and_what_is_kept_is_not() -> None:
    levels = {name: [level for level, _ in standing(c.found, c.stream, KAFKA).remarks] for name, c in CASES.items()}
    assert levels["it was rolled back"] == levels["its rule is back"] == [logging.WARNING]
    assert levels["its rule is gone"] == levels["new, and filled"] == [logging.INFO]
