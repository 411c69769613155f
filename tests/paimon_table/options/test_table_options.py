"""Table options: values with units, defaults, and what is refused."""

from __future__ import annotations

import pytest

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.options.option_facts import known_names
from paimon_table.options.option_parsing import parse_options
from paimon_table.options.table_options import TableOptions
from tests.support.builders import orders_schema

SCHEMA = orders_schema()


def parse(**options: str) -> TableOptions:
    return parse_options({name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}, SCHEMA)


def test_defaults_are_paimons() -> None:
    options = parse_options({}, SCHEMA)
    assert (options.bucket, options.merge_engine, options.changelog_producer) == (-1, "deduplicate", "none")
    assert (options.compaction_trigger, options.num_levels, options.max_level) == (5, 6, 5)
    assert options.target_file_size_bytes == 134_217_728
    assert options.manifest_target_file_size_bytes == 8_388_608
    assert (options.commit_max_retries, options.commit_min_retry_wait_ms, options.commit_timeout_ms) == (10, 10, None)
    assert (options.stats_mode, options.partition_default_name) == ("truncate(16)", "__DEFAULT_PARTITION__")


def test_values_are_parsed_with_their_units() -> None:
    options = parse(
        target_file_size="64 mb", commit__timeout="2 min", sequence__field="a, b", ignore_delete="TRUE",
        sequence__field__sort_order="descending",
    )  # fmt: skip
    assert options.target_file_size_bytes == 64 << 20
    assert options.commit_timeout_ms == 120_000
    assert options.sequence_fields == ("a", "b")
    assert options.ignore_delete
    assert options.sequence_descending


def test_number_of_levels_follows_the_compaction_trigger() -> None:
    assert parse(num_sorted_run__compaction_trigger="9").num_levels == 10
    assert parse(num_sorted_run__compaction_trigger="9", num_levels="3").num_levels == 3


def test_fallback_keys_count_unless_the_key_itself_is_set() -> None:
    assert parse_options({"partial-update.ignore-delete": "true"}, SCHEMA).ignore_delete
    both = {"ignore-delete": "false", "deduplicate.ignore-delete": "true"}
    assert not parse_options(both, SCHEMA).ignore_delete
    assert not parse_options(dict(reversed(both.items())), SCHEMA).ignore_delete


def test_stats_mode_of_a_column() -> None:
    assert parse_options({"fields.name.stats-mode": "full"}, SCHEMA).field_options.stats_modes == (("name", "full"),)


@pytest.mark.parametrize(
    "name", ["snapshot.watermark-idle-timeout", "scan.mode", "tag.batch.customized-name", "consumer-id", "page-size"]
)
def test_options_of_readers_and_other_jobs_are_kept(name: str) -> None:
    assert parse_options({name: "x"}, SCHEMA) == parse_options({}, SCHEMA)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("merge-engine", "nonsense"),
        ("changelog-producer", "nonsense"),
        ("index-file-in-data-file-dir", "true"),
        ("fields.name.aggregation", "sum"),
        ("target-file-row-num", "5"),
        ("record-level.time-field-type", "seconds-int"),
        ("data-file.thin-mode", "true"),
        ("type", "materialized-table"),
    ],
)
def test_what_tidemark_does_not_do_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(UnsupportedFeature, match=name.replace(".", r"\.")):
        parse_options({name: text}, SCHEMA)


def test_unsupported_engine_is_named_before_its_options() -> None:
    with pytest.raises(UnsupportedFeature, match="'merge-engine': 'nonsense'"):
        parse_options({"fields.name.nonsense": "sum", "merge-engine": "nonsense"}, SCHEMA)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lookup-wait", "false"),
        ("changelog-producer.lookup-wait", "false"),
        ("commit.force-compact", "true"),
        ("num-sorted-run.stop-trigger", "2147483647"),
    ],
)
def test_when_a_commit_waits_for_compaction_makes_no_difference(name: str, text: str) -> None:
    assert parse_options({name: text}, SCHEMA) == parse_options({}, SCHEMA)


