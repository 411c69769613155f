"""File names and partition directories, against names that Java wrote."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

from paimon_table.errors import MalformedRecord, UnsupportedFeature
from paimon_table.metadata.paths import (
    TablePaths,
    check_directory_names,
    escape_path_name,
    long_values,
    partition_path,
)
from paimon_table.options.option_parsing import parse_options
from paimon_table.storage.file_io import numbers_of
from paimon_table.types import DataField, parse_type
from tests.support.builders import data_file, orders_schema


def directory(value: object, type_text: str, legacy: bool = True, name: str = "p") -> str:
    options = parse_options({"partition.legacy-name": str(legacy).lower()}, orders_schema())
    return partition_path([value], [DataField(0, name, parse_type(type_text))], options)


def test_special_characters_are_escaped_and_others_are_not() -> None:
    assert escape_path_name("a b/c=d:%é#") == "a b%2Fc%3Dd%3A%25é%23"
    assert escape_path_name("\x00\x1f\x7f\"'*?\\{}[]^~") == "%00%1F%7F%22%27%2A%3F%5C%7B%7D%5B%5D%5E~"


@pytest.mark.parametrize("value", [None, "", "   ", "\t"])
def test_null_and_blank_texts_share_the_default_directory(value: object) -> None:
    assert directory(value, "STRING") == "p=__DEFAULT_PARTITION__"


@pytest.mark.parametrize(
    ("value", "type_text", "legacy", "plain"),
    [
        (date(2024, 1, 1), "DATE", "19723", "2024-01-01"),
        (19723, "DATE", "19723", "2024-01-01"),
        (datetime(2024, 1, 2, 3, 4, 5, 678901), "TIMESTAMP(6)", "2024-01-02T03%3A04%3A05.678901",
         "2024-01-02 03%3A04%3A05.678901"),
        (datetime(2024, 1, 2, 3, 4, 5, 678000), "TIMESTAMP(6)", "2024-01-02T03%3A04%3A05.678",
         "2024-01-02 03%3A04%3A05.678000"),
        (datetime(2024, 1, 2), "TIMESTAMP(3)", "2024-01-02T00%3A00", "2024-01-02 00%3A00%3A00.000"),
        (datetime(1969, 12, 31, 23, 59, 59, 999000), "TIMESTAMP(3)", "1969-12-31T23%3A59%3A59.999",
         "1969-12-31 23%3A59%3A59.999"),
        (1_704_164_645_678_901_234, "TIMESTAMP(9)", "2024-01-02T03%3A04%3A05.678901234",
         "2024-01-02 03%3A04%3A05.678901234"),
        (True, "BOOLEAN", "true", "true"),
        (Decimal("1.5"), "DECIMAL(10, 2)", "1.50", "1.50"),
        (time(1, 1, 1, 5000), "TIME(3)", "3661005", "01%3A01%3A01.005"),
        (-7, "BIGINT", "-7", "-7"),
        (1.5, "DOUBLE", "1.5", "1.5"),
        (1e7, "DOUBLE", "1.0E7", "1.0E7"),
        (1.25e-5, "DOUBLE", "1.25E-5", "1.25E-5"),
        (0.1, "FLOAT", "0.1", "0.1"),
        (3.4028234663852886e38, "FLOAT", "3.4028235E38", "3.4028235E38"),
        (1.401298464324817e-45, "FLOAT", "1.4E-45", "1.4E-45"),
        (5e-324, "DOUBLE", "4.9E-324", "4.9E-324"),
        (1e-323, "DOUBLE", "9.9E-324", "9.9E-324"),
        (2e23, "DOUBLE", "2.0E23", "2.0E23"),
        (-0.0, "DOUBLE", "-0.0", "-0.0"),
        (1234567.0, "DOUBLE", "1234567.0", "1234567.0"),
        ("x", "STRING", "x", "x"),
        (2_932_897, "DATE", "2932897", "+10000-01-01"),
        (-735_103, "DATE", "-735103", "-0043-05-11"),
        (-719_893, "DATE", "-719893", "-0001-01-01"),
        (-62_198_755_201_000, "TIMESTAMP(3)", "-0002-12-31T23%3A59%3A59", "-0002-12-31 23%3A59%3A59.000"),
    ],
)  # fmt: skip
def test_partition_values_have_javas_text(value: object, type_text: str, legacy: str, plain: str) -> None:
    assert directory(value, type_text, legacy=True) == f"p={legacy}"
    assert directory(value, type_text, legacy=False) == f"p={plain}"


def test_local_zoned_timestamps_have_a_name_only_in_the_legacy_form() -> None:
    moment = datetime(2024, 1, 2, 3, 4, tzinfo=UTC)
    assert directory(moment, "TIMESTAMP_LTZ(3)") == "p=2024-01-02T03%3A04"
    with pytest.raises(UnsupportedFeature, match="legacy-name"):
        directory(moment, "TIMESTAMP_LTZ(3)", legacy=False)


def test_several_partition_columns_nest() -> None:
    fields = [DataField(0, "dt", parse_type("DATE")), DataField(1, "k=v", parse_type("STRING"))]
    options = parse_options({}, orders_schema())
    assert partition_path([date(1970, 1, 2), "a"], fields, options) == "dt=1/k%3Dv=a"


@pytest.mark.parametrize(("text", "size_bytes"), [("x" * 253, 255), ("é" * 126, 254), ("/" * 84, 254)])
def test_directory_names_of_255_bytes_are_accepted(text: str, size_bytes: int) -> None:
    name = directory(text, "STRING")
    assert len(name.encode()) == size_bytes
    check_directory_names("/table", f"{'y' * 255}/{name}")


@pytest.mark.parametrize(("text", "size_bytes"), [("x" * 254, 256), ("é" * 127, 256), ("/" * 85, 257)])
def test_longer_directory_names_are_refused_on_file_systems(text: str, size_bytes: int) -> None:
    path = f"dt=1/{directory(text, 'STRING')}/q=1"
    with pytest.raises(MalformedRecord, match=rf"partition column 'p' of /table: .* {size_bytes} bytes"):
        check_directory_names("/table", path)
    check_directory_names("s3://bucket/table", path)


def test_long_values_are_those_whose_directories_are_refused() -> None:
    texts = ["x" * 253, "x" * 254, None, "", "é" * 126, "é" * 127, "/" * 84, "/" * 85, " " * 300]
    problems = long_values("p", pa.array(texts))
    assert sorted(problems) == [1, 5, 7]
    for position, problem in problems.items():
        with pytest.raises(MalformedRecord) as refused:
            check_directory_names("/table", directory(texts[position], "STRING"))
        assert str(refused.value) == f"partition column 'p' of /table: {problem}"


def test_numbers_of_files_leave_out_what_others_put_there() -> None:
    names = ["snapshot-10", "LATEST", "snapshot-2", "snapshot-", "snapshot-²", "snapshot-٣", "snapshot-1.tmp"]
    assert numbers_of(names, "snapshot-") == [10, 2]


def test_layout_of_a_table() -> None:
    paths = TablePaths("/warehouse/lake.db/orders")
    assert paths.schema_file(3) == "/warehouse/lake.db/orders/schema/schema-3"
    assert paths.snapshot_file(1) == "/warehouse/lake.db/orders/snapshot/snapshot-1"
    assert paths.latest_hint == "/warehouse/lake.db/orders/snapshot/LATEST"
    assert paths.manifest_file("manifest-x-0") == "/warehouse/lake.db/orders/manifest/manifest-x-0"
    assert paths.bucket_dir("", 2) == "/warehouse/lake.db/orders/bucket-2"
    assert paths.bucket_dir("dt=1", 2) == "/warehouse/lake.db/orders/dt=1/bucket-2"


def test_external_path_of_a_file_wins() -> None:
    assert TablePaths.data_file("/t/bucket-0", data_file("f")) == "/t/bucket-0/f"
    assert TablePaths.data_file("/t/bucket-0", data_file("f", external_path="s3://o/f")) == "s3://o/f"
