"""The `metrics` and `ui` blocks of a pipeline: where the process of a run lets others look at it."""

from __future__ import annotations

from pydantic import Field

from pipelines.config.config_values import ConfigModel, Text

_HOST = (
    "Address to listen on: by default only this machine reaches it, `0.0.0.0` means all addresses. If several "
    "files run in one process, they must set the same value, or only one of them may set it."
)


class Metrics(ConfigModel):
    """Serve numbers for Prometheus at `/metrics`, and `/healthz` and `/readyz` for probes; `{}` takes the defaults."""

    port: int = Field(default=9464, ge=1, le=65535, description="Port to listen on.")
    host: Text = Field(default="127.0.0.1", description=_HOST)


class WebPage(ConfigModel):
    """Serve a web page about the process, with buttons that a token protects; `{}` takes the defaults."""

    port: int = Field(default=8080, ge=1, le=65535, description="Port to listen on.")
    host: Text = Field(default="127.0.0.1", description=_HOST)
    hosts: tuple[Text, ...] = Field(
        default=(),
        description="Host names that browsers use for the page, in addition to `localhost` and the address in "
        "`host`. Tidemark refuses requests for other names.",
    )
    token: Text | None = Field(
        default=None,
        min_length=16,
        repr=False,
        description="The token that rows and buttons require, at least 16 characters, such as "
        "`${env:TIDEMARK_UI_TOKEN}`. By default each start creates a new one, in a private file that the "
        "log names.",
    )
