"""Messages of a run: one form for all lines, a sign of life that is bounded, a start line."""

from __future__ import annotations

import io
import logging
import re
from pathlib import Path

import pytest
from rich.console import Console

from paimon_table.errors import ConfigError
from pipelines.batch.compactions import Compactions
from pipelines.checkpoint.book import Book
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipeline
from pipelines.reading import CheckpointStanding, source_reader
from pipelines.report.heartbeat import Heartbeat, duration_words
from pipelines.report.progress import ProgressLine
from pipelines.report.run_log import Activity, ConsoleHandler, in_pipeline
from pipelines.report.start_line import start_line
from pipelines.storage import catalog_of
from pipelines.tables.own_tables import OwnTables
from sources.dumps.dump_source import dump_files
from sources.dumps.reader import DumpFilesReader, files_words, no_topic_words
from sources.dumps.settings import DumpSettings
from sources.kafka.reader import topics_words
from sources.topics import TopicSelection

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (\S+: )?\S.*")
BEGINS = "begins at the earliest record"


@pytest.fixture
def lines() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(lines: io.StringIO) -> logging.Logger:
    logger = logging.Logger("a run")
    logger.addHandler(ConsoleHandler(Console(file=lines, soft_wrap=True, highlight=False, markup=False)))
    return logger


def test_each_line_has_date_time_and_pipeline(log: logging.Logger, lines: io.StringIO) -> None:
    log.info("starting Spark")
    with in_pipeline("shop"):
        log.info("creating table %s [bold]", "lake.orders")
        log.warning("shop: said before")
        log.warning("pipeline shop: said in full")
    told = lines.getvalue().splitlines()
    assert all(LINE.fullmatch(line) for line in told)
    assert [line[20:] for line in told] == [
        "starting Spark",
        "shop: creating table lake.orders [bold]",
        "shop: said before",
        "shop: said in full",
    ]


def test_a_name_makes_no_line_of_its_own_and_moves_no_cursor(log: logging.Logger, lines: io.StringIO) -> None:
    with in_pipeline("shop"):
        log.warning("column %r, %s", "id", "a\n2026-11-23 12:00:00 shop: all is well\r\x1b[2J\x9b31m\u202e")
    (told,) = lines.getvalue().splitlines()
    assert told[20:] == (r"shop: column 'id', a\n2026-11-23 12:00:00 shop: all is well\r\x1b[2J\x9b31m\u202e")


def test_work_on_another_thread_keeps_its_pipeline(log: logging.Logger, lines: io.StringIO) -> None:
    compactions = Compactions()
    with in_pipeline("shop"):
        compactions.start(lambda: log.info("compacting"))
    compactions.wait()
    assert lines.getvalue().endswith(" shop: compacting\n")


def test_an_idle_pipeline_says_so_after_a_minute_and_then_every_five() -> None:
    beat = Heartbeat(0.0)
    beat.moved(0.0, None)
    told = [second for second in range(1000) if beat.due(float(second))]
    assert told == [60, 360, 660, 960]
    assert beat.now(4000.0) == "idle, nothing new for 1 h 6 min"


def test_a_pipeline_that_works_beside_its_stream_is_not_called_idle() -> None:
    beat = Heartbeat(0.0)
    beat.moved(0.0, None)
    assert beat.due(60.0, is_busy_beside=True) == "busy alongside the stream, no batch for 60 s"
    assert beat.due(360.0) == "idle, nothing new for 6 min"


def test_a_pipeline_whose_source_does_not_answer_is_not_called_idle() -> None:
    beat = Heartbeat(0.0)
    beat.moved(0.0, None)
    assert beat.due(60.0, is_source_silent=True) is None
    assert beat.now(60.0, is_source_silent=True) == "the source does not answer, no batch for 60 s"
    assert beat.due(70.0) == "idle, nothing new for 70 s"
    beat.moved(100.0, 7)
    assert beat.due(110.0, is_source_silent=True) == "still working on batch 7, 10 s"


def test_a_long_batch_is_told_less_and_less_often() -> None:
    beat = Heartbeat(0.0)
    beat.moved(100.0, 7)
    told = [second for second in range(100, 2000) if beat.due(float(second))]
    assert told == [110, 120, 140, 180, 260, 420, 720, 1020, 1320, 1620, 1920]
    assert beat.now(145.0) == "still working on batch 7, 45 s"


def test_before_the_first_batch_nobody_says_that_there_is_nothing_new() -> None:
    beat = Heartbeat(0.0)
    assert beat.due(9.0) is None
    assert beat.due(10.0) == "no batch yet, 10 s since the start"
    assert duration_words(119.4) == "119 s"


def test_a_batch_that_is_still_compacted_is_the_one_that_runs() -> None:
    moment = [0.0]
    line = ProgressLine("shop", now=lambda: moment[0])
    line.begin(3)
    line.begin(4)
    moment[0] = 5.0
    assert line.tick() == "shop: still working on batch 3, 5 s"


@pytest.fixture
def config(tmp_path: Path) -> PipelineConfig:
    file = tmp_path / "shop.yaml"
    file.write_text(
        "version: 1\nname: shop\nsource: { files: { path: 'dumps/*.jsonl' }, format: debezium-json }\n"
        "trigger: { interval: 5s }\ncheckpoint: state\ncatalog: { warehouse: lake }\notherwise: create\n"
    )
    return load_pipeline(file)


