"""The differences between two versions of a pipeline file: which of them a running pipeline can adopt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paimon_table.errors import ConfigError
from pipelines.config.config import PipelineConfig
from sources.kafka.client_properties import why_not_direct

_FIXED: Mapping[str, str] = {
    "name": "the tables and the checkpoint belong to it",
    "checkpoint": "it holds the progress and the lock of the pipeline",
    "catalog": "its tables are open, and they store the positions",
    "spark": "the Spark session has started with these properties",
    "metrics": "the port is open",
    "ui": "the port is open",
    "source.files": "the positions in the checkpoint belong to the source",
    "source.kafka.bootstrap_servers": "the positions in the checkpoint belong to this cluster",
    "source.kafka.reader": "the JVM has started with the libraries of this reader",
    "source.quarantine": "the existing records would be left behind",
}
"""Settings that stay while the process runs, and why."""


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """``added``, ``removed`` and ``changed`` are tables as the rules name them, ``settings`` everything else."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    @property
    def is_none(self) -> bool:
        return self == ConfigChanges()

    def __str__(self) -> str:
        parts = (
            ("tables added: ", self.added),
            ("tables removed: ", self.removed),
            ("rules changed: ", self.changed),
            ("changed: ", self.settings),
        )
        return "; ".join(word + ", ".join(names) for word, names in parts if names) or "nothing has changed"


def changes_of(running: PipelineConfig, wanted: PipelineConfig) -> ConfigChanges:
    """The changes of a reload. Raises ConfigError for what cannot change while the process runs."""
    differing = sorted(_differing(running, wanted))
    fixed = [f"{path}: {why}" for path in differing if (why := _why_fixed(path)) is not None]
    if _is_for_librdkafka(running) is not _is_for_librdkafka(wanted):
        fixed.append("source.kafka.options: they need a `reader` other than the running one")
    if fixed:
        raise ConfigError(f"the pipeline continues unchanged: {'; '.join(fixed)}. To change this, restart the pipeline")
    before, after = _rules(running), _rules(wanted)
    return ConfigChanges(
        tuple(name for name in after if name not in before),
        tuple(name for name in before if name not in after),
        tuple(
            word
            for name in after
            if name in before and before[name] != after[name]
            for word in _changed_rules(wanted, name, before[name])
        ),
        tuple(path for path in differing if path.partition(".")[0] not in ("tables", "defaults", "otherwise")),
    )


def _is_for_librdkafka(config: PipelineConfig) -> bool:
    """Whether the properties of Kafka's client leave ``reader: auto`` its choice."""
    kafka = config.source.kafka
    return kafka is None or kafka.reader != "auto" or why_not_direct(kafka.options) is None


def _why_fixed(path: str) -> str | None:
    return next((why for fixed, why in _FIXED.items() if path == fixed or path.startswith(f"{fixed}.")), None)


def _rules(config: PipelineConfig) -> Mapping[str, list[object]]:
    """The effective rules by the tables that they name; several may name one."""
    rules: dict[str, list[object]] = {}
    for rule in config.tables:
        rules.setdefault(rule.into, []).append((rule.match, config.target_rule(rule)))
    created = config.created_rule()
    rules.update({} if created is None else {f"otherwise: {created.into}": [created]})
    return rules


def _changed_rules(wanted: PipelineConfig, name: str, before: Sequence[object]) -> Sequence[str]:
    """The names of the changed rules of a table; the name of the table if no rule is new."""
    rules = [rule for rule in wanted.tables if rule.into == name]
    return [wanted.name_of(r) for r in rules if (r.match, wanted.target_rule(r)) not in before] or [name]


def _differing(running: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """The dotted paths of the settings that differ; of a mapping that one side lacks, its own."""
    if type(running) is not type(wanted) or not hasattr(type(running), "model_fields"):
        if running != wanted:
            yield path
        return
    for name in type(running).model_fields:
        yield from _differing(getattr(running, name), getattr(wanted, name), f"{path}.{name}".lstrip("."))
    if running.__pydantic_extra__ != wanted.__pydantic_extra__:
        yield path
