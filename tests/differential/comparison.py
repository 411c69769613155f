"""Where two plays of one history disagree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.differential.history import History
from tests.differential.outcome import Changes, CommitOutcome, Rows
from tests.differential.playing import Played


@dataclass(frozen=True, slots=True)
class Mismatch:
    """``aspect`` is one of error, content, changes; ``side`` says who wrote what is compared."""

    commit: int
    aspect: str
    side: str
    text: str
    changes: Mapping[str, tuple[Rows, Rows]] = field(default_factory=dict)
    """For changes between the tables: key to what Java and what Tidemark says of it, where they differ."""

    def __str__(self) -> str:
        return f"commit {self.commit}, {self.aspect} ({self.side}): {self.text}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """``compared`` commits agree; the rest was compacted at other times by the two, so that outcomes may differ."""

    mismatch: Mismatch | None
    compared: int


def compare(history: History, ours: Played, theirs: Played) -> Verdict:
    """The first mismatch: between the readers of one table, or between the tables."""
    for number, (own, java) in enumerate(zip(ours, theirs, strict=False), start=1):
        found = _readers_differ(number, "written by Tidemark", own) or _readers_differ(number, "written by Java", java)
        if found is not None:
            return Verdict(found, number - 1)
        if own.error is not None or java.error is not None:
            return Verdict(_errors_differ(number, own, java), number)
        if own.levels != java.levels and not _is_free_of_compaction(history):
            return Verdict(None, number - 1)
        found = _tables_differ(number, own, java)
        if found is not None:
            return Verdict(found, number - 1)
    if len(ours) != len(theirs):
        return Verdict(Mismatch(min(len(ours), len(theirs)) + 1, "error", "both", "one of them ended early"), 0)
    return Verdict(None, len(ours))


def _is_free_of_compaction(history: History) -> bool:
    """Whether no outcome depends on when compaction ran, as long as it loses nothing that a later row would need."""
    if history.engine == "first-row":
        return True
    if history.producer == "full-compaction":
        return False
    has_retracts = any(row[0] in ("-U", "-D") for row in history.rows)
    has_sequence = "sequence.field" in history.options
    if history.engine == "deduplicate":
        return not (has_sequence and has_retracts)
    return not has_sequence and not has_retracts


def _errors_differ(number: int, own: CommitOutcome, java: CommitOutcome) -> Mismatch | None:
    if own.error is not None and java.error is not None:
        return None
    return Mismatch(number, "error", "both", f"Tidemark: {own.error}; Java: {java.error}")


def _readers_differ(number: int, side: str, outcome: CommitOutcome) -> Mismatch | None:
    if outcome.error is not None:
        return None
    by_java, by_own = outcome.content["java"], outcome.content["tidemark"]
    if by_java != by_own:
        return Mismatch(number, "content", side, _rows_text("read by Java", by_java, "read by Tidemark", by_own))
    changes = outcome.changes
    if changes["java"] != changes["tidemark"]:
        text = _changes_text("read by Java", changes["java"], "read by Tidemark", changes["tidemark"])
        return Mismatch(number, "changes", side, text)
    return None


def _tables_differ(number: int, own: CommitOutcome, java: CommitOutcome) -> Mismatch | None:
    if own.content["java"] != java.content["java"]:
        text = _rows_text("Java", java.content["java"], "Tidemark", own.content["java"])
        return Mismatch(number, "content", "both", text)
    if own.changes["java"] != java.changes["java"]:
        text = _changes_text("Java", java.changes["java"], "Tidemark", own.changes["java"])
        return Mismatch(number, "changes", "both", text, _different(java.changes["java"], own.changes["java"]))
    return None


def _rows_text(one: str, rows: Rows, other: str, others: Rows) -> str:
    only_one = [row for row in rows if row not in others]
    only_other = [row for row in others if row not in rows]
    return f"only {one}: {only_one[:4]}; only {other}: {only_other[:4]}"


def _different(changes: Changes, others: Changes) -> dict[str, tuple[Rows, Rows]]:
    both = {key: (changes.get(key, []), others.get(key, [])) for key in {**changes, **others}}
    return {key: (one, other) for key, (one, other) in both.items() if one != other}


def _changes_text(one: str, changes: Changes, other: str, others: Changes) -> str:
    shown = list(_different(changes, others).items())[:4]
    return "; ".join(f"key {key}: {one} {a}, {other} {b}" for key, (a, b) in shown)
