"""The formats of records, by the name that ``source.format`` of a pipeline file gives them.

A format is one entry here: what it is called, the options it takes, and how its decoder is made. Reading this table
imports no decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sources.debezium_avro.options import AvroOptions
from sources.debezium_json.policies import DebeziumPolicies
from sources.format_options import FormatOption, filled, options_of
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

    @property
    def needed(self) -> str | None:
        """The option that a pipeline file must give, if there is one."""
        return next((option.name for option in self.options if option.group is not None), None)

    def decoder(self, given: Mapping[str, Any]) -> Decoder:
        """The decoder under the options that a pipeline file gives; defaults stand for the others."""
        return self.make(*(filled(group, given) for group in self.groups))


def _debezium_json(policies: DebeziumPolicies, forms: ValueForms) -> Decoder:
    from sources.debezium_json.decoder import DebeziumJsonDecoder

    return DebeziumJsonDecoder(policies, forms)


def _debezium_avro(policies: DebeziumPolicies, options: AvroOptions) -> Decoder:
    from sources.debezium_avro.decoder import DebeziumAvroDecoder

    return DebeziumAvroDecoder(policies, options)


FORMATS: Mapping[str, RecordFormat] = {
    "debezium-json": RecordFormat("Debezium's JSON envelopes", (DebeziumPolicies, ValueForms), _debezium_json),
    "debezium-avro": RecordFormat("Debezium's Avro envelopes", (DebeziumPolicies, AvroOptions), _debezium_avro),
}

PLANNED = (
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
