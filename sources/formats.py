"""The formats of records, by the name that ``source.format`` of a pipeline file gives them.

A format is one entry here: what it is called, the options it takes, and how its decoder is made. Reading this table
imports no decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from sources.debezium_json.policies import DebeziumPolicies
from sources.format_options import FormatOption, options_of
from sources.upsert_json.policies import UpsertPolicies
from sources.values.value_forms import ValueForms

if TYPE_CHECKING:
    from sources.changes import Decoder


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format of records.

    ``title`` names its records in the plural. ``groups`` are the dataclasses (see ``format_options``) whose fields are
    the options of the format; ``make`` gets one filled value of each, in this order.
    """

    title: str
    groups: tuple[type, ...]
    make: Callable[..., Decoder]

    @property
    def options(self) -> tuple[FormatOption, ...]:
        """All options, as they stand side by side in a pipeline file."""
        return tuple(option for group in self.groups for option in options_of(group))

    def decoder(self, given: Mapping[str, Any]) -> Decoder:
        """The decoder under the options that a pipeline file gives; defaults stand for the others."""
        return self.make(*(_filled(group, given) for group in self.groups))


def _filled(group: type, given: Mapping[str, Any]) -> Any:
    return group(**{f.name: given[f.name] for f in fields(group) if f.name in given})


def _debezium_json(policies: DebeziumPolicies, forms: ValueForms) -> Decoder:
    from sources.debezium_json.decoder import DebeziumJsonDecoder

    return DebeziumJsonDecoder(policies, forms)


def _upsert_json(policies: UpsertPolicies, forms: ValueForms) -> Decoder:
    from sources.upsert_json.decoder import UpsertJsonDecoder

    return UpsertJsonDecoder(policies, forms)


FORMATS: Mapping[str, RecordFormat] = {
    "debezium-json": RecordFormat("Debezium's JSON envelopes", (DebeziumPolicies, ValueForms), _debezium_json),
    "upsert-json": RecordFormat("JSON rows under message keys", (UpsertPolicies, ValueForms), _upsert_json),
}

PLANNED = (
    "debezium-avro",
    "debezium-protobuf",
    "canal-json",
    "maxwell-json",
    "ogg-json",
    "dms-json",
    "avro",
    "csv",
    "json",
)
"""Formats that the design names and this version refuses."""