def test_the_start_line_says_what_is_read_and_from_where(config: PipelineConfig) -> None:
    words = topics_words("kafka:9092", [(f"t{i}", p) for i in range(4) for p in range(3)])
    assert words == "4 topics with 12 partitions of kafka:9092 (t0, t1, t2, and 1 more)"
    assert topics_words("kafka:9092", []) == "no topic of kafka:9092 yet"
    line = start_line(config, words, BEGINS, 41, False, once=False)
    assert line.startswith(f"reads {words}; continues after batch 41; a batch every 5s; tables in ")
    assert "; until all is read; " in start_line(config, words, BEGINS, None, True, once=True)
    assert "positions in the tables" in start_line(config, words, BEGINS, None, True, once=True)
    assert "begins at the earliest record" in start_line(config, words, BEGINS, None, False, once=True)


def test_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("x" * 200_000)
    assert files_words("dumps", [("a.jsonl", str(tmp_path / "a.jsonl"))]) == "1 file, 0.2 MB (a.jsonl)"
    assert files_words(str(tmp_path), []) == f"no file of {tmp_path} yet"


def test_a_pattern_without_files_is_refused_and_a_directory_waits_for_them(config: PipelineConfig) -> None:
    reader = source_reader(config, Checkpoint(config), OwnTables(config, catalog_of(config)))
    with pytest.raises(ConfigError, match=r"no file matches .*dumps/\*\.jsonl; correct the path"):
        reader.check()
    waiting = DumpSettings(str(Path(config.checkpoint).parent))
    checkpoint = Checkpoint(config)
    standing = CheckpointStanding(config, checkpoint, OwnTables(config, catalog_of(config)), Book(checkpoint))
    DumpFilesReader(waiting, standing).check()


def test_a_pattern_that_no_longer_leads_to_files_is_no_clean_end(config: PipelineConfig, tmp_path: Path) -> None:
    """Under a checkpoint that exists a run begins, reads nothing, and `run --once` ends with 1."""
    (tmp_path / "dumps").mkdir(exist_ok=True)
    checkpoint = Checkpoint(config)
    standing = CheckpointStanding(config, checkpoint, OwnTables(config, catalog_of(config)), Book(checkpoint))
    (words,) = DumpFilesReader(DumpSettings(f"{tmp_path}/dumps/*.jsonl"), standing).unfinished
    assert words.startswith(f"source.files.path: no file matches {tmp_path}/dumps/*.jsonl")
    assert DumpFilesReader(DumpSettings(f"{tmp_path}/dumps"), standing).unfinished == ()


def test_what_lies_in_a_directory_and_is_not_read_is_told(
    config: PipelineConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dumps = tmp_path / "dumps"
    hidden, deeper = [".c.jsonl", "_d.txt"], ["2025/e.jsonl", "2026/01/f.json", "notes/g.md"]
    for name in ["a.jsonl", "b.json.zst", "orders.txt", *hidden, *deeper]:
        (dumps / name).parent.mkdir(parents=True, exist_ok=True)
        (dumps / name).write_text("")
    checkpoint = Checkpoint(config)
    standing = CheckpointStanding(config, checkpoint, OwnTables(config, catalog_of(config)), Book(checkpoint))
    assert [name for name, _ in dump_files(str(dumps))] == ["a.jsonl", "b.json.zst"]

    DumpFilesReader(DumpSettings(str(dumps)), standing).check()
    assert f"in {dumps} Tidemark does not read these: 2025/, 2026/, orders.txt. In a directory" in caplog.text
    assert f"a glob such as {dumps}/**/*.jsonl reads others too" in caplog.text

    caplog.clear()
    for path in (dumps / "2025", dumps / "*.jsonl", dumps / "a.jsonl"):
        DumpFilesReader(DumpSettings(str(path)), standing).check()
    assert caplog.text == ""


def test_dumps_without_a_record_of_the_topics_that_are_read_say_which_they_have(tmp_path: Path) -> None:
    dump = tmp_path / "a.jsonl"
    dump.write_text('{"topic": "erp.orders", "partition": 0, "offset": 0}\nno record\n')
    (tmp_path / "b.jsonl.gz").write_text("no gzip")
    files = [(name, str(tmp_path / name)) for name in ("a.jsonl", "b.jsonl.gz")]

    assert no_topic_words(TopicSelection(include=(r"shop\..*",)), files) == (
        "source.files.topics selects no record of the files, which begin with topic 'erp.orders'; correct it"
    )
    assert no_topic_words(TopicSelection(include=(r"erp\..*",)), files) is None
    assert no_topic_words(TopicSelection(), files) is None
    assert no_topic_words(TopicSelection(names=("shop.orders",)), files[1:]) is None


def test_a_terminal_shows_what_is_going_on_and_a_file_does_not() -> None:
    for is_terminal in (True, False):
        out = io.StringIO()
        console = Console(file=out, force_terminal=is_terminal, soft_wrap=True)
        with Activity(console) as activity:
            activity.show("starting [Spark]")
            logger = logging.Logger("a run")
            logger.addHandler(ConsoleHandler(console))
            logger.info("creating table lake.orders")
        assert ("starting [Spark]" in out.getvalue()) is is_terminal
        assert "creating table lake.orders" in out.getvalue()
    with Activity(None) as activity:
        activity.show("nothing")
