"""`tidemark test | plan | init`: names and parameters of the commands. A call imports the code behind them."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from paimon_table.errors import ConfigError
from pipelines.report.arguments import FAILED, WRONG_REQUEST, PipelineFile
from pipelines.report.say import say

SOMETHING_TO_DO = 3
"""The exit code of `plan` if a run would create or change a table."""


class PlanFormat(StrEnum):
    """Form of the output of `plan`."""

    TEXT = "text"
    JSON = "json"


def test(
    file: PipelineFile,
    cases: Annotated[
        Path | None,
        typer.Option(
            "--cases",
            metavar="CASES.yaml",
            help="The file of cases; by default PIPELINE.test.yaml next to PIPELINE.yaml.",
            show_default=False,
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="OUT.xml", help="Write the results as JUnit XML too.", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("-k", metavar="NAME", help="Only cases whose name contains this text.", show_default=False),
    ] = None,
) -> None:
    """Run the test cases of a pipeline, which compare rows, changelog and quarantine with expectations.

    Decoding, routing, writing and committing work as in a pipeline, but in this process and into a temporary
    warehouse. The command uses neither Spark nor the source, and does not touch the pipeline's tables. If a case
    fails, the exit code is 1.
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


def plan(
    file: PipelineFile,
    format: Annotated[PlanFormat, typer.Option("--format", "-f", help="Text for people, or one JSON document.")] = (
        PlanFormat.TEXT
    ),
    records: Annotated[
        int, typer.Option("--records", metavar="N", min=1, help="Sample at most this many records of each topic.")
    ] = 1000,
) -> None:
    """Show what a pipeline would do, and change nothing.

    Decodes a sample of its topics or files as a run does, into a temporary warehouse. Prints the tables that a run
    would create or change, rows as it would store them, and records that would go to quarantine. Also prints
    prerequisites that are not met. The exit code is 3 if a run would create or change a table, otherwise 0. It is 1
    if a prerequisite is not met, or if every record of the sample would go to quarantine. If a listed topic is
    missing, it is 2.
    """
    from pipelines.config.config_file import load_pipeline
    from pipelines.report.output import checked_stdout, quiet_pipe
    from pipelines.report.safe_text import json_line
    from pipelines.trial.plan_report import PlanReport, as_document, as_lines
    from pipelines.trial.prerequisites import preview_findings, source_findings, stored_findings
    from pipelines.trial.preview import preview
    from pipelines.trial.sampled_source import sampled

    config = load_pipeline(file)
    findings = stored_findings(config)
    source = sampled(config, records)
    found = preview(config, source.sample)
    findings += [*source.findings, *source_findings(config, source.sample)]
    findings += preview_findings(config, source.sample, found, findings)
    report = PlanReport(config, source.sample, found, findings)
    with quiet_pipe():
        if format is PlanFormat.JSON:
            checked_stdout().write(json_line(as_document(report)) + "\n")
        else:
            say("\n".join(as_lines(report)))
    if report.has_failed:
        raise typer.Exit(WRONG_REQUEST if source.is_refused else FAILED)
    if found.has_changes:
        raise typer.Exit(SOMETHING_TO_DO)


def init(
    servers: Annotated[
        str | None,
        typer.Option("--bootstrap-servers", metavar="HOST:PORT", help="The Kafka cluster.", show_default=False),
    ] = None,
    files: Annotated[
        str | None,
        typer.Option("--files", metavar="PATH", help="Dumps of topics: a file, a directory or a glob."),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topics", metavar="PATTERN", help="Only topics whose whole name matches; repeatable."),
    ] = None,
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="NAME=VALUE",
            help="Property of Kafka's client, such as security.protocol=SSL; repeatable. The file refers to secrets as "
            "environment variables.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the file there.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """Write a pipeline file for the topics of a Kafka cluster, or for dumps of topics.

    Samples each topic to detect format, message key and types. The end of the file lists topics in another format,
    and other topics that the pipeline does not read. Without --output prints the file.
    """
    from pipelines.config.config_values import check_pattern
    from pipelines.trial import starting
    from pipelines.trial.starter_file import starter_file
    from sources.topics import TopicSelection
    from sources.wording import counted

    if (servers is None) == (files is None):
        raise ConfigError("the source is missing: give either --bootstrap-servers HOST:PORT or --files PATH")
    if files is not None and property_:
        raise ConfigError("--property: files have no properties of Kafka's client; leave it out")
    if force and output is None:
        raise ConfigError("--force: nothing is replaced without --output FILE; leave it out")
    if output is not None and output.exists() and not force:
        raise ConfigError(f"{output} exists already; --force replaces it")
    try:
        selection = TopicSelection(include=tuple(map(check_pattern, topics or ())))
    except ValueError as error:
        raise ConfigError(f"--topics: {error}") from None
    name = starting.name_for(output)
    if servers is not None:
        properties = starting.given_properties(property_ or ())
        start = starting.start_from_kafka(servers, selection, properties, name)
    else:
        directory = Path() if output is None else output.parent
        start = starting.start_from_files(str(files), selection, directory, name)
    text = starter_file(start)
    if output is None:
        typer.echo(text, nl=False)
        return
    starting.write_file(output, text, force=force)
    left = len(start.topics) - len(start.read)
    reads = counted(len(start.read), "topic")
    say(f"{output}: pipeline {name} reads {reads} as {start.format}; {left} left out", err=True)


def default_cases(file: Path) -> Path:
    """The case files next to a pipeline file; raises ConfigError if there are none."""
    from pipelines.config.yaml_file import read_yaml

    path = file.with_suffix(f".test{file.suffix}")
    if not path.exists():
        read_yaml(file, os.environ)  # names the pipeline file if that is the missing one
        raise ConfigError(f"{file} has no test cases: write them to {path}, or name their file with --cases")
    return path
