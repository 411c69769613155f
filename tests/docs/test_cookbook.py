"""Every example of `examples/` is valid, its cases hold, and its page shows the files as they are."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from pipelines.trial.case_file import load_cases
from tests.docs.cookbook import EXAMPLES, PAGES, TESTS, filled, page_of, pipeline_of
from tests.docs.documents import ROOT
from tests.support.command import tidemark

INDEX = (ROOT / "docs" / "cookbook" / "index.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("test", TESTS, ids=lambda test: str(test.relative_to(EXAMPLES)).removesuffix(".test.yaml"))
def test_an_example_is_valid_its_cases_hold_and_its_page_shows_it(
    test: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline, page = pipeline_of(test), page_of(test).read_text(encoding="utf-8")
    for name, value in load_cases(test)[0].environment.items():
        monkeypatch.setenv(name, value)
    with caplog.at_level(logging.WARNING, "pipelines"):
        valid = tidemark("validate", pipeline)
    assert (valid.returncode, caplog.messages) == (0, []), valid.stderr

    played = tidemark("test", pipeline)

    assert played.returncode == 0, played.stdout + played.stderr
    for file in (pipeline, test):
        assert f"<!-- file: {file.relative_to(ROOT)} -->" in page
    assert f"<!-- tables: {test.relative_to(ROOT)} -->" in page
    assert filled(page) == page, "python -m tests.docs.cookbook writes the files into the pages"
    sentences = re.findall(r"\.(?=\s|$)", page.partition("##")[0])
    assert 3 <= len(sentences) <= 8, "what comes out, what the source must have, what the table holds, what to watch"
    assert f"]({page_of(test).name})" in INDEX


def test_every_page_has_an_example_and_every_example_its_cases() -> None:
    assert len(TESTS) == 17
    assert {page.name for page in PAGES} == {"index.md", *(page_of(test).name for test in TESTS)}
    pipelines = {p for p in EXAMPLES.rglob("*.yaml") if p not in TESTS and p.name != "kustomization.yaml"}
    assert pipelines == {pipeline_of(test) for test in TESTS}
