"""Reading the row images of the events of one source table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from paimon_table.errors import MalformedRecord
from sources.debezium_json.envelopes import EnvelopeParser, ExactStretch, Stretch, VectorStretch, unwrapped
from sources.debezium_json.event_sorting import TableEvents
from sources.debezium_json.ops import LETTERS
from sources.debezium_json.strange_values import missing_row
from sources.json_changes.change_rows import DELETE, Events, present
from sources.json_changes.column_plan import Plan
from sources.json_changes.outcome import Outcome


def read_events(part: TableEvents, plan: Plan, outcome: Outcome) -> list[Events]:
    """Parse the images of data events (op r, c, u, d) with the plan's columns; bad ones go to quarantine."""
    found: list[Events] = []
    if part.images is not None:
        images = part.images
        events = _complete(Events(part.texts.positions, part.ops, images.before, images.after, images.alone), outcome)
        return [events] if len(events.ops) else []
    for stretch in _stretches(part, plan):
        if isinstance(stretch, VectorStretch):
            events = _from_vectors(stretch, part)
        else:
            outcome.count(exact=len(stretch.values))
            events = _from_values(stretch, part, outcome)
        events = _complete(events, outcome)
        if len(events.ops):
            found.append(events)
    return found


def _stretches(part: TableEvents, plan: Plan) -> Iterator[Stretch]:
    if part.values is None:
        yield from EnvelopeParser(part.texts.values, plan, part.heads, part.texts.shape).stretches()
    else:
        yield ExactStretch(0, part.values)


def _from_vectors(stretch: VectorStretch, part: TableEvents) -> Events:
    within = slice(stretch.start, stretch.start + stretch.table.num_rows)
    before, after = (stretch.table.column(side).combine_chunks() for side in ("before", "after"))
    images = stretch.table.column("image").combine_chunks() if "image" in stretch.table.column_names else None
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
