"""Notes of `validate` about a valid pipeline file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paimon_table.options.bucket_mode import BucketMode, mode_of
from paimon_table.options.names import AGGREGATION_REMOVE_ON_DELETE, BUCKET, PARTIAL_UPDATE_REMOVE_ON_DELETE
from pipelines.config.config import PipelineConfig
from pipelines.config.table_rules import TargetRule

_POSTPONED = "-2"


def notes_on(config: PipelineConfig) -> Iterator[str]:
    """One line each."""
    postponed = sorted(
        {rule.into for rule in config.target_rules if (rule.options.get(BUCKET) or "").strip() == _POSTPONED}
    )
    removing = sorted({rule.into for rule in config.target_rules if any(map(_is_on, _removals(rule.options)))})
    if removing:
        yield (
            f"'remove-record-on-delete' ({', '.join(removing)}): if one batch deletes a key and inserts it "
            "again, columns that are NULL in the insert keep their old values, as in Paimon. To clear them, use "
            "merge-engine deduplicate (docs/PARITY.md, Partial-update and Aggregation)"
        )
    masked = sorted({rule.into for rule in config.target_rules if rule.columns.mask})
    if masked:
        yield (
            f"columns are masked ({', '.join(masked)}): tables, changelogs and reasons of bad records never hold "
            "their values. Rows from before a mask keep their values until you rebuild the table (`tidemark replay "
            f"FILE --table NAME --rebuild`). The quarantine ({config.quarantine}) keeps bad records unmasked: give "
            "access to it only to people who may read the topic"
        )
    if postponed:
        yield (
            f"'bucket' = -2 ({', '.join(postponed)}): readers see rows only after `tidemark table compact`, or a"
            " compaction of Paimon's own"
        )


def _removals(options: Mapping[str, str]) -> Iterator[str]:
    return (options.get(name, "") for name in (AGGREGATION_REMOVE_ON_DELETE, PARTIAL_UPDATE_REMOVE_ON_DELETE))


def _is_on(text: str) -> bool:
    return text.strip().lower() == "true"


def bucket_words(rule: TargetRule) -> str:
    """The bucket mode of new tables of the rule, in a few words."""
    words = _words(rule)
    return (
        words
        if rule.without_keys is None
        else f"{words}. If the records have no key, the table becomes a log of events"
    )


def _words(rule: TargetRule) -> str:
    bucket = int(rule.options[BUCKET])
    keyed = rule.on_change is None
    # The columns of a message key are known only after the first record.
    keys = rule.primary_key or (rule.partition_by or ("key",) if keyed else ())
    mode = mode_of(bucket, keys, rule.partition_by)
    if mode is BucketMode.HASH_FIXED:
        return f"fixed buckets: {bucket}" if keyed else f"append, fixed buckets: {bucket}"
    if mode is BucketMode.BUCKET_UNAWARE:
        return "append, no buckets"
    if mode is BucketMode.HASH_DYNAMIC and rule.primary_key is None and rule.partition_by:
        columns = " and ".join(rule.partition_by)
        return f"{mode.value}; rows move between partitions if the message key does not contain {columns}"
    return str(mode.value)
