"""How to read records of replication tools, if the records do not show it."""

from __future__ import annotations

from dataclasses import dataclass

from sources.format_options import option, time_zone_problem

UNKNOWN_ZONE = "unknown"


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """The options that all formats of replication tools share."""

    time_zone: str = option(
        UNKNOWN_ZONE,
        "The time zone in which the tool writes points in time, such as `UTC`, `Asia/Shanghai` or `+08:00`. Records "
        "do not contain it. With `unknown` Tidemark stores such times as written, without a time zone.",
        check=time_zone_problem,
    )
    zero_dates: str = option(
        "null",
        "If a MySQL date has no month or day (`0000-00-00`), `null` stores NULL, and `quarantine` puts the record "
        "into the quarantine.",
        "quarantine",
    )

    @property
    def has_zone(self) -> bool:
        """Whether the time zone is known."""
        return self.time_zone != UNKNOWN_ZONE


@dataclass(frozen=True, slots=True)
class CanalOptions:
    """The additional options for Canal's messages."""

    binary_format: str = option(
        "latin1",
        "How the bytes of BINARY, BLOB and geometry columns are written: `latin1` is one character for each byte, as"
        " Canal and TiCDC do.",
        "hex",
        "base64",
    )

    @property
    def value_form(self) -> str:
        """The name of the format for the converters of values."""
        return "base64" if self.binary_format == "latin1" else self.binary_format


@dataclass(frozen=True, slots=True)
class GoldenGateOptions:
    """The additional options for GoldenGate's records."""

    missing_columns: str = option(
        "unchanged",
        "If an update lacks a column, `unchanged` keeps its value, as in a compressed trail. `set_null` stores "
        "NULL, for `omitNullValues=true` with a trail that has all columns of an update.",
        "set_null",
    )


def _before_image_problem(text: str) -> str | None:
    if text not in ("data", "metadata"):
        return None
    return f"{text!r} is not a field of its own; give the one with the row before an update, by default before-image"


@dataclass(frozen=True, slots=True)
class DmsOptions:
    """The additional options for records of DMS."""

    before_image: str = option(
        "before-image",
        "The field with the row before an update (`EnableBeforeImage`, `BeforeImageSettings`).",
        check=_before_image_problem,
    )
    before_prefix: str = option(
        "BI_",
        "The `column-prefix` of the transformation `add-before-image-columns`, or `none`. In updates and deletes, "
        "fields with this prefix hold earlier values, unless the table has a column of that name.",
    )
    before_suffix: str = option(
        "none",
        "The `column-suffix` of the same transformation, or `none`. If both prefix and suffix are set, such names "
        "have both.",
    )

    def is_before(self, name: str) -> bool:
        """Whether a name has the prefix and suffix of earlier values."""
        prefix, suffix = self._ends
        return bool(prefix or suffix) and name.startswith(prefix) and name.endswith(suffix)

    def column_of(self, name: str) -> str:
        """The column whose earlier value has a name."""
        prefix, suffix = self._ends
        return name.removeprefix(prefix).removesuffix(suffix)

    @property
    def _ends(self) -> tuple[str, str]:
        prefix, suffix = ("" if text == "none" else text for text in (self.before_prefix, self.before_suffix))
        return prefix, suffix
