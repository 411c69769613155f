"""The command that builds a table anew from what is behind a record, for the message that stops at it."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC

from sources.changes import Refusal


def rebuild_remedy(refusal: Refusal, identifier: str, topics: Collection[str]) -> str:
    """Words that go on after the reason; none where nothing can be built from what is behind the record.

    Offsets are in an order in one partition alone. In the others of its topic what has the time of the record is read
    too: a row too many is easier to see than one that is missing. ``topics`` feed the table: others than that of the
    record are read from their beginning, as nothing was taken out of their source tables.
    """
    if refusal.rebuilt_from is None:
        return ""
    time = refusal.rebuilt_from.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    topic = refusal.source.topic
    begin = {
        topic: {str(refusal.partition): refusal.offset + 1, "*": time},
        **{other: {"*": "earliest"} for other in sorted({*topics} - {topic})},
    }
    return (
        ". To remove the rows from the Paimon table too, rebuild it afterwards from the records behind this one:"
        f" `tidemark replay FILE --table {identifier} --rebuild --from '{json.dumps(begin)}' --allow-missing`"
    )
