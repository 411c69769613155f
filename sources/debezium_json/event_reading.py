"""Reading the row images of the events of one source table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from paimon_table.errors import MalformedRecord
from paimon_table.rows.chunks import one_array
from sources.debezium_json.envelopes import (
    EnvelopeParser,
    ExactStretch,
    OldRowsWanted,
    Stretch,
    VectorStretch,
    unwrapped,
)
from sources.debezium_json.event_sorting import TableEvents
from sources.debezium_json.ops import LETTERS
from sources.debezium_json.strange_values import missing_row
from sources.json_changes.change_rows import DELETE, Events, OldRowRule, present, without_old_rows
from sources.json_changes.column_plan import Plan
from sources.json_changes.outcome import Outcome


def read_events(part: TableEvents, plan: Plan, outcome: Outcome, rule: OldRowRule | None) -> list[Events]:
    """Parse the images of data events (op r, c, u, d) with the plan's columns; bad ones go to quarantine.

    Without a rule all old rows are read.
    """
    found: list[Events] = []
    for events in _parsed(part, plan, outcome, rule):
        events = _complete(events, outcome)
        if len(events.ops):
            found.append(events if rule is None else _with_wanted_old_rows(events, rule))
    return found


def _parsed(part: TableEvents, plan: Plan, outcome: Outcome, rule: OldRowRule | None) -> Iterator[Events]:
    if part.images is not None:
        images = part.images
        yield Events(part.texts.positions, part.ops, images.before, images.after, images.alone)
        return
    for stretch in _stretches(part, plan, rule):
        if isinstance(stretch, VectorStretch):
            yield _from_vectors(stretch, part)
        else:
            outcome.count(exact=len(stretch.values))
            yield _from_values(stretch, part, outcome)


def _with_wanted_old_rows(events: Events, rule: OldRowRule) -> Events:
    has_both = present(events.before) & (events.ops != DELETE)
    if not has_both.any():
        return events
    unread = has_both & rule.unread(events.before, events.after)
    return replace(events, before=without_old_rows(events.before, unread))


def _stretches(part: TableEvents, plan: Plan, rule: OldRowRule | None) -> Iterator[Stretch]:
    if part.values is not None:
        yield ExactStretch(0, part.values)
        return
    wanted = OldRowsWanted(part.ops == DELETE, rule)
    yield from EnvelopeParser(part.texts.values, plan, part.heads, part.texts.shape, old_rows=wanted).stretches()


def _from_vectors(stretch: VectorStretch, part: TableEvents) -> Events:
    within = slice(stretch.start, stretch.start + stretch.table.num_rows)
    before, after = (one_array(stretch.table.column(side)) for side in ("before", "after"))
    images = one_array(stretch.table.column("image")) if "image" in stretch.table.column_names else None
    return Events(part.texts.positions[within], part.ops[within], before, after, images)


def _from_values(stretch: ExactStretch, part: TableEvents, outcome: Outcome) -> Events:
    kept: list[int] = []
    envelopes: list[Mapping[str, Any]] = []
    for index, value in enumerate(stretch.values, stretch.start):
        if isinstance(value, MalformedRecord):
            outcome.quarantine(int(part.texts.positions[index]), str(value))
        else:
            kept.append(index)
            envelopes.append(value)
    chosen = np.array(kept, np.int64)
    ops = part.ops[chosen]
    before, after = ([_image(value.get(side)) for value in envelopes] for side in ("before", "after"))
    if not part.texts.shape.has_old_rows:
        before = [image if op == DELETE else None for image, op in zip(after, ops.tolist(), strict=True)]
        after = [None if op == DELETE else image for image, op in zip(after, ops.tolist(), strict=True)]
    return Events(part.texts.positions[chosen], ops, before, after)


def _image(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, dict) else None


def _complete(events: Events, outcome: Outcome) -> Events:
    """The events except those that lack the image which their operation needs."""
    lacking = (events.ops != DELETE) & ~present(events.after)
    if not lacking.any():
        return events
    for position, op in zip(events.positions[lacking].tolist(), events.ops[lacking].tolist(), strict=True):
        envelope = unwrapped(outcome.parsed("value", position))
        outcome.quarantine(position, missing_row(LETTERS[op], envelope))
    return events.chosen(~lacking)