@pytest.mark.parametrize(
    ("options", "needs_lookup", "whole", "hides"),
    [
        ({}, False, False, False),
        ({"changelog-producer": "input"}, False, False, False),
        ({"changelog-producer": "full-compaction", "merge-engine": "aggregation"}, False, False, False),
        ({"changelog-producer": "lookup"}, True, False, False),
        ({"changelog-producer": "lookup", "merge-engine": "aggregation"}, True, True, False),
        ({"force-lookup": "true", "merge-engine": "partial-update"}, True, True, False),
        ({"merge-engine": "first-row"}, True, False, True),
    ],
)
def test_what_lookup_means_for_a_table(options: dict[str, str], needs_lookup: bool, whole: bool, hides: bool) -> None:
    parsed = parse_options(options, SCHEMA)
    assert (parsed.needs_lookup, parsed.upper_rows_are_whole, parsed.hides_level0) == (needs_lookup, whole, hides)


@pytest.mark.parametrize(
    ("options", "interval"),
    [
        ({}, None),
        ({"full-compaction.delta-commits": "3"}, 3),
        ({"changelog-producer": "full-compaction"}, 1),
        ({"changelog-producer": "full-compaction", "full-compaction.delta-commits": "5"}, 5),
    ],
)
def test_how_often_a_table_is_compacted_fully(options: dict[str, str], interval: int | None) -> None:
    assert parse_options(options, SCHEMA).full_compaction_interval == interval


@pytest.mark.parametrize(
    ("options", "patience"),
    [
        ({}, 1),
        ({"lookup-compact.max-interval": "7"}, 1),
        ({"lookup-compact": "gentle"}, 10),
        ({"lookup-compact": "gentle", "lookup-compact.max-interval": "7"}, 7),
        ({"lookup-compact": "gentle", "lookup-compact.max-interval": "2"}, 5),
        ({"lookup-compact": "gentle", "num-sorted-run.compaction-trigger": "3"}, 6),
    ],
)
def test_how_long_level_0_may_wait(options: dict[str, str], patience: int) -> None:
    assert parse_options(options, SCHEMA).level0_patience == patience


@pytest.mark.parametrize("name", ["deletion-vectors.enabled", "data-file.thin-mode", "row-tracking.enabled"])
def test_switching_off_what_is_off_is_accepted(name: str) -> None:
    assert parse_options({name: "false"}, SCHEMA) == parse_options({}, SCHEMA)


def test_unknown_option_names_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match="nearest known option is 'changelog-producer'"):
        parse_options({"changelog-producr": "lookup"}, SCHEMA)


@pytest.mark.parametrize(
    "name", ["upsert-key", "write.batch-size", "variant.shreddingSchema", "commit.callback.x.param"]
)
def test_an_option_of_paimon_that_is_not_supported_is_called_so(name: str) -> None:
    with pytest.raises(UnsupportedFeature, match=f"'{name}' is an option of Paimon that Tidemark does not support"):
        parse_options({name: "x"}, SCHEMA)


@pytest.mark.parametrize(
    "name", ["branch", "scan.fallback-branch", "scan.primary-branch", "scan.fallback-delta-branch"]
)
def test_a_branch_in_the_place_of_the_table_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedFeature, match=f"'{name}' .* not a branch; remove the option"):
        parse_options({name: "b"}, SCHEMA)


@pytest.mark.parametrize("text", ["true", "false"])
def test_what_other_engines_do_with_postponed_batches_is_kept(text: str) -> None:
    options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": text}
    assert parse_options(options, SCHEMA) == parse_options({"bucket": "-2"}, SCHEMA)


