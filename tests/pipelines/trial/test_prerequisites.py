"""What topics tell of a pipeline that has read them before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.config.config import PipelineConfig
from pipelines.trial.prerequisites import source_findings
from sources.positions import Bounds
from sources.samples import Sample, TopicFacts

HOUR_MS = 3_600_000


def config_of(root: Path, planned_ms: int, offset: int, former: tuple[str, ...] = ()) -> PipelineConfig:
    """A pipeline whose last closed batch was planned at a time, and ended at an offset of topic t."""
    for name, lines in {
        "metadata": [json.dumps({"id": "q"})],
        "offsets/0": [
            "v1",
            json.dumps({"batchTimestampMs": planned_ms}),
            json.dumps({"t": {"0": offset}, **{topic: {"0": 7} for topic in former}}),
        ],
        "commits/0": ["v1", "{}"],
    }.items():
        (root / "checkpoint" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "checkpoint" / name).write_text("\n".join(lines))
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "shop",
            "source": {"kafka": {"bootstrap_servers": "h:1", "topics": ["t"]}, "format": "debezium-json"},
            "checkpoint": str(root / "checkpoint"),
            "catalog": {"warehouse": str(root / "warehouse")},
            "otherwise": "create",
        }
    )


def sample_of(begin: int, retention_ms: int | None) -> Sample:
    return Sample((), {"t": 9}, topics={"t": TopicFacts({("t", 0): Bounds(begin, 9, 9)}, False, retention_ms)})


@pytest.mark.parametrize(
    ("age_h", "retention_h", "level", "told"),
    [
        (5, 2, "warning", "topic t keeps records for 2.0 hours, and the last batch is 5.0 hours old"),
        (100, 48, "warning", "topic t keeps records for 2.0 days, and the last batch is 4.2 days old"),
        (5, 6, None, ""),
        (5, None, None, ""),
    ],
)
def test_a_retention_shorter_than_the_checkpoint_is_old_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_h: int, retention_h: int | None, level: str | None, told: str
) -> None:
    now_ms = 1_800_000_000_000
    monkeypatch.setattr("pipelines.trial.prerequisites.now_ms", lambda: now_ms)
    config = config_of(tmp_path, now_ms - age_h * HOUR_MS, offset=3)
    found = list(source_findings(config, sample_of(0, retention_h and retention_h * HOUR_MS)))
    assert [finding.level for finding in found] == ([] if level is None else [level])
    assert all(finding.text.startswith(told) for finding in found)


def test_records_that_are_gone_and_rights_that_lack_are_errors(tmp_path: Path) -> None:
    sample = sample_of(5, None)
    unreadable = Sample((), {}, topics=sample.topics, unreadable={"u": "this user may not read it"})
    found = list(source_findings(config_of(tmp_path, 0, offset=3), unreadable))
    assert [(finding.level, finding.text.split(": ")[0]) for finding in found] == [
        ("error", "topic u cannot be read"),
        ("error", "records were lost before they were read"),
    ]


def test_topics_of_the_checkpoint_that_the_file_no_longer_selects_are_an_error(tmp_path: Path) -> None:
    now_ms = 1_800_000_000_000
    found = list(source_findings(config_of(tmp_path, now_ms, offset=3, former=("former",)), sample_of(0, None)))
    assert [finding.level for finding in found] == ["error"]
    assert f"checkpoint {tmp_path}/checkpoint has read topics that source.kafka.topics no longer" in found[0].text
    assert "selects: former. Select them again" in found[0].text
