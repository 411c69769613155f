"""The formats of records, by the name that ``source.format`` of a pipeline file gives them.

A format is one entry here: its name, its options, and the function that creates its decoder. Reading this table imports
no decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sources.avro.registry_settings import RegistrySettings, settings_problem
from sources.debezium_avro.options import AvroOptions
from sources.debezium_json.policies import DebeziumPolicies
from sources.feeds.feed_options import CanalOptions, DmsOptions, FeedOptions, GoldenGateOptions
from sources.format_options import FormatOption, Problem, filled, option_group, options_of
from sources.mongodb.options import DocumentOptions, document_problem
from sources.plain.avro_options import AvroPlainOptions, AvroSchemas, avro_problem
from sources.plain.csv_options import CsvOptions, csv_problem
from sources.plain.options import PlainForms, PlainOptions, plain_problem
from sources.plain.protobuf_options import ProtobufSchemas, protobuf_problem
from sources.upsert_json.policies import UpsertPolicies
from sources.values.value_forms import NO_TEXTS, ValueForms

if TYPE_CHECKING:
    from sources.changes import TopicLook
    from sources.decode_target import Decoder


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format of records.

    ``title`` names its records in the plural, as inside a sentence. ``groups`` are the dataclasses (see
    ``format_options``) whose fields are the options of the format; ``make`` and ``problem`` get one filled value of
    each, in this order. ``names_keys`` is False if no record names its key columns.
    """

    title: str
    groups: tuple[type, ...]
    make: Callable[..., Decoder]
    reads_paths: bool = False
    """Whether columns may be filled from nested fields."""
    problem: Problem | None = None
    """The check of the filled groups together."""
    time_precision: str | None = None
    """How times are read in a format that has no option of this name, if known."""
    names_keys: bool = True
    finds_formats: bool = False
    """Whether the format of each topic is chosen by its first records."""
    has_schemas: bool = True
    """Whether records can carry a schema that has their columns in order."""
    tells_drops: bool = True
    """Whether a record can show that a column is missing, and not only NULL."""
    tells_origins: bool = True
    """Whether records may say where they come from: the names of their source table, and a position in the log of the
    source (``sources.position_kinds``)."""
    untold: frozenset[str] = frozenset()
    """The metadata (``sources.expressions.rule_words``) that no record of the format has."""

    @property
    def options(self) -> tuple[FormatOption, ...]:
        """All options, in the order of a pipeline file."""
        return tuple(option for group in self.groups for option in options_of(group))

    @property
    def needed(self) -> FormatOption | None:
        """The option that a pipeline file must give, if there is one."""
        return next((option for option in self.options if option.is_needed), None)

    @property
    def is_word(self) -> bool:
        """Whether a pipeline file may give the format without options."""
        return self.needed is None and self.problem_of({}) is None

    def problem_of(self, given: Mapping[str, Any]) -> tuple[str, str] | None:
        """The option at fault (or "") and the fault of a pipeline file's options, or None."""
        return None if self.problem is None else self.problem(*(filled(group, given) for group in self.groups))

    def decoder(self, given: Mapping[str, Any]) -> Decoder:
        """The decoder under the options of a pipeline file; the others have their defaults."""
        return self.make(*(filled(group, given) for group in self.groups))


def _debezium_json(policies: DebeziumPolicies, forms: ValueForms, documents: DocumentOptions) -> Decoder:
    from sources.debezium_json.decoder import DebeziumJsonDecoder

    return DebeziumJsonDecoder(policies, forms, documents)


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


def _ogg_json(options: FeedOptions, of_records: GoldenGateOptions) -> Decoder:
    from sources.feeds.decoder import FeedDecoder
    from sources.feeds.goldengate import GoldenGateFeed

    return FeedDecoder(GoldenGateFeed(options, of_records), options)


def _dms_json(options: FeedOptions, dms: DmsOptions) -> Decoder:
    from sources.feeds.decoder import FeedDecoder
    from sources.feeds.dms import DmsFeed

    return FeedDecoder(DmsFeed(dms), options)


def _debezium_avro(policies: DebeziumPolicies, options: AvroOptions, documents: DocumentOptions) -> Decoder:
    from sources.debezium_avro.decoder import DebeziumAvroDecoder

    return DebeziumAvroDecoder(policies, options, documents)


def _upsert_avro(policies: UpsertPolicies, options: AvroOptions) -> Decoder:
    from sources.upsert_avro.decoder import UpsertAvroDecoder

    return UpsertAvroDecoder(policies, options)


def _json(options: PlainOptions, forms: PlainForms) -> Decoder:
    from sources.plain.decoder import PlainDecoder
    from sources.plain.json_values import json_format

    return PlainDecoder(json_format(), options, forms)


def _avro(options: AvroPlainOptions, schemas: AvroSchemas) -> Decoder:
    from sources.plain.avro_values import AvroValues
    from sources.plain.decoder import PlainDecoder

    return PlainDecoder(partial(AvroValues, schemas=schemas), options, ValueForms(binary_format=NO_TEXTS))


