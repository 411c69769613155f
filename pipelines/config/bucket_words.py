"""What `validate` says about the buckets of the tables that a rule makes, as far as the file decides it."""

from __future__ import annotations

from paimon_table.options.bucket_mode import BucketMode, mode_of
from paimon_table.options.names import BUCKET
from pipelines.config.table_rules import TargetRule


def bucket_words(rule: TargetRule) -> str:
    """The bucket mode of new tables of the rule, in a few words."""
    words = _words(rule)
    return words if rule.without_keys is None else f"{words}; a log of events where the records have no key"


def _words(rule: TargetRule) -> str:
    bucket = int(rule.options[BUCKET])
    keyed = rule.on_change is None
    # The columns of a message key are known when the first record comes.
    keys = rule.primary_key or (rule.partition_by or ("key",) if keyed else ())
    mode = mode_of(bucket, keys, rule.partition_by)
    if mode is BucketMode.HASH_FIXED:
        return f"fixed buckets: {bucket}" if keyed else f"append, fixed buckets: {bucket}"
    if mode is BucketMode.BUCKET_UNAWARE:
        return "append, no buckets"
    if mode is BucketMode.HASH_DYNAMIC and rule.primary_key is None and rule.partition_by:
        columns = ", ".join(rule.partition_by)
        return f"{mode.value}; rows move between partitions where the message key lacks one of {columns}"
    return str(mode.value)
