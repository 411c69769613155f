"""The state of a running pipeline in a small private file, for `tidemark status`; it stays when the process has ended.

A local checkpoint contains the file, as ``tidemark/state.json``. For a checkpoint on object storage, the file is in the
user's private directory on the machine of the run. Tidemark rewrites it every few seconds, or less often if a write
takes long. Tidemark never syncs it, because it is useless after a power cut.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from paimon_table.storage.file_io import LocalFileIO
from paimon_table.storage.private_directory import make_file, private_root, process_directory
from pipelines.config.config import PipelineConfig
from pipelines.http.document import Document, document
from pipelines.storage import storage_of
from pipelines.views.run_state import RunState
from pipelines.views.table_views import RunView

log = logging.getLogger(__name__)

EVERY_S, MOST_S = 2.0, 10.0
_SHARE = 0.01
"""The share of one processor, about."""
_POINTS = 60
_RUN_FILE = "pipelines.json"


def state_path(config: PipelineConfig) -> Path:
    """The file with the state of this pipeline on this machine."""
    io, path = storage_of(config, config.checkpoint)
    if isinstance(io, LocalFileIO):
        return Path(path) / "tidemark" / "state.json"
    name = f"{config.name}-{zlib.crc32(config.checkpoint.encode()):08x}.json"
    return Path(private_root(tempfile.gettempdir())) / "state" / name


def read_state(path: Path) -> Document | None:
    """The newest state; None if there is none. Raises OSError where it cannot be read."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError):
        return None  # of another version, or of a machine that lost power
    return found if isinstance(found, dict) and isinstance(found.get("pipelines"), list) else None


def running_states() -> list[Path]:
    """The files of the pipelines that this user runs on this machine."""
    found: list[Path] = []
    for file in sorted(Path(private_root(tempfile.gettempdir())).glob(f"*/{_RUN_FILE}")):
        with suppress(OSError, ValueError, TypeError, RecursionError):
            found += map(Path, json.loads(file.read_bytes()))
    return found


@contextmanager
def kept_state(configs: Sequence[PipelineConfig], state: RunState) -> Iterator[None]:
    """Keep the files up to date during the block, and write them again at its end."""
    files = {config.name: state_path(config) for config in configs}
    with suppress(OSError):
        listed = Path(process_directory(tempfile.gettempdir())) / _RUN_FILE
        listed.unlink(missing_ok=True)
        make_file(str(listed))
        listed.write_text(json.dumps([str(path) for path in files.values()]), encoding="utf-8")
    ended = threading.Event()
    writer = threading.Thread(target=_keep, args=(files, state.view, ended), name="tidemark-state", daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join(10)


def _keep(files: dict[str, Path], view: Callable[[], RunView], ended: threading.Event) -> None:
    is_told = False
    while True:
        is_last = ended.is_set()
        began_s = time.thread_time()
        try:
            _write(files, view())
        except Exception as error:  # a failure to write the state must not end the run
            if not is_told:
                log.warning("the state for `tidemark status` cannot be written: %s", error)
            is_told = True
        if is_last:
            return
        ended.wait(min(MOST_S, max(EVERY_S, (time.thread_time() - began_s) / _SHARE)))


def _write(files: dict[str, Path], run: RunView) -> None:
    for pipeline in run.pipelines:
        own = replace(run, pipelines=(replace(pipeline, history=pipeline.history[-_POINTS:]),))
        path = files[pipeline.name]
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        descriptor = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="ascii") as out:
            json.dump(document(own), out)
        part.replace(path)
