"""A process that others look at without Spark: `python -m tests.pipelines.http.looked_at FILE` holds the checkpoint.

It runs like `tidemark run` does around its pipelines, says ``ready`` and ends as the next line on its input says:
``stop``, or ``fail`` and a text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen

from paimon_table.errors import SinkUnavailable, TidemarkError
from pipelines.checkpoint.lock import held_checkpoints
from pipelines.config.config_file import load_pipelines
from pipelines.http.endpoints import endpoints
from pipelines.views.run_state import RunState
from pipelines.views.table_views import Phase
from tests.support.waiting import seconds


def main(files: list[str]) -> None:
    configs = load_pipelines(files)
    state = RunState(configs)
    with suppress(TidemarkError), held_checkpoints(configs), endpoints(configs, state):
        state.enter(Phase.RUNNING)
        print("ready", flush=True)
        word, _, text = input().partition(" ")
        if word == "fail":
            raise SinkUnavailable(text)


@contextmanager
def looked_at(file: Path) -> Iterator[Popen[str]]:
    """The process; killed at the end if it still runs."""
    root = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-m", "tests.pipelines.http.looked_at", str(file)]
    with Popen(command, cwd=root, stdin=PIPE, stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def tell(process: Popen[str], line: str) -> None:
    """Let the process end by itself."""
    process.communicate(line + "\n", timeout=seconds(60))


if __name__ == "__main__":
    main(sys.argv[1:])
