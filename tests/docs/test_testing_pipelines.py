"""The cases that docs/TESTING_PIPELINES.md shows hold, and a failure looks as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, page
from tests.support.command import tidemark

TEXT = page("TESTING_PIPELINES.md").read_text(encoding="utf-8")
CASES = re.findall(r"<!-- cases -->\n```yaml\n(.*?)```", TEXT, re.DOTALL)
SHOP = ROOT / "configs" / "shop.yaml"


@pytest.mark.parametrize("cases", CASES)
def test_the_cases_of_the_page_hold(tmp_path: Path, cases: str) -> None:
    file = tmp_path / "shop.test.yaml"
    file.write_text(cases)
    done = tidemark("test", SHOP, "--cases", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_avro_case_of_the_page_holds(tmp_path: Path) -> None:
    (cases,) = re.findall(r"## Avro\n.*?```yaml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "shop.test.yaml").write_text(cases)
    (tmp_path / "shop.yaml").write_text(
        "version: 1\nname: shop\ncheckpoint: state\ncatalog: { warehouse: lake }\n"
        "source: { files: { path: . }, format: { avro: { registry: { url: 'http://nowhere:1' } } } }\n"
        "tables: [{ match: { table: orders }, into: lake.orders, primary_key: [id] }]\n"
    )
    done = tidemark("test", tmp_path / "shop.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_diff_of_the_page_is_what_a_failure_looks_like(tmp_path: Path) -> None:
    file = tmp_path / "shop.test.yaml"
    file.write_text(
        CASES[0].replace("- { id: 1, name: Ada L., credit: 524.64 }", "- { id: 1, name: Ada, credit: '524.64' }")
    )
    shown = next(block for block in re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL) if block.startswith("FAIL"))
    told = tidemark("test", SHOP, "--cases", file).stdout.replace(f"{tmp_path}/", "")
    lines = [line for line in re.sub(r"\d+\.\d+ s", "0.15 s", told).splitlines() if "log: " not in line]
    assert lines == shown.splitlines()
