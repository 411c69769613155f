"""The list of metrics in docs/OPERATIONS.md, made from the declarations.

`python -m pipelines.http.metrics_reference docs/OPERATIONS.md` puts it between its marks on the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pipelines.http.metrics import DURATIONS, DURATIONS_TEXT, METRICS, PIPELINE

BEGIN, END = "<!-- metrics: made by pipelines/http/metrics_reference.py -->", "<!-- end of metrics -->"


def metrics_list() -> str:
    """A table of all metrics."""
    listed = [(metric.name, metric.kind, metric.labels, metric.text) for metric in METRICS]
    listed.append((DURATIONS, "histogram", PIPELINE, DURATIONS_TEXT))
    rows = [
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {text} |"
        for name, kind, labels, text in listed
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])


def with_metrics(page: str) -> str:
    """The page with the list as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{metrics_list()}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_metrics(path.read_text(encoding="utf-8")), encoding="utf-8")
