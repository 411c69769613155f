"""``source.format``: the format of the records, and its options as the format itself declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    create_model,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from paimon_table.errors import ConfigError
from paimon_table.nearest_name import nearest
from pipelines.config.config_values import ConfigModel, Duration, Location, Text, duration_text, refused
from sources.format_options import Check, FormatOption, filled, options_of
from sources.formats import FORMATS, PLANNED, RecordFormat

if TYPE_CHECKING:
    from sources.decode_target import Decoder


FORMAT_WORDS = (
    "A word, or a word with its options, such as `{canal-json: {time_zone: UTC}}`. [FORMATS](FORMATS.md) compares the "
    f"formats. Options are needed for {', '.join(f'`{name}`' for name, form in FORMATS.items() if not form.is_word)}."
)


class ChosenFormat(ConfigModel):
    """The format of the records: a word, or a word with its options."""

    formats: ClassVar[Mapping[str, RecordFormat]] = {}

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: Any) -> Any:
        if isinstance(value, str):
            needed = cls.formats[value].needed if value in cls.formats else None
            if needed is not None:
                text = f"{{{value}: {{{needed.name}: {needed.shown}}}}}"
                raise refused(f"format {value} needs `{needed.name}`: write {text}")
            if value in cls.NOT_YET:
                raise refused(f"format {value} is not supported yet; {cls.NOT_YET[value]}")
            if value not in cls.formats:
                close = nearest(value, cls.formats)
                known = f"supported: {', '.join(cls.formats)}" if close is None else f"did you mean '{close}'?"
                raise refused(f"unknown format; {known}")
            return {value: {}}
        return value

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise refused(f"give exactly one format: {', '.join(self.formats)}")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            "anyOf": [
                {"enum": [name for name, form in cls.formats.items() if form.is_word]},
                handler.resolve_ref_schema(handler(core)),
            ]
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return SourceFormat.model_validate, (self.model_dump(by_alias=True, exclude_unset=True),)

    @property
    def decoder(self) -> Decoder:
        """The decoder of this format under the options given."""
        form, given = self._chosen
        return form.decoder(given)

    @property
    def name(self) -> str:
        """The word of this format."""
        (field,) = self.model_fields_set
        return type(self).model_fields[field].alias or field

    @property
    def traits(self) -> RecordFormat:
        """The declaration of this format."""
        return self.formats[self.name]

    @property
    def schema_files(self) -> str | None:
        """The file or directory that schemas are read from, where the file names one."""
        (field,) = self.model_fields_set
        registry = getattr(getattr(self, field), "registry", None)
        return getattr(registry, "file", None)

    def with_schema_file(self, place: str) -> Self:
        """The same format with the Avro schemas of a file in place of its registry.

        Raises ConfigError for a format without a registry.
        """
        given = self.model_dump(by_alias=True, exclude_unset=True)
        if "registry" not in given[self.name] or self.name == "protobuf":
            text = f"format {self.name} of the pipeline file has no registry of Avro schemas; remove `schemas`"
            raise ConfigError(text)
        given[self.name]["registry"] = {"file": place}
        return type(self).model_validate(given)

    @property
    def precision_tells_unit(self) -> bool:
        """Whether epoch numbers without a schema count the unit of the declared precision of their column."""
        form, given = self._chosen
        return bool(given.get("time_precision", form.time_precision) == "adaptive")

    @property
    def _chosen(self) -> tuple[RecordFormat, Mapping[str, Any]]:
        """The format, and its options by name."""
        (field,) = self.model_fields_set
        name = type(self).model_fields[field].alias or field
        return self.formats[name], _values(getattr(self, field))


def format_model(formats: Mapping[str, RecordFormat]) -> type[ChosenFormat]:
    """The model of ``source.format`` with these formats, by name."""
    default = ... if len(formats) == 1 else None
    blocks: dict[str, Any] = {
        f"of_{name.replace('-', '_')}": _block(name, format_, default) for name, format_ in formats.items()
    }
    doc = ChosenFormat.__doc__
    model = create_model("SourceFormat", __base__=ChosenFormat, __module__=__name__, __doc__=doc, **blocks)
    model.formats = formats
    model.NOT_YET = {name: f"use {' or '.join(formats)}" for name in PLANNED if name not in formats}
    return model


def _block(name: str, format_: RecordFormat, default: Any) -> Any:
    """The field for a format, with its options as a mapping."""
    options: dict[str, Any] = {option.name: _option(option, name) for option in format_.options}
    model = create_model(
        f"Options of {name}",
        __base__=ConfigModel,
        __doc__=f"How Tidemark reads {format_.title}.",
        __validators__=_checks(format_.problem_of),
        **options,
    )
    return (model, Field(default=default, alias=name, description=f"{format_.title[0].upper()}{format_.title[1:]}."))


def _option(option: FormatOption, above: str) -> Any:
    if option.group is not None:
        group = _group(option, above)
        if option.is_needed:
            return (group, Field(description=option.description))
        return (group | None, Field(default=None, description=option.description))
    values: Any = Literal[option.words] if option.words else _FORMS[option.form]
    if option.check is not None:
        values = Annotated[values, AfterValidator(partial(_checked_text, option.check))]
    if option.default is None:
        values = values | None
    shown: Any = {"default": duration_text(option.default)} if isinstance(option.default, timedelta) else None
    default = ... if option.is_needed else option.default
    shows = option.form != "secret"
    return (values, Field(default=default, description=option.description, repr=shows, json_schema_extra=shown))


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


_FORMS: Mapping[str, Any] = {
    "text": Text,
    "characters": Annotated[str, StringConstraints(min_length=1)],
    "secret": Text,
    "location": Location,
    "duration": Duration,
    "texts": Annotated[tuple[Text, ...], BeforeValidator(_as_list, json_schema_input_type=str | list[str])],
}
"""The type of the values of each form of option."""


def _group(option: FormatOption, above: str) -> type[ConfigModel]:
    """The model of a group of options, which are checked together."""
    group, problem = option.group, option.problem
    assert group is not None and problem is not None

    return create_model(
        f"{option.name} of {above}",
        __base__=ConfigModel,
        __doc__=option.description,
        __validators__=_checks(lambda given: problem(filled(group, given))),
        **{inner.name: _option(inner, option.name) for inner in options_of(group)},
    )


def _checks(problem: Callable[[Mapping[str, Any]], tuple[str, str] | None]) -> dict[str, Callable[..., Any]]:
    """The check of a model's values together; ``problem`` is as ``format_options.Problem``."""

    def check(model: ConfigModel) -> ConfigModel:
        found = problem(_values(model))
        if found is not None:
            raise refused(found[1], *filter(None, found[:1]))
        return model

    return {"checked": cast(Any, model_validator(mode="after")(check))}


def _values(model: ConfigModel) -> dict[str, Any]:
    """The values of a model by the names of its fields; a group is a nested mapping."""
    return {name: _values(value) if isinstance(value, ConfigModel) else value for name, value in model}


def _checked_text(check: Check, text: str) -> str:
    problem = check(text)
    if problem is not None:
        raise refused(problem)
    return text


# Pydantic makes the class when this module is loaded, which a type checker cannot follow.
if TYPE_CHECKING:
    SourceFormat: TypeAlias = ChosenFormat
else:
    SourceFormat = format_model(FORMATS)
