"""From a YAML file to a PipelineConfig, or to a ConfigError that lists everything that is wrong with the file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from paimon_table.errors import ConfigError
from pipelines.config.config import PipelineConfig
from pipelines.config.config_checks import check_config, warn_once
from pipelines.config.config_errors import problem_at, problem_lines, validation_problems
from pipelines.config.shared_tables import tables_shared
from pipelines.config.yaml_file import Place, Problem, read_yaml


def load_pipeline(path: str | Path, environment: Mapping[str, str] | None = None) -> PipelineConfig:
    """Read, resolve and check one pipeline file; paths in it become absolute, relative to the file's directory.

    ``environment`` is the process environment unless given. Raises ConfigError whose text has one line
    ``file:line:column: ...`` per problem.
    """
    path = Path(path)
    file = read_yaml(path, os.environ if environment is None else environment)
    problems = list(file.problems)
    config: PipelineConfig | None = None
    foreign = foreign_problem(file.data)
    if foreign is not None:
        problems = [Problem(Place(1, 1), foreign)]
    elif file.data is not None:
        try:
            config = PipelineConfig.model_validate(file.data, context={"directory": path.absolute().parent})
        except ValidationError as error:
            problems += validation_problems(PipelineConfig, error, file)
        else:
            problems += check_config(config, file, str(path))
    if problems or config is None:
        raise ConfigError(problem_lines(str(path), problems))
    return config


def load_pipelines(paths: Sequence[str | Path]) -> list[PipelineConfig]:
    """Read several files that run together. Raises ConfigError with the problems of all files."""
    configs: list[PipelineConfig] = []
    failures: list[str] = []
    for path in paths:
        try:
            configs.append(load_pipeline(path))
        except ConfigError as error:
            failures.append(str(error))
    if failures:
        raise ConfigError("\n".join(failures))
    check_together(paths, configs)
    return configs


def check_together(paths: Sequence[str | Path], configs: Sequence[PipelineConfig]) -> None:
    """Raise ConfigError for pipelines that cannot run in one process.

    Each pipeline has its own name and checkpoint. One file sets the settings of the process, or all files set the same.
    Only one pipeline may feed a topic into a table that counts records. Several may feed it into other tables, with a
    warning.
    """
    clashes = []
    for i, later in enumerate(configs):
        for first, earlier in zip(paths, configs[:i], strict=False):
            if later.name == earlier.name:
                clashes.append(f"{paths[i]}: name '{later.name}' is also the name in {first}; rename one of them")
            elif later.checkpoint == earlier.checkpoint:
                clashes.append(f"{paths[i]}: {first} has the same checkpoint; give each pipeline its own")
            elif later.quarantine == earlier.quarantine:
                clashes.append(
                    f"{paths[i]}: {first} has the same quarantine, and a retry applies all records in it; give each "
                    "pipeline a separate one"
                )
            clashes += _shared(paths[i], later, first, earlier)
            masters = later.spark.master, earlier.spark.master
            if None not in masters and masters[0] != masters[1]:
                clashes.append(
                    f"{paths[i]}: spark.master {masters[0]} is {masters[1]} in {first}; a process has only one: "
                    "use the same value, or run the files in separate processes"
                )
            group = _common_group(later, earlier)
            if group is not None:
                warn_once(
                    "%s: group_id %s is also in %s: Kafka's tools show the offsets of the one that commits "
                    "last; use a separate group for each",
                    paths[i],
                    group,
                    first,
                )
            for key, mine, other in (("metrics", later.metrics, earlier.metrics), ("ui", later.ui, earlier.ui)):
                if mine is not None and other is not None and mine != other:
                    clashes.append(f"{paths[i]}: `{key}` differs from {first}; one process serves only one of them")
    if clashes:
        raise ConfigError("\n".join(clashes))


def _common_group(config: PipelineConfig, other: PipelineConfig) -> str | None:
    """The consumer group of both, if they have one of the same cluster."""
    mine, its = config.source.kafka, other.source.kafka
    if mine is None or its is None or mine.bootstrap_servers != its.bootstrap_servers:
        return None
    return mine.group_id if mine.group_id == its.group_id else None


def _shared(path: str | Path, config: PipelineConfig, other_path: str | Path, other: PipelineConfig) -> list[str]:
    """Messages about rules of two files that write the same records into one table; warnings if they may do so."""
    found = list(tables_shared(config, other))
    if not found:
        return []
    file, other_file = read_yaml(Path(path), os.environ), read_yaml(Path(other_path), os.environ)
    refused = []
    for shared in found:
        line = other_file.place(("tables", shared.other, "into"), of_key=True).line
        into = config.tables[shared.rule].into
        text = f"{into} is also written by pipeline {other.name} ({other_path}:{line}): {shared.text}; {shared.remedy}"
        lines = [problem_at(file, ("tables", shared.rule, "into"), text)]
        if shared.is_refused:
            refused.append(problem_lines(str(path), lines))
        else:
            warn_once("%s", problem_lines(str(path), lines, "warning: "))
    return refused


_START = "begin with the example in docs/CONFIGURATION.md"


def foreign_problem(data: Any) -> str | None:
    """The kind of file that it is instead of a pipeline file; None if it may be one."""
    keys = set(data) if isinstance(data, dict) else set()
    if "version" in keys or "checkpoint" in keys or "catalog" in keys:
        return None
    if "sink" in keys and "source" in keys:
        return f"this looks like a pipeline of Flink CDC, not of Tidemark; {_START}"
    if "connector.class" in keys or {"name", "config"} <= keys:
        return f"this looks like a connector of Kafka Connect: give it to Connect, and for Tidemark {_START}"
    if "cases" in keys and "source" not in keys:
        return "this is a file of test cases: run them with `tidemark test FILE`, where FILE is the pipeline file"
    if "services" in keys:
        return f"this looks like a Compose file, not a pipeline file; {_START}"
    return None
