"""A state as text for a terminal: pipelines, their tables, their last batches, and their problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipelines.report.heartbeat import duration_words
from pipelines.report.row_output import rich_table
from pipelines.report.safe_text import shown
from pipelines.views.table_views import EventKind
from sources.wording import counted, first_of

TABLES_SHOWN = 40
PLACES_SHOWN = 10
BATCHES_SHOWN = 8
REASONS_SHOWN = 5
EVENTS_SHOWN = 10
_BAR = 24
_STEPS = {"plan": "cyan", "decode": "blue", "write": "green", "append": "magenta", "compact": "yellow", "commit": "red"}
_GOOD, _BAD, _BETWEEN = "green", "bold red", "yellow"
_COLOURS = {"running": _GOOD, "paused": _BAD}
_BAD_EVENTS = (EventKind.FAILED, EventKind.PAUSED, EventKind.WAITING, EventKind.RELOAD_REFUSED)
_KINDS = {"good": _GOOD, "bad": _BAD, "between": _BETWEEN}


def status_view(states: Sequence[tuple[Mapping[str, Any], str | None]], now_s: float) -> RenderableType:
    """All states, each with the process that runs it; None: no process does, and the state is the last one."""
    parts: list[RenderableType] = []
    for state, holder in states:
        for pipeline in state["pipelines"]:
            parts += _pipeline(state, pipeline, holder, now_s)
    return Group(*parts)


def _pipeline(
    state: Mapping[str, Any], pipeline: Mapping[str, Any], holder: str | None, now_s: float
) -> Iterator[RenderableType]:
    yield _headline(state, pipeline, holder, now_s)
    if pipeline["reason"]:
        yield Text(f"  {shown(pipeline['reason'], 2000)}", style=_BAD)
    yield Text(f"  {_numbers(pipeline, now_s if holder is not None else state['time_s'])}")
    if pipeline["source_silent_s"] is not None:
        yield Text(f"  the source has not answered for {duration_words(pipeline['source_silent_s'])}", style=_BAD)
    if pipeline["tables"]:
        yield Text()
        yield _tables(pipeline["tables"], state["time_s"])
        yield from _paused(pipeline["tables"])
        yield from _beside(pipeline["tables"], now_s if holder is not None else state["time_s"])
    if pipeline["places"]:
        yield Text()
        yield _places(pipeline["places"])
    if pipeline["last_batches"]:
        yield Text()
        yield _batches(pipeline["last_batches"])
    if pipeline["advice"]:
        yield Text(f"  {pipeline['advice']}", style=_BETWEEN)
    yield from _troubles(pipeline)
    if pipeline["events"]:
        yield Text()
        yield _events(pipeline["events"])
    yield Text()
    yield Text(f"  {_process(state)}", style="dim")


def _headline(state: Mapping[str, Any], pipeline: Mapping[str, Any], holder: str | None, now_s: float) -> Text:
    line = Text(shown(pipeline["name"], 80), style="bold")
    if holder is not None:
        line.append(f"  {pipeline['state']}", style=_KINDS[pipeline["state_kind"]])
        line.append(
            f"  for {duration_words(max(0.0, now_s - state['started_s']))}, {shown(holder, 80)}", style="not bold"
        )
        return line
    seen = datetime.fromtimestamp(state["time_s"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    ago = duration_words(max(0.0, now_s - state["time_s"]))
    words = {"ended": "not running: it was stopped", "failed": "not running: it failed"}
    how = words.get(pipeline["phase"], "not running: the process was killed, or its machine stopped")
    line.append(f"  {how}", style=_BETWEEN if pipeline["phase"] == "ended" else _BAD)
    line.append(f"  {ago} ago ({seen}); this was its state then", style="not bold")
    if state.get("held_by"):
        holder = f"\n  {shown(state['held_by'], 120)} uses its checkpoint"
        line.append(holder, style="not bold")
    return line


def _numbers(pipeline: Mapping[str, Any], now_s: float) -> str:
    words = [f"{counted(pipeline['records'], 'record')} read since the start"]
    if pipeline["lag_records"] is not None:
        late = "" if not pipeline["lag_s"] else f" ({duration_words(pipeline['lag_s'])})"
        words.append(f"{pipeline['lag_records']:,} behind{late}")
    if pipeline["open_bad_records"]:
        words.append(f"{pipeline['open_bad_records']:,} in quarantine")
    if pipeline["unread_bytes"]:
        words.append(f"{pipeline['unread_bytes'] / 1e6:,.1f} MB of files to read")
    if pipeline["running_batch"] is not None:
        took = duration_words(max(0.0, now_s - pipeline["running_since_s"]))
        words.append(f"batch {pipeline['running_batch']} runs for {took}")
    elif pipeline["last_batches"]:
        last = pipeline["last_batches"][-1]
        words.append(f"last batch {last['id']}, {duration_words(max(0.0, now_s - last['ended_s']))} ago")
    else:
        words.append("no batch yet")
    return ", ".join(words)


def _tables(tables: Sequence[Mapping[str, Any]], time_s: float) -> Table:
    numbers = ("missed", "rows since start", "snapshot", "age", "files", "bytes", "level 0", "runs")
    table = rich_table([("table", False), ("state", False), *((name, True) for name in numbers), ("topics", False)])
    ordered = sorted(tables, key=lambda one: (one["standing"] == "running", one["name"]))
    for one in ordered[:TABLES_SHOWN]:
        shape, standing = one["shape"], one["standing"]
        age = "" if one["snapshot_time_s"] is None else duration_words(max(0.0, time_s - one["snapshot_time_s"]))
        table.add_row(
            Text(shown(one["name"], 60)),
            Text(_state_words(one, time_s), style=_COLOURS.get(standing, _BETWEEN)),
            "" if one["missed_records"] is None else f"{one['missed_records']:,}",
            f"{one['rows']:,}",
            str(one["snapshot_id"] or ""),
            age,
            *_shape_cells(shape, is_known=bool(one["snapshot_id"])),
            Text(", ".join(first_of([shown(topic, 60) for topic in one["topics"]], 1))),
        )
    if len(ordered) > TABLES_SHOWN:
        table.add_row(Text(f"and {len(ordered) - TABLES_SHOWN} more", style="dim"))
    return table


def _paused(tables: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    for one in tables[:TABLES_SHOWN]:
        if one["reason"]:
            yield Text(f"  {shown(one['name'], 60)} is {one['standing']}: {shown(one['reason'], 1000)}", style=_BAD)


def _shape_cells(shape: Mapping[str, Any], *, is_known: bool) -> Sequence[Text]:
    """Empty for a table that was not opened since the start."""
    if not is_known:
        return [Text("")] * 4
    return (
        Text(f"{shape['files']:,}"),
        Text(bytes_words(shape["size_bytes"])),
        Text(f"{shape['level0_runs']:,}"),
        Text(str(shape["most_runs"]), style=_BETWEEN if shape["backlog_buckets"] else ""),
    )


def _state_words(table: Mapping[str, Any], time_s: float) -> str:
    """``running, replay``, ``paused for 5 min``; a standing that already names the work stays as it is."""
    if table["standing"] == "paused" and table.get("since_s") is not None:
        return f"paused for {duration_words(max(0.0, time_s - table['since_s']))}"
    beside = table.get("beside")
    is_news = beside is not None and beside["work"] not in ("catch-up", "backfill")
    return f"{table['standing']}, {beside['work']}" if beside is not None and is_news else str(table["standing"])


def _beside(tables: Sequence[Mapping[str, Any]], now_s: float) -> Iterator[Text]:
    for one in tables:
        beside = one.get("beside")
        if beside is None:
            continue
        words = [f"{counted(beside['records'], 'record')} read so far"]
        if beside["records_left"] is not None:
            words.append(f"about {beside['records_left']:,} left")
        words.append(f"{beside['rows']:,} rows written since the start")
        words.append(f"next at {shown(beside['position'], 200)}")
        ago = None if beside["slice_s"] is None else duration_words(max(0.0, now_s - beside["slice_s"]))
        words.append("no slice yet since the start" if ago is None else f"last slice {ago} ago")
        yield Text(f"  {beside['work']} of {shown(one['name'], 60)}: {', '.join(words)}", style=_BETWEEN)


def _places(places: Sequence[Mapping[str, Any]]) -> Table:
    names = ("partition", "next", "end", "records behind", "time behind")
    table = rich_table([("topic", False), *((name, True) for name in names)])
    ordered = sorted(places, key=lambda one: -(one["records"] or 0))
    for one in ordered[:PLACES_SHOWN]:
        numbers = ("" if one[key] is None else f"{one[key]:,}" for key in ("next_offset", "end_offset", "records"))
        late = "" if not one["seconds"] else duration_words(one["seconds"])
        table.add_row(Text(shown(one["topic"], 60)), str(one["partition"]), *numbers, late)
    if len(ordered) > PLACES_SHOWN:
        table.add_row(Text(f"and {len(ordered) - PLACES_SHOWN} more partitions", style="dim"))
    return table


def _batches(batches: Sequence[Mapping[str, Any]]) -> Table:
    table = rich_table([("batch", True), ("records", True), ("rows", True), ("seconds", True), ("per second", True)])
    legend = Text.assemble(*((f"{step} ", colour) for step, colour in _STEPS.items()))
    table.add_column(legend)
    latest = batches[-BATCHES_SHOWN:]
    longest = max((sum(one["steps"].values()) for one in latest), default=0.0) or 1.0
    for one in latest:
        rate = f"{one['records'] / one['seconds']:,.0f}" if one["seconds"] > 0 else ""
        table.add_row(
            str(one["id"]), f"{one['records']:,}", f"{one['rows']:,}", f"{one['seconds']:.1f}", rate, _bar(one, longest)
        )
    return table


def _bar(batch: Mapping[str, Any], longest: float) -> Text:
    """The steps of a batch in one line, with their durations."""
    bar, drawn, passed = Text(), 0, 0.0
    for step, seconds in batch["steps"].items():
        passed += seconds
        upto = round(passed / longest * _BAR)
        bar.append("█" * (upto - drawn), style=_STEPS.get(step, "dim"))
        drawn = upto
    return bar


def _troubles(pipeline: Mapping[str, Any]) -> Iterator[Text]:
    lost = sum(pipeline.get("lost_offsets", {}).values())
    if lost:
        yield Text(f"  {lost:,} offsets were lost before they were read", style=_BAD)
    for reason, count in sorted(pipeline["retries"].items(), key=lambda item: -item[1])[:REASONS_SHOWN]:
        yield Text(f"  {count:,} {'retry' if count == 1 else 'retries'}: {shown(reason, 120)}", style=_BETWEEN)
    groups = sorted(pipeline["bad_records"], key=lambda one: (-(one["open"] or 0), -one["put_aside"]))
    for one in groups[:REASONS_SHOWN]:
        is_open = "not counted yet" if one["open"] is None else f"{one['open']:,} in quarantine"
        words = f"{is_open}, {one['put_aside']:,} added since the start"
        yield Text(f"  bad records of {shown(one['table'], 60)}: {words}: {shown(one['reason'], 120)}", style=_BETWEEN)
    if len(groups) > REASONS_SHOWN:
        yield Text(f"  and {len(groups) - REASONS_SHOWN} more kinds: tidemark quarantine list FILE", style="dim")


def _events(events: Sequence[Mapping[str, Any]]) -> Table:
    """The newest ones, newest first."""
    table = rich_table([("last events", False), ("what", False), ("about", False)])
    for one in [*reversed(events)][:EVENTS_SHOWN]:
        at = datetime.fromtimestamp(one["time_s"], UTC).strftime("%m-%d %H:%M:%S UTC")
        times = f" ×{one['count']:,}" if one["count"] > 1 else ""
        style = _BAD if one["kind"] in _BAD_EVENTS else ""
        about = ": ".join(shown(part, 200) for part in (one["table"], one["reason"]) if part)
        table.add_row(at, Text(f"{one['kind']}{times}", style=style), Text(about))
    return table


def _process(state: Mapping[str, Any]) -> str:
    memory = [f"{kind} {bytes_words(use['resident_bytes'])}" for kind, use in state["processes"].items()]
    return ", ".join(
        [f"tidemark {shown(state['version'], 20)}", f"Spark {shown(state['spark'] or 'not started', 20)}", *memory]
    )


def bytes_words(size: float) -> str:
    """``512 B``, ``1.5 MB``."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
