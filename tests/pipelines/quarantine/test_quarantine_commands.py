"""`tidemark quarantine list | show | drop` over what pipelines have left."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipelines.quarantine.slices import alone
from tests.support.command import Done, tidemark
from tests.support.quarantined import QUERY, bad, checkpoint, letters, lines_left, offsets_left, put, write_pipeline

HOSTILE = "\x1b[2J\x9b31m\u202eevil\u2066\r\n\x07\x7f"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    put(tmp_path, 3, [bad(offset, f"column n INT: '{offset}' is no number") for offset in range(5)])
    put(tmp_path, 10, [bad(7, "value is not UTF-8 text", value=b"\xff"), bad(8, "not JSON", "shop.public.items")])
    checkpoint(tmp_path, 10)
    return write_pipeline(tmp_path)


def run(*words: str | Path, code: int = 0) -> Done:
    done = tidemark("quarantine", *words)
    assert done.returncode == code, done.stderr
    return done


def test_records_are_listed_by_table_and_reason(file: Path) -> None:
    done = run("list", file)

    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["table", "reason"],
        ["lake.items", "not"],
        ["lake.orders", "column"],
        ["lake.orders", "value"],
    ]
    assert "column n INT: ... is no number        5  2023-11-14 22:13:20  2023-11-14 22:13:24" in done.stdout
    assert "shop.public.orders 0:0" in done.stdout
    assert done.stderr.startswith("7 records of 2 tables in 2 files below ")


def test_groups_as_json_have_examples(file: Path) -> None:
    (group,) = map(json.loads, run("list", file, "--reason", "no number", "--format", "json").stdout.splitlines())

    assert (group["table"], group["records"], len(group["examples"])) == ("lake.orders", 5, 3)
    assert group["examples"][0]["reason"] == "column n INT: '0' is no number"
    assert group["examples"][0]["place"].endswith("/batch-000000000003/shop.public.orders-0-0-0-0.jsonl:1")


def test_records_of_a_table_and_a_reason_are_shown(file: Path) -> None:
    by_kind = run("show", file, "--table", "lake.orders", "--reason", "column n INT: ... is no number", "--limit", "2")
    assert by_kind.stdout.count("shop.public.orders partition 0 offset") == 2
    assert "  reason  column n INT: '1' is no number\n" in by_kind.stdout
    assert "  payload /w== (base64)\n" in run("show", file, "--reason", "UTF-8").stdout
    assert "no records of table lake.none in" in run("show", file, "--table", "lake.none").stderr


def test_a_reason_is_found_as_the_list_cuts_it(tmp_path: Path) -> None:
    put(tmp_path, 0, [bad(0, "column n INT: '1' is no number, " + "and so on " * 20)])
    file = write_pipeline(tmp_path)
    listed = run("list", file).stdout
    (cut,) = re.findall(r"  (column n .*\.\.\.)  ", listed)
    assert run("list", file, "--reason", cut).stdout == listed


def test_what_json_shows_are_the_lines_themselves(file: Path, tmp_path: Path) -> None:
    printed = run("show", file, "--format", "json").stdout.splitlines()
    assert [json.loads(line) for line in printed] == lines_left(tmp_path)


def test_only_some_are_shown_to_people_unless_more_are_asked_for(tmp_path: Path) -> None:
    put(tmp_path, 0, [bad(offset) for offset in range(30)])
    file = write_pipeline(tmp_path)

    done = run("show", file)
    assert done.stdout.count("partition 0 offset") == 20
    assert "and 10 more records; --limit shows more" in done.stderr
    assert run("show", file, "--limit", "25").stdout.count("partition 0 offset") == 25


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize("command", ["list", "show"])
def test_nothing_in_a_record_reaches_the_terminal_as_it_is(tmp_path: Path, command: str, output: str) -> None:
    rows = [bad(0, f"why {HOSTILE}", f"shop.{HOSTILE}.t", HOSTILE.encode())]
    put(tmp_path, 0, rows)
    file = write_pipeline(tmp_path)

    done = run(command, file, "--format", output)

    assert all(line.isprintable() for line in (done.stdout + done.stderr).splitlines())
    assert "evil" in done.stdout
    if output == "json":
        document = json.loads(done.stdout)
        assert (document if command == "show" else document["examples"][0])["reason"] == f"why {HOSTILE}"


def test_damaged_lines_are_told_by_their_place_and_stay(file: Path, tmp_path: Path) -> None:
    (torn,) = (tmp_path / "checkpoint-quarantine").rglob("shop.public.orders-0-7-0-0.jsonl")
    with torn.open("ab") as end:
        end.write(b'{"topic": "t", "part\n\n[1]\n{"topic": "t", "offset": 1}')

    done = run("list", file)
    assert f"/{torn.parent.name}/{torn.name}:3: it is not JSON: " in done.stderr
    assert f"{torn.name}:5: it is not a JSON object\n" in done.stderr
    assert f"{torn.name}:6: its field 'partition' is missing or has another type\n" in done.stderr

    assert "dropped 6 lines" in run("drop", file, "--table", "lake.orders", "--yes").stdout
    assert len(torn.read_bytes().splitlines()) == 4
    assert "  3 damaged lines\n" in run("drop", file, "--yes").stdout
    assert not list(tmp_path.glob("checkpoint-quarantine/**/*.jsonl"))


def test_a_record_whose_line_is_gone_is_told(file: Path, tmp_path: Path) -> None:
    (cut,) = (tmp_path / "checkpoint-quarantine").rglob("shop.public.orders-0-7-0-0.jsonl")
    cut.unlink()
    done = run("list", file)
    assert (
        "record shop.public.orders partition 0 offset 7 is open, but its line is missing from the file" in done.stderr
    )
    assert done.stderr.startswith("5 records of 1 table")


def test_a_file_that_no_entry_names_is_no_fact(file: Path, tmp_path: Path) -> None:
    """As a batch leaves it that was killed before it was sealed."""
    before = lines_left(tmp_path)
    directory = tmp_path / "checkpoint-quarantine" / QUERY / "batch-000000000011"
    directory.mkdir()
    (directory / "shop.public.orders-0-99-0-0.jsonl").write_text(json.dumps({**before[0], "offset": 99}) + "\n")
    assert lines_left(tmp_path) == before


def test_what_is_dropped_is_not_on_the_disk_any_more(file: Path, tmp_path: Path) -> None:
    put(tmp_path, 12, [bad(0, "seen again", value=b"a secret")])
    run("drop", file, "--table", "lake.orders", "--yes")
    texts = [path.read_text() for path in tmp_path.glob("checkpoint-quarantine/**/*.jsonl")]
    assert len(texts) == 1 and "secret" not in texts[0]


def test_a_dropped_record_that_is_read_again_and_still_bad_is_open_again(file: Path, tmp_path: Path) -> None:
    run("drop", file, "--table", "lake.items", "--yes")
    put(tmp_path, 12, [bad(8, "not JSON", "shop.public.items")])
    assert "lake.items" in run("list", file).stdout


def test_a_dry_run_and_an_unanswered_question_drop_nothing(file: Path, tmp_path: Path) -> None:
    before = lines_left(tmp_path)

    assert (
        "would drop 1 record; a later read can quarantine them again:\n  lake.items: 1 record: not JSON\n"
        in run("drop", file, "--table", "lake.items", "--dry-run").stdout
    )
    assert (
        "this command cannot ask for confirmation without a terminal; nothing was dropped: add --yes"
        in run("drop", file, code=2).stderr
    )
    assert lines_left(tmp_path) == before


def test_only_what_is_chosen_is_dropped(file: Path, tmp_path: Path) -> None:
    assert "dropped 5 lines" in run("drop", file, "--reason", "no number", "--yes").stdout
    assert offsets_left(tmp_path) == [7, 8]
    assert (
        "nothing to drop: no records with a reason like 'no number'"
        in run("drop", file, "--reason", "no number", "--yes").stdout
    )
    assert {path.stat().st_mode & 0o77 for path in tmp_path.rglob("checkpoint-quarantine/**/*.json*")} == {0}


def test_nothing_is_dropped_beside_a_retry(file: Path, tmp_path: Path) -> None:
    """Both may write files anew."""
    before = lines_left(tmp_path)
    with alone(letters(tmp_path)):
        done = run("drop", file, "--yes", code=1)

    assert "another retry or drop is using" in done.stderr
    assert lines_left(tmp_path) == before


def test_a_table_is_told_by_the_names_that_the_record_gave(tmp_path: Path) -> None:
    put(tmp_path, 0, [bad(0)])
    (path,) = tmp_path.glob("checkpoint-quarantine/**/*.jsonl")
    line = json.loads(path.read_text())
    path.write_text(json.dumps({**line, "source": ["shop", "public", "returns"]}) + "\n")

    assert json.loads(run("list", write_pipeline(tmp_path), "--format", "json").stdout)["table"] == "lake.returns"


def test_a_pipeline_without_quarantine_is_told(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path)
    file.write_text(file.read_text().replace("debezium-json }", "debezium-json, on_bad_record: fail }"))
    assert "pipeline shop has no quarantine: its file has on_bad_record: fail" in run("list", file, code=2).stderr
