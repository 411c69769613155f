"""The `watermark` block of a rule: a column with the time of events, from which snapshots get their watermark."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from pipelines.config.config_values import ConfigModel, Duration, Text


class Watermark(ConfigModel):
    """The watermark of the table's snapshots: the event time up to which the source is complete."""

    column: Text = Field(
        description="Column of the table with the event time, a TIMESTAMP or TIMESTAMP_LTZ; "
        "`columns.add: {changed_at: $source_time}` adds one with the time in the source."
    )
    delay: Duration = Field(
        default=timedelta(0),
        json_schema_extra={"default": "0s"},
        description="How late an event may arrive: the watermark stays this far behind the newest event.",
    )
    idle: Duration = Field(
        default=timedelta(minutes=1),
        json_schema_extra={"default": "1m"},
        description="If a topic partition has had no rows for this time, it no longer holds the watermark back.",
    )

    @property
    def delay_ms(self) -> int:
        return round(self.delay.total_seconds() * 1000)

    @property
    def idle_ms(self) -> int:
        return round(self.idle.total_seconds() * 1000)
