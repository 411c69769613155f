"""What lets others look at a run, as far as its files ask for it: started before Spark, ended after the pipelines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from pipelines.config.config import PipelineConfig
from pipelines.live.run_state import RunState
from pipelines.look.server import listening, served
from pipelines.look.state_file import kept_state
from pipelines.report.run_log import naming


@contextmanager
def looking(configs: Sequence[PipelineConfig], state: RunState) -> Iterator[None]:
    """Show ``state`` for the length of the block, and how it ended. Raises ConfigError where a port cannot be had."""
    with ExitStack() as stack:
        for config in configs:
            if config.metrics is not None:
                with naming(config.name):
                    listener = listening("metrics", config.metrics.host, config.metrics.port)
                from pipelines.look.metrics_app import metrics_app

                stack.enter_context(served(metrics_app(state), listener, "tidemark-metrics"))
                break
        stack.enter_context(kept_state(configs, state))
        try:
            yield
        except BaseException as error:
            state.end(str(error) or type(error).__name__)
            raise
        state.end()