def test_option_of_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="field zz can not be found"):
        parse_options({"fields.zz.stats-mode": "full"}, SCHEMA)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bucket", "two"),
        ("num-levels", "1"),
        ("ignore-delete", "yes"),
        ("target-file-size", "128 parsecs"),
        ("commit.timeout", "soon"),
        ("bucket-function.type", "magic"),
        ("compaction.small-file-ratio", "big"),
        ("compaction.small-file-ratio", "nan"),
        ("compaction.small-file-ratio", "inf"),
        ("compaction.small-file-ratio", "1e999"),
        ("compaction.small-file-ratio", "-0.5"),
        ("compaction.small-file-ratio", "0_7"),
        ("bucket", "2147483648"),
        ("bucket", "1_0"),
        ("bucket", "1 0"),
        ("bucket", " 1"),
        ("bucket", "\N{ARABIC-INDIC DIGIT FOUR}"),
        ("bucket", "9" * 5000),
        ("full-compaction.delta-commits", "4294967296"),
        ("fields.name.count-limit", "2147483648"),
        ("target-file-row-num", "9223372036854775808"),
        ("target-file-size", "\N{ARABIC-INDIC DIGIT FOUR} mb"),
        ("target-file-size", "9223372036854775808"),
        ("target-file-size", "9" * 5000),
        ("file.format.per.level", "\N{SUPERSCRIPT TWO}:avro"),
        ("file.format.per.level", "1_0:avro"),
        ("file.format.per.level", "2147483648:avro"),
        ("ignore-delete", " true"),
        ("bucket-function.type", "mod "),
        ("sequence.field.sort-order", "des_cending"),
        ("data-file.prefix", "sub/data-"),
        ("data-file.prefix", "../data-"),
        ("changelog-file.prefix", "sub\\data-"),
        ("file-index.bloom-filter.name.items", "1000000000"),
        ("file-index.bloom-filter.name.fpp", "nan"),
        ("file-index.bloom-filter.name.fpp", "1"),
    ],
)
def test_unreadable_values_name_their_option(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        parse_options({"file-index.bloom-filter.columns": "name", name: text}, SCHEMA)


@pytest.mark.parametrize(
    ("name", "text", "same"),
    [
        ("merge-engine", "First-Row", "first-row"),
        ("changelog-producer", "LOOKUP", "lookup"),
        ("bucket-function.type", "MOD", "mod"),
        ("sequence.field.sort-order", "Descending", "descending"),
        ("lookup-compact", "GENTLE", "gentle"),
        ("fields.name.nested-key-null-strategy", "Ignore", "ignore"),
        ("bucket", "+7", "7"),
        ("bucket", "2147483647", "2147483647"),
    ],
)
def test_words_and_numbers_are_read_as_java_reads_them(name: str, text: str, same: str) -> None:
    assert parse_options({name: text}, SCHEMA) == parse_options({name: same}, SCHEMA)


@pytest.mark.parametrize(("name", "text"), [("merge-engine", "first_row"), ("changelog-producer", "lookup ")])
def test_words_that_java_does_not_read_are_refused(name: str, text: str) -> None:
    with pytest.raises(UnsupportedFeature, match=f"option '{name}': '{text}' is not supported"):
        parse_options({name: text}, SCHEMA)


def test_only_sequence_groups_take_a_list_of_columns() -> None:
    with pytest.raises(ConfigError, match=r"one option per column: fields\.id\.aggregate-function, fields\.name\.ag"):
        parse_options({"fields.id,name.aggregate-function": "sum", "merge-engine": "aggregation"}, SCHEMA)
    groups = parse_options({"fields.id,name.sequence-group": "name"}, SCHEMA).field_options.sequence_groups
    assert groups[0].sequence == ("id", "name")


def test_the_largest_trigger_gives_the_largest_number_of_levels() -> None:
    assert parse(num_sorted_run__compaction_trigger="2147483647").num_levels == 2**31 - 1


def test_known_names_are_sorted_and_hold_all_kinds() -> None:
    names = known_names()
    assert list(names) == sorted(names)
    assert {"bucket", "bucket-key", "write-buffer-size", "deletion-vectors.enabled"} <= set(names)
