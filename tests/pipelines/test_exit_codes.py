"""What processes end with where storage refuses the keys, and where one pipeline of several fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from pipelines import cli
from pipelines.report.run_summary import FinishedRun
from pipelines.report.run_totals import Totals
from pipelines.run import EndedRun
from tests.support.command import tidemark
from tests.support.s3_server import s3_server

YAML = """\
version: 1
name: shop
source: {{ files: {{ path: dumps }}, format: debezium-json }}
checkpoint: state
catalog:
  warehouse: s3://lake/warehouse
  options: {{ s3.endpoint: "{endpoint}", s3.access-key: other, s3.secret-key: k, s3.path.style.access: true }}
otherwise: create
"""


@pytest.mark.slow
def test_keys_that_the_store_refuses_end_with_1_and_what_to_check(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    (tmp_path / "dumps").mkdir()
    with s3_server() as store:
        store.answers_with = 403
        file.write_text(YAML.format(endpoint=store.endpoint))
        access = {"s3.endpoint": store.endpoint, "s3.access-key": "other", "s3.secret-key": "k"}
        options = [text for name, value in access.items() for text in ("--option", f"{name}={value}")]
        looked = tidemark("table", "snapshots", "s3://lake/t", *options, "--option", "s3.path.style.access=true")
        ran = tidemark("run", file, "--once")

    for done in (looked, ran):
        assert done.returncode == 1, done.stdout + done.stderr
        assert "s3://lake" in done.stderr and "check" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(("others", "code"), [(0, 2), (1, 1)], ids=["alone", "beside a good one"])
def test_good_pipelines_have_their_summary_when_another_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, others: int, code: int
) -> None:
    """The request as a whole was not wrong where others have done their work: a restart lets them go on."""
    (tmp_path / "dumps").mkdir()
    files = [tmp_path / f"{name}.yaml" for name in ("bad", "good")[: 1 + others]]
    for file in files:
        text = YAML.format(endpoint="http://localhost:1").replace("s3://lake/warehouse", str(tmp_path / "lake"))
        text = text[: text.index("  options:")] + "otherwise: create\n"
        file.write_text(text.replace("shop", file.stem).replace("checkpoint: state", f"checkpoint: {file.stem}-state"))

    def runs(configs: list[object], *_: object) -> EndedRun:
        finished = [FinishedRun(config, dict, Totals()) for config in configs[1:]]  # type: ignore[arg-type]
        return EndedRun(finished, ConfigError("pipeline bad: the first batch shows that the rule is wrong"))

    monkeypatch.setattr("pipelines.run.run_pipelines", runs)
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", *map(str, files), "--once"])

    told = capsys.readouterr()
    assert ended.value.code == code
    assert told.out == "good: nothing new since the last run\n" * others
    assert "pipeline bad: the first batch shows that the rule is wrong" in told.err
