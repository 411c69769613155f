"""The metrics endpoint and the web page of a run, as its files ask for them: started before Spark, ended last."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from paimon_table.errors import public_text
from pipelines.config.config import PipelineConfig
from pipelines.http.open_records import counted_records
from pipelines.http.server import listening, served
from pipelines.http.state_file import kept_state
from pipelines.report.run_log import naming
from pipelines.views.run_state import RunState

log = logging.getLogger(__name__)


@contextmanager
def endpoints(configs: Sequence[PipelineConfig], state: RunState) -> Iterator[None]:
    """Show ``state`` during the block, and its end. Raises the errors of ``listening`` if a port is not available."""
    with ExitStack() as stack:
        _serve_metrics(configs, state, stack)
        _serve_page(configs, state, stack)
        stack.enter_context(kept_state(configs, state))
        stack.enter_context(counted_records(configs, state))  # ends first: the last state has the last count
        try:
            yield
        except BaseException as error:
            state.end(str(error) or type(error).__name__, public_text(error))
            raise
        state.end()


def _serve_metrics(configs: Sequence[PipelineConfig], state: RunState, stack: ExitStack) -> None:
    """One process has one port for each, whichever file sets it."""
    config = next((config for config in configs if config.metrics is not None), None)
    if config is None or config.metrics is None:
        return
    with naming(config.name):
        listener = listening("metrics", config.metrics.host, config.metrics.port)
    from pipelines.http.metrics_app import metrics_app

    stack.enter_context(served(metrics_app(state), listener, "tidemark-metrics"))


def _serve_page(configs: Sequence[PipelineConfig], state: RunState, stack: ExitStack) -> None:
    config = next((config for config in configs if config.ui is not None), None)
    if config is None or config.ui is None:
        return
    ui = config.ui
    with naming(config.name):
        listener = listening("ui", ui.host, ui.port)
    from pipelines.http.page.app import Page
    from pipelines.http.page.guard import Guard
    from pipelines.http.page.token_file import page_token

    token, place = stack.enter_context(page_token(config))
    page = Page({c.name: c for c in configs}, state, Guard.of(ui.host, ui.hosts, token))
    stack.enter_context(served(page.app(), listener, "tidemark-page"))
    log.info("web page at http://%s:%d/; %s", f"[{ui.host}]" if ":" in ui.host else ui.host, ui.port, place)