def _protobuf(options: PlainOptions, schemas: ProtobufSchemas) -> Decoder:
    from sources.plain.decoder import PlainDecoder
    from sources.plain.protobuf_values import ProtobufValues

    return PlainDecoder(partial(ProtobufValues, schemas=schemas), options, ValueForms(binary_format=NO_TEXTS))


def _csv(options: PlainOptions, csv: CsvOptions) -> Decoder:
    from sources.plain.csv_values import CsvValues
    from sources.plain.decoder import PlainDecoder

    return PlainDecoder(partial(CsvValues, options=csv), options, ValueForms())


@dataclass(frozen=True, slots=True)
class AutoOptions:
    """The options of ``auto``: the registry for the schemas of binary records."""

    registry: RegistrySettings | None = option_group(  # noqa: RUF009  a field
        RegistrySettings,
        "The registry with the schemas that binary records name, if there are such records.",
        settings_problem,
        is_needed=False,
    )


def _auto(options: AutoOptions) -> Decoder:
    from sources.auto.decoder import AutoDecoder

    plain = ("debezium-json", "upsert-json", "canal-json", "maxwell-json", "ogg-json", "dms-json", "json")
    decoders = {name: FORMATS[name].decoder({}) for name in plain}
    if options.registry is not None:
        decoders["debezium-avro"] = _debezium_avro(DebeziumPolicies(), AvroOptions(options.registry), DocumentOptions())
        decoders["upsert-avro"] = _upsert_avro(UpsertPolicies(), AvroOptions(options.registry))
        decoders["avro"] = _avro(AvroPlainOptions(), AvroSchemas(options.registry))
        decoders["protobuf"] = _protobuf(PlainOptions(), ProtobufSchemas(options.registry))
    return AutoDecoder(decoders, options.registry)


_ORDER_HERE = frozenset({"data_collection_order"})
_ORDERS = _ORDER_HERE | {"total_order"}
_PLACES = _ORDERS | {"position", "transaction"}
_EVENTS = _PLACES | {"op", "source_time"}

FORMATS: Mapping[str, RecordFormat] = {
    "debezium-json": RecordFormat(
        "Debezium's JSON envelopes",
        (DebeziumPolicies, ValueForms, DocumentOptions),
        _debezium_json,
        reads_paths=True,
        problem=document_problem,
    ),
    "upsert-json": RecordFormat("JSON rows under message keys", (UpsertPolicies, ValueForms), _upsert_json),
    "debezium-avro": RecordFormat(
        "Debezium's Avro envelopes",
        (DebeziumPolicies, AvroOptions, DocumentOptions),
        _debezium_avro,
        reads_paths=True,
        problem=document_problem,
    ),
    "upsert-avro": RecordFormat("Avro rows under message keys", (UpsertPolicies, AvroOptions), _upsert_avro),
    "canal-json": RecordFormat(
        "Canal's flat JSON messages", (FeedOptions, CanalOptions), _canal_json, has_schemas=False, untold=_PLACES
    ),
    "maxwell-json": RecordFormat(
        "Maxwell's JSON records",
        (FeedOptions,),
        _maxwell_json,
        has_schemas=False,
        tells_drops=False,
        untold=_ORDER_HERE,
    ),
    "ogg-json": RecordFormat(
        "GoldenGate's JSON operations",
        (FeedOptions, GoldenGateOptions),
        _ogg_json,
        has_schemas=False,
        tells_drops=False,
        untold=_ORDERS,
    ),
    "dms-json": RecordFormat(
        "JSON records of AWS DMS",
        (FeedOptions, DmsOptions),
        _dms_json,
        names_keys=False,
        has_schemas=False,
        tells_drops=False,
        untold=_ORDER_HERE,
    ),
    "json": RecordFormat(
        "plain JSON objects",
        (PlainOptions, PlainForms),
        _json,
        reads_paths=True,
        problem=lambda plain, _: plain_problem(plain),
        has_schemas=False,
        tells_drops=False,
        tells_origins=False,
        untold=_EVENTS,
    ),
    "avro": RecordFormat(
        "plain Avro records",
        (AvroPlainOptions, AvroSchemas),
        _avro,
        reads_paths=True,
        problem=avro_problem,
        tells_origins=False,
        untold=_EVENTS,
    ),
    "csv": RecordFormat(
        "lines of CSV",
        (PlainOptions, CsvOptions),
        _csv,
        problem=csv_problem,
        tells_origins=False,
        untold=_EVENTS,
    ),
    "protobuf": RecordFormat(
        "messages of Protocol Buffers",
        (PlainOptions, ProtobufSchemas),
        _protobuf,
        reads_paths=True,
        problem=protobuf_problem,
        tells_origins=False,
        untold=_EVENTS,
    ),
    "auto": RecordFormat(
        "the records of each topic in the format of its first records",
        (AutoOptions,),
        _auto,
        time_precision="adaptive",
        finds_formats=True,
    ),
}

PLANNED = ("debezium-protobuf",)
"""Planned formats that this version refuses."""


def chosen_format(topic: str, looks: Iterable[TopicLook]) -> str | None:
    """See ``sources.auto.looks.chosen_format``."""
    from sources.auto import looks as auto

    return auto.chosen_format(topic, looks)
