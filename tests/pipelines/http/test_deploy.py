"""Dashboard and alert rules use metrics and labels that there are, and every alert has its paragraph."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from pipelines.catchup.shown_standing import Standing
from pipelines.http.metrics import DURATIONS, METRICS, PIPELINE
from pipelines.http.metrics_reference import with_metrics
from pipelines.views.table_views import Phase
from tests.support.waiting import seconds

ROOT = Path(__file__).resolve().parents[3]
LABELS = {
    **{metric.name: {*metric.labels} for metric in METRICS},
    **{f"{DURATIONS}_{part}": {*PIPELINE} for part in ("sum", "count")},
    f"{DURATIONS}_bucket": {*PIPELINE, "le"},
}
COUNTERS = {metric.name for metric in METRICS if metric.kind == "counter"} | {f"{DURATIONS}_bucket"}
WORDS = {"phase": {*map(str, Phase)}, "state": {*map(str, Standing)}}
"""Labels whose values are known."""

RULES: list[dict[str, Any]] = [
    rule
    for group in YAML(typ="safe").load((ROOT / "deploy/prometheus-alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
BOARD = json.loads((ROOT / "deploy/grafana-dashboard.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = {
    **{rule["alert"]: rule["expr"] for rule in RULES},
    **{f"{panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]},
    **{f"variable {v['name']}": v["query"] for v in BOARD["templating"]["list"] if v["type"] == "query"},
}


def problems(expression: str) -> Iterator[str]:
    """What is wrong with an expression, as far as it can be told without Prometheus."""
    names = re.findall(r"\btidemark_\w+", expression)
    if not names:
        yield "no metric"
    for name in names:
        if name not in LABELS:
            yield f"no metric {name}"
    for name, matchers in re.findall(r"\b(tidemark_\w+)\{([^}]*)\}", expression):
        for label, operator, text in re.findall(r"(\w+)\s*(=~|!~|!=|=)\s*\"([^\"]*)\"", matchers):
            if label not in LABELS.get(name, {label}):
                yield f"{name} has no label {label}"
            if label in WORDS and operator in ("=", "!=") and text not in WORDS[label]:
                yield f"no {label} {text}"
    for names_of_labels in re.findall(r"\bby \(([^)]*)\)", expression):
        for label in re.split(r",\s*", names_of_labels):
            if not any(label in LABELS.get(name, ()) for name in names):
                yield f"grouped by {label}, which none has"
    for name in re.findall(r"\b(?:rate|increase)\((tidemark_\w+)", expression):
        if name not in COUNTERS:
            yield f"{name} is no counter"
    for left, right in ("()", "{}", "[]"):
        if expression.count(left) != expression.count(right):
            yield f"unbalanced {left}{right}"


@pytest.mark.slow
def test_alerts_fire_as_their_examples_say() -> None:
    found = subprocess.run(
        [ROOT / "scripts/promtool.sh"], capture_output=True, text=True, check=False, timeout=seconds(300)
    )
    if found.returncode:
        pytest.skip(f"no promtool: {found.stderr.strip() or 'scripts/promtool.sh failed'}")
    examples = ROOT / "deploy/prometheus-alerts.test.yaml"
    done = subprocess.run(
        [found.stdout.strip(), "test", "rules", examples],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds(60),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_an_example() -> None:
    tests = YAML(typ="safe").load((ROOT / "deploy/prometheus-alerts.test.yaml").read_text())["tests"]
    fired = {rule["alertname"] for test in tests for rule in test["alert_rule_test"] if rule["exp_alerts"]}
    assert fired == {rule["alert"] for rule in RULES}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_name_metrics_and_labels_that_there_are(name: str) -> None:
    assert list(problems(EXPRESSIONS[name])) == []


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("tidemark_lag > 3", "no metric tidemark_lag"),
        ('tidemark_lag_records{table="x"}', "tidemark_lag_records has no label table"),
        ('tidemark_table_state{state="stopped"}', "no state stopped"),
        ("sum by (step) (tidemark_lag_records)", "grouped by step, which none has"),
        ("rate(tidemark_lag_records[5m])", "tidemark_lag_records is no counter"),
        ("sum(tidemark_lag_records", "unbalanced ()"),
    ],
)
def test_the_check_finds_what_is_wrong(expression: str, problem: str) -> None:
    assert problem in list(problems(expression))


def test_legends_name_labels_that_the_expression_leaves() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            grouped = re.search(r"\bby \(([^)]*)\)", target["expr"])
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            left = (
                set(re.split(r",\s*", grouped[1]))
                if grouped
                else {label for labels in LABELS.values() for label in labels}
            )
            assert named <= left, panel["title"]


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells


def test_every_alert_says_what_happened_and_the_page_says_what_to_do() -> None:
    page = (ROOT / "docs/OPERATIONS.md").read_text()
    named = re.findall(r"^### (Tidemark\w+)\n\n(.+)", page, re.MULTILINE)
    assert [name for name, text in named if len(text) > 40] == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"] and rule["annotations"]["description"].endswith(".")
        assert re.fullmatch(r"\d+[mhd]", rule.get("for", "1m"))


def test_labels_in_the_texts_of_an_alert_are_those_of_its_expression() -> None:
    for rule in RULES:
        texts = " ".join(rule["annotations"].values())
        grouped = re.search(r"\bby \(([^)]*)\)", rule["expr"])
        metric = re.search(r"tidemark_\w+", rule["expr"])
        assert metric is not None
        left = set(re.split(r",\s*", grouped[1])) if grouped else LABELS[metric[0]]
        assert set(re.findall(r"\$labels\.(\w+)", texts)) <= left, rule["alert"]


def test_the_list_of_metrics_on_the_page_is_the_declared_one() -> None:
    page = (ROOT / "docs/OPERATIONS.md").read_text()
    assert with_metrics(page) == page
