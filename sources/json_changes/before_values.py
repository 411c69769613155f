"""Values that ``after`` omits, taken from ``before`` of the same event.

With REPLICA IDENTITY FULL the source sends whole old rows: ``before`` has an unchanged TOAST value that ``after``
lacks. Without it ``before`` has only the key, so only present values that are not NULL are taken.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sources.json_changes.change_rows import UPDATE, Events, Mask, Rows, image_column, is_null, present
from sources.json_changes.gaps import Gaps


def with_before_values(events: Events, names: Collection[str], counted_again: Collection[str], gaps_of: Gaps) -> Events:
    """The events with the gaps of the columns ``names`` filled where their own ``before`` image has the value.

    Columns ``counted_again`` are not filled; instead the value leaves ``before`` too, so an unchanged value is neither
    retracted nor added.
    """
    updated = (events.ops == UPDATE) & present(events.before)
    if not updated.any():
        return events
    before, after = events.before, events.after
    for name in names:
        gaps = gaps_of.mask(image_column(after, name))
        if gaps is None:
            continue
        if name in counted_again:
            before = filled(before, name, gaps & updated, None)
            continue
        old = image_column(events.before, name)
        old_gaps = gaps_of.mask(old)
        fills = gaps & updated & ~is_null(old)
        fills = fills if old_gaps is None else fills & ~old_gaps
        if fills.any():
            after = filled(after, name, fills, old)
    images = events.images if after is events.after else None
    return replace(events, before=before, after=after, images=images)


def filled(rows: Rows, name: str, fills: Mask, values: pa.Array | list[object] | None) -> Rows:
    """The images with ``values``, or NULL, in one column of the marked rows."""
    if isinstance(rows, list) or isinstance(values, list):
        plain = [None] * len(rows) if values is None else values if isinstance(values, list) else values.to_pylist()
        images = rows if isinstance(rows, list) else rows.to_pylist()
        return [
            {**image, name: value} if fill and image is not None else image
            for image, fill, value in zip(images, fills.tolist(), plain, strict=True)
        ]
    position = rows.type.get_field_index(name)
    if position < 0 or (values is not None and rows.type.field(position).type != values.type):
        return rows  # the value is found in the table instead
    children = [rows.field(i) for i in range(rows.type.num_fields)]
    new = pa.scalar(None, children[position].type) if values is None else values
    children[position] = pc.if_else(pa.array(fills), new, children[position])
    return pa.StructArray.from_arrays(children, fields=list(rows.type), mask=rows.is_null())
