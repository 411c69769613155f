"""Records of replication tools with one thing wrong, wherever in the JSON it is."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from tests.support.mutants import ODD_NAMES, ODD_VALUES, Record, mutated

KEY_FIELDS = frozenset({"pkNames", "primary_keys", "primary_key_columns"})
"""Fields that name the primary key: another one stops the pipeline, which is not what these records are for."""


def feed_mutant(record: Record, r: random.Random) -> Record:
    """A copy of the record: with other bytes, or with one node of its JSON changed, renamed, added or gone."""
    if r.random() < 0.3:
        mutant = mutated(record, r)
        return mutant if _keys_of(mutant) in (None, _keys_of(record)) else record
    value = json.loads(record["value"])
    holder, name = r.choice([*_places(value)])
    match r.randrange(4):
        case 0:
            holder[name] = r.choice(ODD_VALUES)(r)
        case 1 if isinstance(holder, dict):
            holder[r.choice(ODD_NAMES)] = holder.pop(name)
        case 2 if isinstance(holder, dict):
            holder[r.choice(ODD_NAMES)] = r.choice(ODD_VALUES)(r)
        case _:
            del holder[name]
    text = json.dumps(value, ensure_ascii=r.random() < 0.2, separators=(",", ":"))
    return {**record, "value": text.encode("utf-8", "surrogatepass")}


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every node with what holds it; none of the key."""
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        if name not in KEY_FIELDS:
            yield value, name
            if isinstance(item, dict | list):
                yield from _places(item)


def _keys_of(record: Record) -> str | None:
    """The primary key that a record names; None where it cannot be read."""
    try:
        value = json.loads(record["value"] or b"")
    except (ValueError, RecursionError):
        return None
    return json.dumps([value.get(name) for name in sorted(KEY_FIELDS)]) if isinstance(value, dict) else None
