"""The `retry` block: how long a pipeline retries transient failures."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from pipelines.config.config_values import ConfigModel, Duration

SERVICE_S = 24 * 3600.0
ONCE_S = 30.0


class Retry(ConfigModel):
    """How Tidemark retries transient failures (Kafka or the storage does not answer): after growing waits."""

    max_elapsed: Duration | None = Field(
        default=None,
        description="How long a transient failure may last before the pipeline ends with exit code 1: `24h` by "
        "default, `30s` with `--once` and `available_now`. Successful work resets it.",
    )
    max_wait: Duration = Field(
        default=timedelta(seconds=60),
        json_schema_extra={"default": "60s"},
        description="The longest wait between two retries; the first wait is one second.",
    )

    def max_elapsed_s(self, once: bool) -> float:
        """In seconds, with the default of the kind of run."""
        if self.max_elapsed is not None:
            return self.max_elapsed.total_seconds()
        return ONCE_S if once else SERVICE_S
