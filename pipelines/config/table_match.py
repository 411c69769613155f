"""Which source tables a rule is for (`match`), and the names of the tables that they go into (`into`)."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from paimon_table import TableName
from pipelines.config.config_values import ConfigModel, Patterns, refused
from pipelines.config.table_name import name_problem
from sources.topics import any_matches

PLACEHOLDERS = ("database", "schema", "table", "topic")
"""Names of a source table that `into` may use in braces."""

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
"""A placeholder in braces; the group is its name."""

PLAIN = re.compile(r"[\w.-]+")
"""A pattern that matches only one name."""


def _check_into(value: str) -> str:
    for name in PLACEHOLDER.findall(value):
        if name not in PLACEHOLDERS:
            raise refused(
                f"unknown placeholder {{{name}}}; known: " + ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
            )
    bare = PLACEHOLDER.sub("x", value)
    parts = bare.split(".")
    if len(parts) != 2 or not all(parts):
        raise refused("expected DATABASE.TABLE, such as lake.orders or 'lake.{table}'")
    if "{" in bare or "}" in bare:
        raise refused("unbalanced braces; placeholders are written like {table}")
    problem = name_problem(TableName(*parts))
    if problem is not None:
        raise refused(problem)
    return value


Into = Annotated[
    str, AfterValidator(_check_into), WithJsonSchema({"type": "string", "examples": ["lake.orders", "lake.{table}"]})
]
"""Name of the target table, DATABASE.TABLE, with placeholders."""


def _covers(patterns: Patterns, other: str) -> bool:
    if other in patterns or ".*" in patterns:
        return True
    return PLAIN.fullmatch(other) is not None and any_matches(patterns, other)


class Match(ConfigModel):
    """Which source tables a rule is for: every stated name must match. A name is an exact name, a regular expression
    for the whole name, or a list of these. Names are case-sensitive.
    """

    model_config = {"json_schema_extra": {"minProperties": 1}}

    topic: Patterns | None = Field(default=None, description="Kafka topic.")
    database: Patterns | None = Field(default=None, description="Database of the source table.")
    schema_: Patterns | None = Field(
        default=None, alias="schema", description="Schema of the source table (PostgreSQL, SQL Server, Oracle)."
    )
    table: Patterns | None = Field(default=None, description="Source table.")
    exclude: Patterns | None = Field(
        default=None,
        description="Source tables that the rule excludes, by table name only. Later rules and `otherwise` apply to "
        "them.",
    )

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if not any((self.topic, self.database, self.schema_, self.table)):
            raise refused("`match` needs at least one of topic, database, schema, table")
        return self

    def matches(self, database: str | None, schema: str | None, table: str | None, topic: str) -> bool:
        """Whether every given pattern matches; a name that the source does not have matches no pattern."""
        return (
            (self.table is None or any_matches(self.table, table))  # what differs most among rules comes first
            and (self.database is None or any_matches(self.database, database))
            and (self.schema_ is None or any_matches(self.schema_, schema))
            and self.takes_topic(topic)
            and not (self.exclude and any_matches(self.exclude, table))
        )

    def takes_topic(self, topic: str) -> bool:
        """Whether records of a topic may match, whatever else is known of their source table."""
        return self.topic is None or any_matches(self.topic, topic)

    def covers(self, other: Match) -> bool:
        """Whether this takes every source table that ``other`` takes, as far as plain names and `.*` show it."""
        if self == other:
            return True
        pairs = zip(self.by_name.values(), other.by_name.values(), strict=True)
        if not all(mine is None or (theirs and all(_covers(mine, one) for one in theirs)) for mine, theirs in pairs):
            return False
        tables = other.table or ()
        return not self.exclude or (
            bool(tables) and all(PLAIN.fullmatch(t) and not any_matches(self.exclude, t) for t in tables)
        )

    def __str__(self) -> str:
        """The patterns by the names that they are for: ``schema public, table a|b``."""
        given = ((name, patterns) for name, patterns in self.by_name.items() if patterns is not None)
        return ", ".join(f"{name} {'|'.join(patterns)}" for name, patterns in given)

    @property
    def by_name(self) -> dict[str, tuple[str, ...] | None]:
        """The patterns for each name of a source table, in the order of ``PLACEHOLDERS``; None: any name."""
        return dict(zip(PLACEHOLDERS, (self.database, self.schema_, self.table, self.topic), strict=True))
