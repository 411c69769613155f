"""Which records are open: a table of cases, and histories of facts against a plain dict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.errors import CorruptFile
from paimon_table.storage.file_io import LocalFileIO
from pipelines.bad_records.facts import Facts, facts_of, finished_of, settle
from pipelines.bad_records.log import (
    Applied,
    Closed,
    Entry,
    Evidence,
    Place,
    QuarantineLog,
    Sealed,
    Switched,
    stretches,
)

P = Place("shop.public.orders", "id-1", 0, 7, 1_000)
ANEW, REPLACED, LINE = P._replace(topic_id="id-2"), P._replace(ts=2_000), Place("malformed:f", "", -1, 12, None)


@dataclass
class Tables:
    """A ``Judge``: snapshots that tables have, and steps that they have."""

    snapshots: set[int] = field(default_factory=lambda: {1, 2, 3})
    steps: dict[str, int] = field(default_factory=dict)

    def holds(self, evidence: Evidence) -> bool:
        return evidence.snapshot_id in self.snapshots

    def is_final(self, evidence: Evidence) -> bool:
        return evidence.snapshot_id == 1

    def committed(self, sealed: Sealed, table: str) -> Evidence | None:
        return by(self.steps[sealed.step]) if sealed.step in self.steps else None


def by(snapshot_id: int) -> Evidence:
    return Evidence(table="lake.orders", created_ms=0, snapshot_id=snapshot_id, time_ms=0)


def bad(*places: Place, step: str = "q/batch-1", rebuild: str = "") -> Sealed:
    return Sealed(step=step, rebuild=rebuild, bad={f"{len(places)}.jsonl": stretches(places)})


def good(*places: Place, step: str = "q/batch-2", rebuild: str = "") -> Sealed:
    return Sealed(step=step, rebuild=rebuild, good={"lake.orders": stretches(places)})


def applied(*places: Place, snapshot: int = 3) -> Applied:
    return Applied(by="q/batch-2", evidence=by(snapshot), places=stretches(places))


def dropped(*places: Place) -> Closed:
    return Closed(why="dropped", places=stretches(places))


def log_of(root: Path, entries: Iterable[Entry]) -> QuarantineLog:
    log = QuarantineLog(LocalFileIO(), str(root))
    for entry in entries:
        log.append(entry)
    return QuarantineLog(LocalFileIO(), str(root))


CASES: dict[str, tuple[list[Entry], set[Place]]] = {
    "bad": ([bad(P)], {P}),
    "bad twice, by a batch that ran again": ([bad(P), bad(P)], {P}),
    "bad and applied": ([bad(P), applied(P)], set()),
    "applied and bad again": ([bad(P), applied(P), bad(P)], {P}),
    "dropped": ([bad(P), dropped(P)], set()),
    "dropped and bad again": ([bad(P), dropped(P), bad(P)], {P}),
    "applied by a snapshot that is gone": ([bad(P), applied(P, snapshot=4)], {P}),
    "dropped, then applied by a snapshot that is gone": ([bad(P), dropped(P), applied(P, snapshot=4)], set()),
    "about to be applied, and not committed": ([bad(P), good(P)], {P}),
    "about to be applied, and committed": ([bad(P), good(P, step="committed")], set()),
    "about to be applied, then bad in the run that was committed": (
        [bad(P), good(P, step="committed"), bad(P, step="committed")],
        {P},
    ),
    "of a topic that was recreated": ([bad(P), bad(ANEW), applied(P)], {ANEW}),
    "of a dump that was replaced": ([bad(P), bad(REPLACED), applied(REPLACED)], {P}),
    "a line that is no record": ([bad(LINE, P), applied(P)], {LINE}),
    "bad in a rebuild that has not switched": ([bad(P), applied(P), bad(P, rebuild="r")], set()),
    "bad in a rebuild": ([bad(P), applied(P), bad(P, rebuild="r"), Switched(rebuild="r", evidence=by(3))], {P}),
    "good in a rebuild": ([bad(P), good(P, rebuild="r"), Switched(rebuild="r", evidence=by(3))], set()),
    "good in a rebuild that was taken back": (
        [bad(P), good(P, rebuild="r"), Switched(rebuild="r", evidence=by(4))],
        {P},
    ),
    "good in another rebuild": ([bad(P), good(P, rebuild="r"), Switched(rebuild="s", evidence=by(3))], {P}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_open(tmp_path: Path, case: str) -> None:
    entries, wanted = CASES[case]
    log = log_of(tmp_path, entries)
    log.refresh()
    assert {*facts_of(log, Tables(steps={"committed": 2})).places()} == wanted


FINISHED: dict[str, tuple[list[Entry], set[Place]]] = {
    "bad": ([bad(P)], set()),
    "dropped": ([bad(P), dropped(P)], {P}),
    "dropped and bad again": ([bad(P), dropped(P), bad(P)], set()),
    "dropped, then about to be applied, and not committed": ([bad(P), dropped(P), good(P)], {P}),
    "dropped, then applied by a snapshot that is gone": ([bad(P), dropped(P), applied(P, snapshot=4)], {P}),
    "applied by a snapshot that can be rolled back": ([bad(P), applied(P)], set()),
    "applied by a snapshot that stays": ([bad(P), applied(P, snapshot=1)], {P}),
    "about to be applied, and committed": ([bad(P), good(P, step="committed")], set()),
    "of a topic that was recreated": ([bad(P), bad(ANEW), dropped(P)], {P}),
    "good in a rebuild": ([bad(P), good(P, rebuild="r"), Switched(rebuild="r", evidence=by(1))], {P}),
    "bad in a rebuild": ([bad(P), dropped(P), bad(P, rebuild="r"), Switched(rebuild="r", evidence=by(1))], set()),
}


@pytest.mark.parametrize("case", FINISHED)
def test_what_nothing_opens_again(tmp_path: Path, case: str) -> None:
    entries, wanted = FINISHED[case]
    log = log_of(tmp_path, entries)
    log.refresh()
    assert {*finished_of(log, Tables(steps={"committed": 2}))} == wanted


def test_what_tables_tell_now_is_written_down(tmp_path: Path) -> None:
    """Their snapshots may have expired when somebody looks the next time."""
    entries: list[Entry] = [bad(P), good(P, step="committed"), bad(REPLACED), applied(REPLACED, snapshot=4)]
    log = log_of(tmp_path, entries)
    settle(log, Tables(steps={"committed": 2}))
    settle(log, Tables(steps={"committed": 2}))
    assert [entry.kind for _, entry in sorted(log.entries.items())][len(entries) :] == ["voided", "applied"]
    everything = Tables({*range(10)})
    assert {*facts_of(log, everything).places()} == {REPLACED}


def test_what_was_bad_since_is_not_settled(tmp_path: Path) -> None:
    log = log_of(tmp_path, [bad(P), good(P, step="committed"), bad(P, step="later")])
    settle(log, Tables(steps={"committed": 2}))
    assert {*facts_of(log, Tables()).places()} == {P}


@pytest.mark.parametrize("content", [b"", b"{}", b"null", b"\xff\xfe\xfd", b"[" * 100_000], ids=range(5))
def test_a_damaged_entry_is_named_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    log = log_of(tmp_path, [bad(P)])
    (file,) = (tmp_path / "log").iterdir()
    file.write_bytes(content)
    with pytest.raises(CorruptFile, match=rf"{file} is damaged; .* Restore it\. If you remove it"):
        log.refresh()


def test_two_who_write_at_once_lose_nothing(tmp_path: Path) -> None:
    one, other = (QuarantineLog(LocalFileIO(), str(tmp_path)) for _ in range(2))
    for log in (one, other):
        log.refresh()
    one.append(bad(P))
    other.append(bad(LINE))
    one.append(dropped(LINE))
    assert {*facts_of(one, Tables()).places()} == {P} and len(one.entries) == 3


PLACES = st.builds(
    Place,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["", "x"]),
    st.integers(0, 1),
    st.integers(0, 3),
    st.sampled_from([None, 0, 5]),
)
SETS = st.lists(PLACES, min_size=1, max_size=6)
MAKE: dict[str, Callable[[list[Place]], Entry]] = {
    "bad": lambda places: bad(*places),
    "applied": lambda places: applied(*places),
    "void": lambda places: applied(*places, snapshot=4),
    "dropped": lambda places: dropped(*places),
    "committed": lambda places: good(*places, step="committed"),
    "uncommitted": lambda places: good(*places),
}


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(sorted(MAKE)), SETS), max_size=12))
def test_histories_come_to_what_a_plain_dict_has(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, list[Place]]]
) -> None:
    last: dict[Place, bool] = {}
    for kind, places in history:
        if kind not in ("void", "uncommitted"):
            last.update(dict.fromkeys(places, kind == "bad"))
    log = log_of(tmp_path_factory.mktemp("log"), (MAKE[kind](places) for kind, places in history))
    log.refresh()
    facts = facts_of(log, Tables(steps={"committed": 2}))

    is_open = {place for place, is_bad in last.items() if is_bad}
    assert {*facts.places()} == is_open and len(facts) == len(is_open)
    assert all((facts.at(place) is not None) == is_bad for place, is_bad in last.items())
    assert _offsets(facts) == {
        (topic, partition): sorted({p.offset for p in is_open if (p.topic, p.partition) == (topic, partition)})
        for topic, _, partition, *_ in is_open
    }


def _offsets(facts: Facts) -> dict[tuple[str, int], list[int]]:
    return {place: offsets.tolist() for place, offsets in facts.offsets({}).items()}
