"""docs/FORMATS.md: each example of a binary format gives the table that stands below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from paimon_table.table import Table
from pipelines.config.config_file import load_pipeline
from pipelines.tables.tables import PipelineTables
from sources.dumps.dump_records import record_batches_from_dump
from tests.docs.documents import BINARY, blocks, page
from tests.support.command import tidemark
from tests.support.local_batches import reported_batches
from tests.support.protobuf_messages import F, field, file, files_with, optional

HEADING = "debezium-avro"


def descriptors() -> bytes:
    """What protoc makes of the message on the page."""
    message = descriptor_pb2.DescriptorProto(name="Order")
    message.field.extend([field("id", 1, F.TYPE_INT64), field("status", 2, F.TYPE_ENUM, of=".shop.Status")])
    message.field.append(optional(message, field("note", 3, F.TYPE_STRING)))
    message.field.append(field("tags", 4, F.TYPE_STRING, repeated=True))
    values = [descriptor_pb2.EnumValueDescriptorProto(name=name, number=n) for n, name in enumerate(["NEW", "PAID"])]
    status = descriptor_pb2.EnumDescriptorProto(name="Status", value=values)
    data: bytes = files_with(file([message], [status])).SerializeToString()
    return data


@pytest.mark.parametrize("heading", BINARY)
def test_the_example_gives_its_table(heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    *schemas, records = (block.text for block in blocks(page("FORMATS.md"), "json") if block.heading == heading)
    (pipeline,) = (block.text for block in blocks(page("FORMATS.md"), "yaml") if block.heading == heading)
    Path("schemas.json").write_text("".join(schemas))
    Path("shop.desc").write_bytes(descriptors())
    Path("dumps").mkdir()
    Path("dumps/orders.jsonl").write_text(records)
    Path("shop.yaml").write_text(pipeline)
    assert tidemark("validate", "shop.yaml").returncode == 0
    config = load_pipeline(Path("shop.yaml"))
    tables = PipelineTables(config, "tidemark-shop-test")

    quarantine, _ = reported_batches(
        tables, record_batches_from_dump("dumps/orders.jsonl"), tmp_path, decoder=config.decoder
    )

    assert not Path(quarantine.path).exists()
    stored = Table.open(tables.sinks["lake.orders"].table.paths.root).to_arrow()
    shown = [stored.column_names, *([str(value) for value in row.values()] for row in stored.to_pylist())]
    assert shown == table_below(records)


def table_below(records: str) -> list[list[str]]:
    """Header and rows of the table in Markdown behind a block."""
    behind = page("FORMATS.md").read_text(encoding="utf-8").partition(records)[2]
    found = re.match(r"```\n\n((?:\|.*\|\n)+)", behind)
    assert found is not None
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines())
    return [header, *rows]


def test_the_fragment_with_a_registry_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "s3cret")
    (fragment,) = (block.text for block in blocks(page("FORMATS.md"), "yaml") if block.heading == "The registry")
    (pipeline,) = (block.text for block in blocks(page("FORMATS.md"), "yaml") if block.heading == HEADING)
    start, end = pipeline.index("  format:"), pipeline.index("checkpoint:")
    (tmp_path / "dumps").mkdir()
    file = tmp_path / "shop.yaml"
    file.write_text(pipeline[:start] + re.sub("(?m)^(?=.)", "  ", fragment) + pipeline[end:])

    done = tidemark("validate", file)

    assert done.returncode == 0, done.stderr
    assert "s3cret" not in done.stdout + done.stderr
