"""`tidemark test`: what the command is called and takes. What it does is imported when it is called, as Arrow is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from paimon_table.errors import ConfigError
from pipelines.report.say import say

FAILED = 1

File = Annotated[Path, typer.Argument(metavar="FILE", help="Pipeline file.", show_default=False)]


def test(
    file: File,
    cases: Annotated[
        Path | None,
        typer.Option(
            "--cases",
            metavar="CASES.yaml",
            help="The file of cases; by default PIPELINE.test.yaml beside PIPELINE.yaml.",
            show_default=False,
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="OUT.xml", help="Write the results as JUnit XML too.", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("-k", metavar="NAME", help="Only cases whose name has this in it.", show_default=False),
    ] = None,
) -> None:
    """Play the test cases of a pipeline: records in, and the rows, changelog and quarantine that come of them.

    The real decoding, routing, writing and committing run in this process, into a warehouse that is thrown away. Spark,
    the source and the pipeline's own tables are not touched. Exits with 1 when a case fails.
    """
    from pipelines.config.config_file import load_pipeline
    from pipelines.trial.case_file import load_cases
    from pipelines.trial.case_report import result_lines, summary_line, write_junit
    from pipelines.trial.case_run import play

    path = cases or default_cases(file)
    found, loaded = load_cases(path)
    config = load_pipeline(file, {**os.environ, **found.environment})
    chosen = [one for one in loaded if name is None or name.lower() in one.case.name.lower()]
    if not chosen:
        names = ", ".join(one.case.name for one in loaded)
        raise ConfigError(f"-k {name}: no case of {path} has this in its name; there are: {names}")
    results = []
    for one in chosen:
        results.append(play(config, one))
        say("\n".join(result_lines(results[-1])))
    say(summary_line(results))
    if junit is not None:
        write_junit(junit, config.name, results)
    if not all(result.has_passed for result in results):
        raise typer.Exit(FAILED)


def default_cases(file: Path) -> Path:
    """The cases of a pipeline file stand beside it; ConfigError where there are none."""
    path = file.with_suffix(f".test{file.suffix}")
    if not path.exists():
        raise ConfigError(f"{file} has no test cases: write them to {path}, or name their file with --cases")
    return path
