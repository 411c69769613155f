"""The results of a pipeline's cases: lines for people, and JUnit's XML for the page of a CI system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from pipelines.report.safe_text import shown
from pipelines.trial.case_run import CaseResult


def result_lines(result: CaseResult) -> Iterator[str]:
    """A line for a case that holds; for another one all that is not as expected, with its place."""
    word = "pass" if result.has_passed else "FAIL"
    yield f"{word}  {result.name} ({result.seconds:.2f} s)"
    yield from (f"      {line}" for line in difference_lines(result))


def difference_lines(result: CaseResult) -> Iterator[str]:
    """The differences from the expectation, with the pipeline's warnings if there are any."""
    for difference in result.differences:
        yield f"{result.place(difference)}: {difference.text}"
        yield from (f"  {line}" for line in difference.lines)
    if not result.has_passed:
        yield from (f"log: {line}" for line in result.warnings)


def summary_line(results: Sequence[CaseResult]) -> str:
    failed = sum(not result.has_passed for result in results)
    seconds = sum(result.seconds for result in results)
    count = f"{len(results)} case" if len(results) == 1 else f"{len(results)} cases"
    return f"{count}, {failed} failed ({seconds:.2f} s)" if failed else f"{count} passed ({seconds:.2f} s)"


def write_junit(path: Path, pipeline: str, results: Sequence[CaseResult]) -> None:
    """The results as a JUnit file; its directory is made."""
    failed = str(sum(not result.has_passed for result in results))
    seconds = f"{sum(result.seconds for result in results):.3f}"
    totals = {"tests": str(len(results)), "failures": failed, "errors": "0", "skipped": "0", "time": seconds}
    root = ET.Element("testsuites", totals)
    suite = ET.SubElement(root, "testsuite", {"name": pipeline, **totals})
    for result in results:
        place = {"file": str(result.loaded.path), "line": str(result.loaded.line())}
        case = ET.SubElement(
            suite, "testcase", {"classname": pipeline, "name": result.name, "time": f"{result.seconds:.3f}", **place}
        )
        if not result.has_passed:
            failure = ET.SubElement(case, "failure", {"message": shown(result.differences[0].text)})
            failure.text = "\n".join(map(shown, difference_lines(result)))
    ET.indent(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
