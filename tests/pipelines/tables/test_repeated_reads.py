"""A second pipeline brings the records of a topic once more: refused where they would count twice, else told."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from paimon_table import Table
from paimon_table.errors import ConfigError
from pipelines.batch.batch import process_batch
from pipelines.batch.compactions import Compactions
from pipelines.batch.exchange import Written
from pipelines.batch.local_exchange import LocalExchange
from pipelines.batch.plan import BatchRun
from pipelines.config.config import PipelineConfig
from pipelines.tables.repeated_reads import check_stored_reads
from pipelines.tables.tables import PipelineTables
from sinks.write.bucket_task import WriteTask
from tests.support.local_batches import pipeline_tables, run_batches, task_settings
from tests.support.source_items import items

LOG: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items", "mode": "append", "on_change": "log"}
UPSERT: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items"}
SUMS: dict[str, object] = {
    **UPSERT,
    "options": {"merge-engine": "aggregation", "fields.qty.aggregate-function": "sum", "ignore-delete": "true"},
}
TOPIC = "shop.public.items"


def pipeline(directory: Path, rule: dict[str, object], name: str, start: object = None) -> PipelineTables:
    """The same rules under a name of its own; with ``start`` the source is Kafka."""
    config = pipeline_tables(directory, [{"options": {"bucket": "-1"}, **rule}]).config
    document = {**config.model_dump(by_alias=True, exclude_none=True, exclude_unset=True), "name": name}
    if start is not None:
        kafka = {"bootstrap_servers": "localhost:1", "topics": [TOPIC], "start": start}
        document["source"] = {"kafka": kafka, "format": "debezium-json"}
    return PipelineTables(PipelineConfig.model_validate(document), f"tidemark-{name}-test")


def filled(directory: Path, rule: dict[str, object]) -> None:
    run_batches(pipeline(directory, rule, "shop"), [items("shop", 0, 1, 2)], directory)


def quantities(directory: Path) -> list[int]:
    rows = Table.open(str(directory / "warehouse" / "lake.db" / "items")).to_arrow()
    return sorted(rows.column("qty").to_pylist())


@pytest.mark.parametrize(("rule", "effect"), [(LOG, "adds its row again"), (SUMS, "counts again in qty")])
def test_a_copy_of_a_pipeline_counts_nothing_twice(tmp_path: Path, rule: dict[str, object], effect: str) -> None:
    filled(tmp_path, rule)

    told = f"from pipeline shop: pipeline copy would .* each {effect}.*, or continue as pipeline shop, by that name$"
    with pytest.raises(ConfigError, match=told):
        run_batches(pipeline(tmp_path, rule, "copy"), [items("shop", 0, 1, 2)], tmp_path)
    run_batches(pipeline(tmp_path, rule, "shop"), [items("shop", 2, 3)], tmp_path, first_batch_id=1)

    assert quantities(tmp_path) == [1, 2, 3]


def test_another_pipeline_goes_on_behind_the_first_one(tmp_path: Path) -> None:
    filled(tmp_path, LOG)

    begun_early = pipeline(tmp_path, LOG, "second", {"offsets": {TOPIC: {0: 1}}})
    start = re.escape("`start: {offsets: {shop.public.items: {0: 2}}}` under source.kafka")
    with pytest.raises(ConfigError, match=f"each adds its row again.*{start}"):
        run_batches(begun_early, [items("shop", 1, 2)], tmp_path)
    behind = pipeline(tmp_path, LOG, "second", {"offsets": {TOPIC: {0: 2}}})
    run_batches(behind, [items("shop", 2, 3)], tmp_path)

    assert quantities(tmp_path) == [1, 2, 3]


def test_the_pipeline_itself_goes_on_under_a_new_checkpoint(tmp_path: Path) -> None:
    filled(tmp_path, LOG)
    tables = PipelineTables(pipeline(tmp_path, LOG, "shop").config, "tidemark-shop-other")
    run_batches(tables, [items("shop", 0, 1, 2, 3)], tmp_path)
    assert quantities(tmp_path) == [1, 2, 3]


def test_where_rows_end_up_equal_it_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path, UPSERT)
    run_batches(pipeline(tmp_path, UPSERT, "copy"), [items("shop", 0, 1, 2)], tmp_path)
    assert "from pipeline shop up to offsets 0: 2. Pipeline copy reads them again: older rows replace" in caplog.text
    assert quantities(tmp_path) == [1, 2]


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "aggregation", "fields.qty.aggregate-function": "max", "ignore-delete": "true"},
        {"merge-engine": "first-row", "ignore-delete": "true"},
    ],
)
def test_rows_that_no_older_one_replaces_are_no_news(
    tmp_path: Path, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    rule = {**UPSERT, "options": options}
    filled(tmp_path, rule)
    run_batches(pipeline(tmp_path, rule, "copy"), [items("shop", 0, 1, 2)], tmp_path)
    assert "reads them again" not in caplog.text
    assert quantities(tmp_path) == [1, 2]


def test_topics_of_their_own_are_no_matter(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path, LOG)
    other = items("eu", 0, 7)
    run_batches(pipeline(tmp_path, LOG, "second"), [other], tmp_path)
    assert quantities(tmp_path) == [1, 2, 7]
    assert "reads again" not in caplog.text


@dataclass
class Overtaken(LocalExchange):
    """Another pipeline commits its first batch while this one writes its own."""

    directory: Path
    rule: dict[str, object]

    def __post_init__(self) -> None:
        super().__init__([items("shop", 0, 1, 2)])

    def write(self, task: WriteTask, *, in_one_task: bool) -> Written:
        filled(self.directory, self.rule)
        return super().write(task, in_one_task=in_one_task)


def overtaken(directory: Path, rule: dict[str, object]) -> None:
    exchange, tables = Overtaken(directory, rule), pipeline(directory, rule, "copy")
    process_batch(BatchRun(0), tables, task_settings(directory), exchange, Compactions(), lambda _: None)


@pytest.mark.parametrize("rule", [LOG, SUMS])
def test_of_two_that_begin_a_table_at_once_the_later_one_is_refused(tmp_path: Path, rule: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="from pipeline shop: pipeline copy would apply them a second time"):
        overtaken(tmp_path, rule)
    assert quantities(tmp_path) == [1, 2]


@pytest.mark.slow
def test_of_two_that_begin_a_table_of_rows_at_once_the_later_one_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    overtaken(tmp_path, UPSERT)
    assert caplog.text.count("from pipeline shop up to offsets 0: 2. Pipeline copy reads them again") == 1
    assert quantities(tmp_path) == [1, 2]


ROUTED = "all.changes"
"""A topic to which a router brings several source tables."""


def of_orders(rule: dict[str, object]) -> dict[str, object]:
    return {**rule, "match": {"table": "orders"}}


@pytest.mark.parametrize("rule", [LOG, {**SUMS, "merge_sources": "disjoint_keys"}])
def test_source_tables_of_their_own_may_come_in_one_topic(tmp_path: Path, rule: dict[str, object]) -> None:
    run_batches(pipeline(tmp_path, rule, "shop"), [items("shop", 0, 1, 2, topic=ROUTED)], tmp_path)

    run_batches(
        pipeline(tmp_path, of_orders(rule), "second"),
        [items("shop", 2, 3, 4, topic=ROUTED, table="orders")],
        tmp_path,
    )
    with pytest.raises(ConfigError, match="from pipeline shop: pipeline copy would apply them a second time"):
        run_batches(pipeline(tmp_path, rule, "copy"), [items("shop", 0, 1, 2, topic=ROUTED)], tmp_path)

    assert quantities(tmp_path) == [1, 2, 3, 4]


def widened(directory: Path) -> PipelineTables:
    """The pipeline of `orders`, which takes the items of the same topic too by now."""
    run_batches(pipeline(directory, LOG, "shop"), [items("shop", 0, 1, 2, topic=ROUTED)], directory)
    orders = pipeline(directory, of_orders(LOG), "second")
    run_batches(orders, [items("shop", 2, 3, topic=ROUTED, table="orders")], directory)
    return pipeline(directory, {**LOG, "match": {"table": "(items|orders)"}}, "second")


def test_a_rule_that_takes_one_more_source_table_of_its_topic_counts_nothing_twice(tmp_path: Path) -> None:
    both = widened(tmp_path)
    run_batches(pipeline(tmp_path, LOG, "shop"), [items("shop", 3, 4, 5, topic=ROUTED)], tmp_path, first_batch_id=1)

    with pytest.raises(ConfigError, match="from pipeline shop: pipeline second would apply them a second time"):
        run_batches(both, [items("shop", 3, 4, 5, topic=ROUTED)], tmp_path, first_batch_id=1)

    assert quantities(tmp_path) == [1, 2, 3, 4, 5]


def test_a_source_table_goes_to_the_pipeline_that_is_beyond_its_former_one(tmp_path: Path) -> None:
    run_batches(widened(tmp_path), [items("shop", 3, 4, topic=ROUTED)], tmp_path, first_batch_id=1)
    assert quantities(tmp_path) == [1, 2, 3, 4]


@pytest.mark.parametrize("rule", [LOG, {**SUMS, "merge_sources": "disjoint_keys"}])
def test_a_topic_that_two_patterns_find_later_is_read_by_one_of_them(tmp_path: Path, rule: dict[str, object]) -> None:
    first, second = pipeline(tmp_path, rule, "first"), pipeline(tmp_path, rule, "second")
    run_batches(first, [items("eu", 0, 1)], tmp_path)
    run_batches(second, [items("us", 0, 2)], tmp_path)
    run_batches(first, [items("new", 0, 3)], tmp_path, first_batch_id=1)
    run_batches(second, [items("us", 1, 4)], tmp_path, first_batch_id=1)

    with pytest.raises(ConfigError, match=r"topic new\.public\.items from pipeline first: pipeline second would"):
        run_batches(second, [items("new", 0, 3)], tmp_path, first_batch_id=2)

    assert quantities(tmp_path) == [1, 2, 3, 4]


def test_what_dumps_have_brought_is_not_read_again_from_kafka(tmp_path: Path) -> None:
    filled(tmp_path, LOG)
    start = re.escape("`start: {offsets: {shop.public.items: {0: 2}}}` under source.kafka")
    with pytest.raises(ConfigError, match=f"from pipeline shop: pipeline stream would .*{start}"):
        run_batches(pipeline(tmp_path, LOG, "stream", "earliest"), [items("shop", 0, 1)], tmp_path)


@pytest.mark.parametrize(
    ("rule", "start", "is_refused"),
    [
        (LOG, "earliest", True),
        ({**LOG, "into": "lake.{table}"}, "earliest", False),  # which its first event tells
        (of_orders(LOG), "earliest", False),
        (LOG, "latest", False),
        (LOG, {"offsets": {TOPIC: {0: 2}}}, False),
        (UPSERT, "earliest", False),
    ],
)
def test_what_is_stored_is_looked_at_before_anything_is_read(
    tmp_path: Path, rule: dict[str, object], start: object, is_refused: bool
) -> None:
    filled(tmp_path, UPSERT if rule is UPSERT else LOG)
    second = pipeline(tmp_path, rule, "second", start)

    check_stored_reads(second.config, second.catalog, {"shop.public.others": "b"})
    if not is_refused:
        check_stored_reads(second.config, second.catalog, {TOPIC: "a"})
        return
    with pytest.raises(ConfigError, match=r"topic shop\.public\.items from pipeline shop: pipeline second would apply"):
        check_stored_reads(second.config, second.catalog, {TOPIC: "a"})
