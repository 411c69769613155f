"""A file of test cases: the input records, and the rows, the changelog and the quarantine expected as the result.

The file is YAML, checked like a pipeline file: every error names its place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationError, field_validator, model_validator

from paimon_table.errors import ConfigError
from paimon_table.nearest_name import did_you_mean
from pipelines.config.config_errors import problem_at, problem_lines, validation_problems
from pipelines.config.config_values import REFUSED, ColumnType, ConfigModel, Instant, Location, Text, refused
from pipelines.config.yaml_file import KeyPath, Problem, YamlFile, read_yaml
from pipelines.trial.avro_values import AvroSchema, avro_schema
from sources.changes import SKIPS

Row = Mapping[str, Any]

KINDS = ("+I", "-U", "+U", "-D")
"""How the changes of a changelog begin, as ``tidemark table changes`` prints them."""


class Record(ConfigModel):
    """One record of a topic, or all records of a dump file."""

    topic: Text | None = Field(default=None, description="Its topic; by default the `topic` of the case.")
    key: Any = Field(default=None, description="Text as it is; anything else is written as JSON. null: no key.")
    value: Any = Field(default=None, description="The same; null is a tombstone.")
    key_b64: Text | None = Field(default=None, description="The bytes of the key in base64.")
    value_b64: Text | None = Field(default=None, description="The bytes of the value in base64.")
    key_schema: int | None = Field(default=None, description="The number of the Avro schema that writes the key.")
    value_schema: int | None = Field(default=None, description="The same of the value.")
    headers: Mapping[str, Text | None] = Field(default_factory=dict, description="Names and texts.")
    timestamp: Instant | None = Field(default=None, description="Kafka's time of the record.")
    partition: int = Field(default=0, ge=0, description="Its partition.")
    offset: int | None = Field(default=None, ge=0, description="Its offset; by default the next one.")
    file: Location | None = Field(
        default=None, description="A file of records, one JSON object a line, as `kcat -J` prints them."
    )

    @model_validator(mode="after")
    def _checked(self) -> Self:
        given = self.model_fields_set
        if self.file is not None:
            others = sorted(given - {"file"})
            if others:
                raise refused(f"the lines of `file` have what a record needs; remove `{others[0]}`", others[0])
            return self
        if not given & {"value", "value_b64"}:
            raise refused("a record needs a `value`; write `value: null` for a tombstone")
        for name in ("key", "value"):
            if {name, f"{name}_b64"} <= given:
                raise refused(f"`{name}` and `{name}_b64` are both given; leave one", name)
            if {f"{name}_schema", f"{name}_b64"} <= given:
                text = f"the bytes of `{name}_b64` need no schema; write `{name}`, or remove `{name}_schema`"
                raise refused(text, f"{name}_schema")
        return self


def _kind_of_step(value: Any) -> str | None:
    return "<kill>" if value == "kill" else "<records>" if isinstance(value, list | tuple) else None


Step = Annotated[
    Annotated[Literal["kill"], Tag("<kill>")] | Annotated[tuple[Record, ...], Tag("<records>")],
    Discriminator(
        _kind_of_step,
        custom_error_type=REFUSED,
        custom_error_message="expected a list of records, or the word kill",
    ),
]
"""A batch of records; or ``kill``, which ends the process of the batch before it once its rows are committed."""


class Quarantined(ConfigModel):
    """A record that is expected in the quarantine."""

    topic: Text | None = Field(default=None, description="Its topic.")
    partition: int | None = Field(default=None, ge=0, description="Its partition.")
    offset: int | None = Field(default=None, ge=0, description="Its offset.")
    reason: Text = Field(description="A part of the reason.")


class Expectation(ConfigModel):
    """The expected state after all batches of the case. Omitted parts are not checked."""

    tables: Mapping[str, tuple[Row, ...]] | None = Field(
        default=None,
        description="The rows of every table that the case creates; columns that no row names are not checked.",
    )
    changelog: Mapping[str, tuple[Row, ...]] | None = Field(
        default=None, description="The changes of a table, each `KIND: {column: value}`, in the order of each key."
    )
    quarantine: tuple[Quarantined, ...] = Field(
        default=(), description="The records in the quarantine; by default there are none."
    )
    skipped: Mapping[str, int] | None = Field(default=None, description="How many records were skipped, by reason.")
    schema_: Mapping[str, Mapping[str, ColumnType]] | None = Field(
        default=None, alias="schema", description="All columns of a table, with their types."
    )
    paused: Mapping[str, str] = Field(
        default_factory=dict, description="The tables that are paused, with a part of the reason; by default none."
    )
    error: Text | None = Field(default=None, description="A part of the error that stops the pipeline.")

    @field_validator("changelog")
    @classmethod
    def _changes(cls, changelog: Mapping[str, tuple[Row, ...]] | None) -> Mapping[str, tuple[Row, ...]] | None:
        for table, changes in (changelog or {}).items():
            for number, change in enumerate(changes):
                (kind, row), *others = [*change.items(), ("", None)]
                if len(others) != 1 or kind not in KINDS or not isinstance(row, dict):
                    text = f"expected one of {', '.join(KINDS)} with a row, such as `+I: {{id: 1}}`"
                    raise refused(text, table, number)
        return changelog

    @field_validator("skipped")
    @classmethod
    def _reasons(cls, skipped: Mapping[str, int] | None) -> Mapping[str, int] | None:
        for reason in skipped or {}:
            if reason not in SKIPS.values():
                raise refused(f"unknown reason '{reason}'; {did_you_mean(reason, [*SKIPS.values()])}", reason)
        return skipped


class Case(ConfigModel):
    """One case, which begins with an empty warehouse and a new checkpoint."""

    name: Text = Field(description="The behaviour that it shows; no two cases have the same name.")
    topic: Text | None = Field(default=None, description="The topic of records without one.")
    key_schema: int | None = Field(default=None, description="The Avro schema of keys without one.")
    value_schema: int | None = Field(default=None, description="The Avro schema of values without one.")
    records: tuple[Record, ...] | None = Field(default=None, description="The records of a single batch.")
    batches: tuple[Step, ...] | None = Field(
        default=None, description="Lists of records; `kill` between two ends the process after the first."
    )
    expect: Expectation = Field(description="The expected result of the case.")

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if (self.records is None) == (self.batches is None):
            raise refused("give exactly one of `records` and `batches`")
        steps = self.batches or ()
        for number, step in enumerate(steps):
            if step == "kill" and (number == 0 or steps[number - 1] == "kill"):
                raise refused("`kill` ends the process of the batch before it, but there is none", "batches")
        return self


class CaseFile(ConfigModel):
    """The cases of one pipeline file."""

    environment: Mapping[str, str] = Field(
        default_factory=dict,
        description="Variables for the `${env:NAME}` of the pipeline file; they win over those of the process.",
    )
    schemas: Mapping[int, Any] = Field(
        default_factory=dict,
        description="Avro schemas by their numbers, in place of the registry of the pipeline file.",
    )
    cases: tuple[Case, ...] = Field(description="The cases, one at least.")

    @field_validator("cases")
    @classmethod
    def _distinct(cls, cases: tuple[Case, ...]) -> tuple[Case, ...]:
        if not cases:
            raise refused("expected at least one case")
        names = [case.name for case in cases]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise refused(f"two cases have the name '{name}'; rename one of them")
        return cases


@dataclass(frozen=True, slots=True)
class LoadedCase:
    """A case, and its place in the file."""

    case: Case
    path: Path
    at: KeyPath
    file: YamlFile
    schemas: Mapping[int, AvroSchema] = field(default_factory=dict)

    def line(self, *below: str | int) -> int:
        """The line of a key or value of the case, or of the nearest thing around it."""
        return self.file.place((*self.at, *below), of_key=True).line


def load_cases(path: Path) -> tuple[CaseFile, list[LoadedCase]]:
    """The cases of a file. Raises ConfigError with a line ``file:line:column: ...`` for each problem."""
    file = read_yaml(path, os.environ)
    problems = list(file.problems)
    cases: CaseFile | None = None
    if file.data is not None:
        try:
            cases = CaseFile.model_validate(file.data, context={"directory": path.absolute().parent})
        except ValidationError as error:
            problems += validation_problems(CaseFile, error, file)
        else:
            problems += [*_topicless(cases, file), *_schemaless(cases, file)]
    if problems or cases is None:
        raise ConfigError(problem_lines(str(path), problems))
    schemas = {
        number: avro_schema(number, schema, f"{path}:{file.place(('schemas', number), of_key=True).line}")
        for number, schema in cases.schemas.items()
    }
    return cases, [LoadedCase(case, path, ("cases", number), file, schemas) for number, case in enumerate(cases.cases)]


def _topicless(cases: CaseFile, file: YamlFile) -> list[Problem]:
    """Records without a stated topic."""
    problems = []
    for number, case in enumerate(cases.cases):
        for at, record in records_of(case):
            if record.topic is None and case.topic is None and record.file is None:
                text = "name the `topic` of the record, or that of the case"
                problems.append(problem_at(file, ("cases", number, *at), text, said_of=()))
    return problems


def _schemaless(cases: CaseFile, file: YamlFile) -> list[Problem]:
    """Schemas that are named but missing."""
    named: list[tuple[KeyPath, int | None]] = []
    for number, case in enumerate(cases.cases):
        for at, record in [((), case), *records_of(case)]:
            named += [(("cases", number, *at, name), getattr(record, name)) for name in ("key_schema", "value_schema")]
    there = ", ".join(map(str, cases.schemas)) or "none"
    return [
        problem_at(file, at, f"there is no schema {schema} under `schemas`; there are: {there}", said_of=())
        for at, schema in named
        if schema is not None and schema not in cases.schemas
    ]


def records_of(case: Case) -> list[tuple[KeyPath, Record]]:
    """The records of a case with their paths below it."""
    found: list[tuple[KeyPath, Record]] = [(("records", i), record) for i, record in enumerate(case.records or ())]
    for number, step in enumerate(case.batches or ()):
        if step != "kill":
            found += [(("batches", number, i), record) for i, record in enumerate(step)]
    return found
