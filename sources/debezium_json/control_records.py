"""Control records, which connectors write in addition to events; their shape identifies them in any topic.

A control record is about no row, so Tidemark counts it and continues. A shape counts as a control record only if no row
looks like it. An envelope never does; for a row without envelope, column names alone do not decide. That is why a
heartbeat, which is a single time, also needs a key or a topic that identifies it, and so does a signal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord

HEARTBEAT_PREFIX = "__debezium-heartbeat"

_ENVELOPE_FIELDS = frozenset({"op", "before", "after"})
_TIMES = frozenset({"ts_ms", "ts_us", "ts_ns"})
_TRANSACTION_REQUIRED = frozenset({"status", "id", "event_count", "data_collections"})
_NOTIFICATION_FIELDS = frozenset({"id", "aggregate_type", "type", "additional_data", "timestamp"})
_SIGNALS = frozenset(
    {"execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot", "schema-changes", "set-binlog-position"}
    | {"set-offsets", "log"}
)
_HYBRID_TIME = re.compile(r"\d{10,}\.\d{10}", re.ASCII)
"""CockroachDB's hybrid logical clock."""


_TELLING = '"(?:event_count|databaseName|aggregate_type|resolved|' + "|".join(sorted(_SIGNALS)) + ')"'
"""Words in quotes that all transaction records, schema changes, notifications, resolved messages and signals have."""
_SOURCE_BLOCK = r'"source"\s*:\s*\{'
"""Fields of all envelopes."""
_LONGEST_HEARTBEAT = 200


def may_be_no_row(texts: pa.Array) -> npt.NDArray[np.bool_]:
    """The JSON texts without embedded schema that may be control records or envelopes; the others are neither."""
    found = np.array(pc.match_substring_regex(texts, f"{_TELLING}|{_SOURCE_BLOCK}"))
    short = np.flatnonzero(np.asarray(pc.binary_length(texts)) <= _LONGEST_HEARTBEAT)
    if len(short):
        found[short] |= np.asarray(pc.match_substring(texts.take(pa.array(short)), '"ts_ms"'))
    return found


def control_kind(value: Mapping[str, Any], key: Any, topic: str) -> str | None:
    """The kind of control record, in the singular; None for other values.

    ``value`` and ``key`` are parsed, without embedded schema; ``key`` is None if the record has none.
    """
    if value.keys() & _ENVELOPE_FIELDS:
        return None
    if _is_heartbeat(value, key, topic):
        return "heartbeat"
    if _is_transaction(value):
        return "transaction record"
    if _is_schema_change(value):
        return "schema change"
    if _is_notification(value):
        return "notification"
    if _is_signal(value, key, topic):
        return "signal"
    return "resolved message" if key is None and _is_resolved(value) else None


def _is_heartbeat(value: Mapping[str, Any], key: Any, topic: str) -> bool:
    """Whether a value is a heartbeat: a row with a time as its only column looks the same, so key or topic decides."""
    if "ts_ms" not in value or not value.keys() <= _TIMES:
        return False
    is_named = isinstance(key, Mapping) and key.keys() == {"serverName"}
    # The key may come from another converter: a key that is not JSON is not the key of a row in JSON.
    return (
        is_named
        or isinstance(key, MalformedRecord)
        or (key is None and "heartbeat" in topic.lower())
        or topic.startswith(HEARTBEAT_PREFIX)
    )


def _is_transaction(value: Mapping[str, Any]) -> bool:
    if value.get("status") not in ("BEGIN", "END") or not isinstance(value.get("id"), str):
        return False
    return _TRANSACTION_REQUIRED <= value.keys() <= _TRANSACTION_REQUIRED | _TIMES


def _is_schema_change(value: Mapping[str, Any]) -> bool:
    """That of a schema change topic, or of a connector's internal schema history."""
    source = value.get("source")
    if "databaseName" not in value or not value.keys() & {"ddl", "tableChanges"} or not isinstance(source, Mapping):
        return False
    is_of_history = isinstance(value.get("position"), Mapping)
    return is_of_history or isinstance(value.get("tableChanges"), list) or isinstance(source.get("connector"), str)


def _is_notification(value: Mapping[str, Any]) -> bool:
    aggregate, more = value.get("aggregate_type"), value.get("additional_data", "")
    if not isinstance(aggregate, str) or not isinstance(value.get("type"), str):
        return False
    is_told = isinstance(more, Mapping) or (more is None and aggregate.endswith("Snapshot"))
    return is_told and value.keys() <= _NOTIFICATION_FIELDS


def _is_signal(value: Mapping[str, Any], key: Any, topic: str) -> bool:
    """One of a signal topic; the rows of a signal table come as envelopes, with ``data`` as text.

    Its key is the topic prefix, a text that need not be JSON. The type ``log`` is common in other topics too.
    """
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _SIGNALS or not isinstance(value.get("data"), Mapping):
        return False
    if isinstance(key, Mapping) and key.keys() == {"payload"}:
        key = key["payload"]
    is_prefix = isinstance(key, MalformedRecord) or (isinstance(key, str) and key != value.get("id"))
    is_named = kind != "log" or "signal" in topic.lower()
    return is_prefix and is_named and value.keys() <= {"id", "type", "data"}


def _is_resolved(value: Mapping[str, Any]) -> bool:
    """CockroachDB's mark that a changefeed has passed a time; older versions put it into ``__crdb__``."""
    inner = value.get("__crdb__") if value.keys() == {"__crdb__"} else value
    if not isinstance(inner, Mapping) or "resolved" not in inner or len(inner) > 1:
        return False
    return isinstance(inner["resolved"], str) and _HYBRID_TIME.fullmatch(inner["resolved"]) is not None
