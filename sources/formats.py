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
from sources.feeds.feed_options import CanalOptions, DmsOptions, FeedOptions
from sources.format_options import FormatOption, filled, options_of
from sources.upsert_json.policies import UpsertPolicies
from sources.values.value_forms import ValueForms

if TYPE_CHECKING:
    from sources.changes import Decoder


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format of records.

    ``title`` names its records in the plural. ``groups`` are the dataclasses (see ``format_options``) whose fields are
    the options of the format; ``make`` gets one filled value of each, in this order. ``names_keys`` is False where no
    record names the columns of its key.
    """

    title: str
    groups: tuple[type, ...]
    make: Callable[..., Decoder]
    names_keys: bool = True

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


def _upsert_json(policies: UpsertPolicies, forms: ValueForms) -> Decoder:
    from sources.upsert_json.decoder import UpsertJsonDecoder

    return UpsertJsonDecoder(policies, forms)


def _canal_json(options: FeedOptions, canal: CanalOptions) -> Decoder:
    from sources.feeds.canal import CanalFeed
    from sources.feeds.decoder import FeedDecoder
    from sources.feeds.source_types import binary_encoding
    from sources.values.value_forms import ValueForms

    forms = ValueForms(decimal_format="text", binary_format=canal.value_form)
    return FeedDecoder(CanalFeed(), options, binary_encoding(canal.binary_format), forms)


def _maxwell_json(options: FeedOptions) -> Decoder:
    from sources.feeds.decoder import FeedDecoder
    from sources.feeds.maxwell import MaxwellFeed

    return FeedDecoder(MaxwellFeed(), options)


def _ogg_json(options: FeedOptions) -> Decoder:
    from sources.feeds.decoder import FeedDecoder
    from sources.feeds.goldengate import GoldenGateFeed

    return FeedDecoder(GoldenGateFeed(options), options)


def _dms_json(options: FeedOptions, dms: DmsOptions) -> Decoder:
    from sources.feeds.decoder import FeedDecoder
    from sources.feeds.dms import DmsFeed

    return FeedDecoder(DmsFeed(dms), options)


def _debezium_avro(policies: DebeziumPolicies, options: AvroOptions) -> Decoder:
    from sources.debezium_avro.decoder import DebeziumAvroDecoder

    return DebeziumAvroDecoder(policies, options)


FORMATS: Mapping[str, RecordFormat] = {
    "debezium-json": RecordFormat("Debezium's JSON envelopes", (DebeziumPolicies, ValueForms), _debezium_json),
    "upsert-json": RecordFormat("JSON rows under message keys", (UpsertPolicies, ValueForms), _upsert_json),
    "debezium-avro": RecordFormat("Debezium's Avro envelopes", (DebeziumPolicies, AvroOptions), _debezium_avro),
    "canal-json": RecordFormat("Canal's flat JSON messages", (FeedOptions, CanalOptions), _canal_json),
    "maxwell-json": RecordFormat("Maxwell's JSON records", (FeedOptions,), _maxwell_json),
    "ogg-json": RecordFormat("GoldenGate's JSON operations", (FeedOptions,), _ogg_json),
    "dms-json": RecordFormat("JSON records of AWS DMS", (FeedOptions, DmsOptions), _dms_json, names_keys=False),
}

PLANNED = (
    "debezium-protobuf",
    "avro",
    "csv",
    "json",
)
"""Formats that the design names and this version refuses."""
