"""A server with Paimon's REST catalog API over a local directory, written from its OpenAPI, for tests.

It believes nothing: a commit must fit the table's id, base, schema and files, changes of a schema must apply. It gives
out pages of two items, checks the token, and can fail as servers and networks do. A table that is made anew gets
another id and another directory.
"""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlsplit

from paimon_table.types import parse_type
from tests.support.waiting import seconds

_PAGE = 2
_REQUIRED = {
    "id": int,
    "schemaId": int,
    "baseManifestList": str,
    "deltaManifestList": str,
    "commitUser": str,
    "commitIdentifier": int,
    "commitKind": str,
    "timeMillis": int,
    "totalRecordCount": int,
    "deltaRecordCount": int,
}
_OPTIONAL = {
    "version",
    "uuid",
    "baseManifestListSize",
    "deltaManifestListSize",
    "changelogManifestList",
    "changelogManifestListSize",
    "indexManifest",
    "writerVersion",
    "changelogRecordCount",
    "watermark",
    "statistics",
    "properties",
    "nextRowId",
    "operation",
}
_PAGE_OF_GATEWAY = "<html>The service is not available.</html>"
_GATEWAY: Mapping[str, tuple[int, Any]] = {
    "503": (503, {"message": "a gateway gave up", "code": 503}),
    "524": (524, _PAGE_OF_GATEWAY),
    "page": (200, _PAGE_OF_GATEWAY),
    "404 page": (404, _PAGE_OF_GATEWAY),
}
"""Answers of a gateway in place of the server."""
_STATISTICS = {"spec", "recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime", "totalBuckets"}


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, kind: str | None = None, name: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.name = status, kind, name


@dataclass
class ServerTable:
    """One table as the server has it; its files are those of Paimon."""

    id: str
    root: Path
    schema: dict[str, Any]
    schema_id: int = 0
    highest_field_id: int = -1
    newest: dict[str, Any] | None = None
    records: dict[str, int] = field(default_factory=dict)
    """Records of each partition, summed up from the statistics of commits."""


@dataclass
class RestServer:
    """What the server holds and how it behaves; both may change while it runs."""

    directory: Path
    warehouse: str = "shop"
    token: str | None = None
    prefix: str | None = "shop prefix"
    overrides: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    databases: dict[str, dict[str, ServerTable]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """For the next requests with an effect, one each: ``lost`` (done, no answer), ``503`` (not done) and others of a
    gateway, ``done 503`` and so on, ``late`` (no answer, done once ``released`` is set), ``cut`` (not done, no answer),
    ``half`` (done, half of the answer), ``ok``."""
    read_faults: list[str] = field(default_factory=list)
    """As ``faults``, for the next requests without an effect."""
    released: threading.Event = field(default_factory=threading.Event)
    is_old: bool = False
    """As servers of Paimon 1.4: it drops the uuid of snapshots and tells commits apart by their id alone."""
    is_down: bool = False
    is_external: bool = False
    location: str | None = None
    """Where tables lie, in place of where they do."""
    busy: int = 0
    """Requests with an effect that have not been answered."""
    requests: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    """Those of the newest request."""
    commits: int = 0
    port: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)
    before_commit: Callable[[], object] | None = None
    """Called once, before the next commit is looked at: somebody else is faster."""

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def table(self, database: str, name: str) -> ServerTable:
        if database not in self.databases:
            raise Refused(404, f"no database {database}", "DATABASE", database)
        found = self.databases[database].get(name)
        if found is None:
            raise Refused(404, f"no table {name}", "TABLE", name)
        return found

    @contextmanager
    def at_work(self) -> Iterator[None]:
        with self.lock:
            self.busy += 1
        try:
            yield
        finally:
            with self.lock:
                self.busy -= 1

    def finish_late(self) -> None:
        """Carry out what is late, and wait until that is done."""
        self.released.set()
        limit = time.monotonic() + seconds(20)
        while self.busy:
            assert time.monotonic() < limit, "the server does not come to an end"
            time.sleep(0.01)

    # ------------------------------------------------------------ routes

    def answer(self, method: str, path: list[str], query: Mapping[str, str], body: Any) -> Any:
        """The JSON of an answer; raises Refused."""
        if path[:2] == ["v1", "config"]:
            if query.get("warehouse") != self.warehouse:
                raise Refused(404, f"no warehouse {query.get('warehouse')}")
            prefix = {} if self.prefix is None else {"prefix": self.prefix}
            return {"defaults": {**self.defaults}, "overrides": {**prefix, **self.overrides}}
        start = ["v1"] if self.prefix is None else ["v1", self.prefix]
        if path[: len(start)] != start:
            raise Refused(404, f"no such path: {path}")
        with self.lock:
            match method, path[len(start) :]:
                case "GET", ["databases"]:
                    return _page("databases", sorted(self.databases), query)
                case "POST", ["databases"]:
                    return self._create_database(body)
                case "GET", ["databases", database]:
                    self._tables(database)
                    return {"id": database, "name": database, "location": str(self.directory), "options": {}}
                case "GET", ["databases", database, "tables"]:
                    return _page("tables", sorted(self._tables(database)), query)
                case "POST", ["databases", database, "tables"]:
                    return self._create_table(database, body)
                case "GET", ["databases", database, "tables", name]:
                    return self._described(database, name)
                case "POST", ["databases", database, "tables", name]:
                    return self._alter(self.table(database, name), body)
                case "DELETE", ["databases", database, "tables", name]:
                    shutil.rmtree(self.table(database, name).root)
                    del self.databases[database][name]
                    return {}
                case "POST", ["databases", database, "tables", name, "commit"]:
                    return self.commit(database, name, body)
                case "GET", ["databases", database, "tables", name, "snapshot"]:
                    newest = self.table(database, name).newest
                    if newest is None:
                        raise Refused(404, "No Snapshot", "SNAPSHOT", name)
                    counts = dict.fromkeys(("recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime"), 0)
                    return {"snapshot": {"snapshot": newest, **counts}}
                case _:
                    raise Refused(501, f"{method} {path} is not implemented")

    def _tables(self, database: str) -> dict[str, ServerTable]:
        if database not in self.databases:
            raise Refused(404, f"no database {database}", "DATABASE", database)
        return self.databases[database]

    def _create_database(self, body: Any) -> Any:
        _keys(body, {"name", "options"})
        if body["name"] in self.databases:
            raise Refused(409, "database exists", "DATABASE", body["name"])
        self.databases[body["name"]] = {}
        return {}

    def _create_table(self, database: str, body: Any) -> Any:
        tables = self._tables(database)
        _keys(body, {"identifier", "schema"})
        name = body["identifier"]["object"]
        _require(body["identifier"]["database"] == database, "another database in the identifier")
        if name in tables:
            raise Refused(409, "table exists", "TABLE", name)
        schema = body["schema"]
        _keys(schema, {"fields", "partitionKeys", "primaryKeys", "options", "comment"})
        names = [f["name"] for f in schema["fields"]]
        _require(len(set(names)) == len(names) > 0, "columns without a name of their own")
        for key in (*schema["partitionKeys"], *schema["primaryKeys"]):
            _require(key in names, f"key {key} is no column")
        for column in schema["fields"]:
            parse_type(column["type"])
        table_id = str(uuid.uuid4())
        root = self.directory / f"{database}.db" / f"{name}-{table_id[:8]}"
        table = ServerTable(table_id, root, schema, 0, max(_ids(schema["fields"])))
        self._write_schema(table)
        tables[name] = table
        return {}

    def _described(self, database: str, name: str) -> Any:
        table = self.table(database, name)
        return {
            "id": table.id,
            "database": database,
            "name": name,
            "path": self.location or f"file:{table.root}",
            "isExternal": self.is_external,
            "schemaId": table.schema_id,
            "schema": table.schema,
        }

    # ------------------------------------------------------------ schemas

    def _alter(self, table: ServerTable, body: Any) -> Any:
        _keys(body, {"changes"})
        _require(bool(body["changes"]), "no changes")
        table.schema, table.highest_field_id = applied(table.schema, body["changes"], table.highest_field_id)
        table.schema_id += 1
        self._write_schema(table)
        return {}

    @staticmethod
    def _write_schema(table: ServerTable) -> None:
        document = {
            "version": 3,
            "id": table.schema_id,
            "fields": table.schema["fields"],
            "highestFieldId": table.highest_field_id,
            "partitionKeys": table.schema["partitionKeys"],
            "primaryKeys": table.schema["primaryKeys"],
            "options": table.schema["options"],
            "comment": table.schema.get("comment"),
            "timeMillis": time.time_ns() // 1_000_000,
        }
        _write_new(table.root / "schema" / f"schema-{table.schema_id}", document)

    # ------------------------------------------------------------ commits

    def commit(self, database: str, name: str, body: Any) -> Any:
        table = self.table(database, name)
        body = {"baseSnapshotUuid": None, **body}
        _keys(body, {"tableId", "baseSnapshotUuid", "snapshot", "statistics"})
        if body["tableId"] != table.id:
            raise Refused(404, f"table {name} has another id", "TABLE", name)
        newest, snapshot = table.newest or {"id": 0}, body["snapshot"]
        if snapshot["id"] != newest["id"] + 1 if self.is_old else body["baseSnapshotUuid"] != newest.get("uuid"):
            return {"success": False}
        self._check_snapshot(table, snapshot)
        self._count(table, snapshot, body["statistics"])
        if self.is_old:
            snapshot = {key: value for key, value in snapshot.items() if key not in ("uuid", "writerVersion")}
        directory = table.root / "snapshot"
        _write_new(directory / f"snapshot-{snapshot['id']}", snapshot)
        (directory / "LATEST").write_text(str(snapshot["id"]))
        if snapshot["id"] == 1:
            (directory / "EARLIEST").write_text("1")
        table.newest = snapshot
        self.commits += 1
        return {"success": True}

    @staticmethod
    def _check_snapshot(table: ServerTable, snapshot: Any) -> None:
        for key, kind in _REQUIRED.items():
            _require(type(snapshot.get(key)) is kind, f"snapshot.{key} is {snapshot.get(key)!r}")
        unknown = snapshot.keys() - _REQUIRED.keys() - _OPTIONAL
        _require(not unknown, f"unknown keys {unknown} of a snapshot")
        newest = table.newest or {"id": 0, "totalRecordCount": 0}
        _require(snapshot["id"] == newest["id"] + 1, f"snapshot {snapshot['id']} on {newest['id']}")
        _require(snapshot.get("uuid") is None or snapshot["uuid"] != newest.get("uuid"), "the uuid of another snapshot")
        total = newest["totalRecordCount"] + snapshot["deltaRecordCount"]
        _require(
            snapshot["commitKind"] == "OVERWRITE" or snapshot["totalRecordCount"] == total, "wrong sums of records"
        )
        _require(0 <= snapshot["schemaId"] <= table.schema_id, f"unknown schema {snapshot['schemaId']}")
        _require(snapshot["commitKind"] in ("APPEND", "COMPACT", "OVERWRITE", "ANALYZE"), "unknown kind")
        for key in ("baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest"):
            if snapshot.get(key) is not None:
                _require((table.root / "manifest" / snapshot[key]).is_file(), f"{key} {snapshot[key]} is missing")

    @staticmethod
    def _count(table: ServerTable, snapshot: Any, statistics: Any) -> None:
        """Add the statistics of partitions, which must agree with the snapshot."""
        for one in statistics:
            _keys(one, _STATISTICS)
            _require(sorted(one["spec"]) == sorted(table.schema["partitionKeys"]), f"partition {one['spec']}")
            _require(all(type(text) is str for text in one["spec"].values()), f"partition {one['spec']}")
            spec = json.dumps(one["spec"], sort_keys=True)
            table.records[spec] = table.records.get(spec, 0) + one["recordCount"]
            _require(table.records[spec] >= 0, f"{table.records[spec]} records in partition {spec}")
        changed = sum(one["recordCount"] for one in statistics)
        _require(changed == snapshot["deltaRecordCount"], f"statistics of {changed} records")


@contextmanager
def rest_server(directory: Path, **settings: Any) -> Iterator[RestServer]:
    """Run the server for the length of the block."""
    server = RestServer(directory, **settings)

    class Handler(BaseHTTPRequestHandler):
        timeout = 20

        def do_GET(self) -> None:
            self._serve("GET")

        def do_POST(self) -> None:
            with server.at_work():
                self._serve("POST")

        def do_DELETE(self) -> None:
            with server.at_work():
                self._serve("DELETE")

        def _serve(self, method: str) -> None:
            parts = urlsplit(self.path)
            path = [unquote_plus(part) for part in parts.path.strip("/").split("/")]
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server.requests.append(f"{method} {parts.path}")
            server.headers = dict(self.headers.items())
            if server.is_down:
                self._send(503, {"message": "down for maintenance", "code": 503})
                return
            if server.token is not None and self.headers["Authorization"] != f"Bearer {server.token}":
                self._send(401, {"message": "Unauthorized", "code": 401})
                return
            faults = server.read_faults if method == "GET" else server.faults
            fault = faults.pop(0) if faults else "ok"
            if path[-1] == "commit" and server.before_commit is not None:
                act, server.before_commit = server.before_commit, None
                act()
            if fault in _GATEWAY:
                self._send(*_GATEWAY[fault])
                return
            if fault == "cut":
                self.connection.close()
                return
            if fault == "late":
                self.connection.shutdown(socket.SHUT_RDWR)
                server.released.wait()
            try:
                status, answer = 200, server.answer(method, path, query, json.loads(data) if data else None)
            except Refused as error:
                status = error.status
                answer = {"message": str(error), "resourceType": error.kind, "resourceName": error.name, "code": status}
            if fault in ("lost", "late"):
                self.connection.close()
                return
            if fault.startswith("done "):
                status, answer = _GATEWAY[fault.removeprefix("done ")]
            self._send(status, answer, is_half=fault == "half")

        def _send(self, status: int, body: Any, *, is_half: bool = False) -> None:
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if is_half else data)

        def handle(self) -> None:
            with suppress(OSError, ValueError):  # the client has gone, or the connection was closed on purpose
                super().handle()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as http:
        server.port = http.server_address[1]
        thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()


def _page(key: str, items: list[str], query: Mapping[str, str]) -> Any:
    left = [item for item in items if item > query.get("pageToken", "")]
    page = left[:_PAGE]
    return {key: page, "nextPageToken": page[-1] if len(left) > _PAGE else None}


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise Refused(400, message)


def _keys(body: Any, known: set[str]) -> None:
    _require(isinstance(body, dict) and body.keys() == known, f"expected {sorted(known)}, found {body!r:.300}")


def _write_new(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(json.dumps(document))
    path.hardlink_to(temporary)
    temporary.unlink()


# ---------------------------------------------------------------- changes of a schema


def _ids(fields: list[Any]) -> Iterator[int]:
    for one in fields:
        yield one["id"]
        yield from _ids_inside(one["type"])


def _ids_inside(type_: Any) -> Iterator[int]:
    if isinstance(type_, dict):
        yield from _ids(type_.get("fields", []))
        for part in ("element", "key", "value"):
            yield from _ids_inside(type_.get(part))


def applied(schema: dict[str, Any], changes: list[Any], highest: int) -> tuple[dict[str, Any], int]:
    """The schema after the changes, one after the other, and the highest field id; raises Refused."""
    changed = json.loads(json.dumps(schema))
    for change in changes:
        highest = _apply(changed, change, highest)
    return changed, highest


def _apply(schema: dict[str, Any], change: dict[str, Any], highest: int) -> int:
    """Carry out one change; gives the highest field id."""
    given = {key: value for key, value in change.items() if key != "action"}
    match change["action"]:
        case "setOption":
            _keys(given, {"key", "value"})
            _require(isinstance(given["value"], str), "an option that is no text")
            schema["options"][given["key"]] = given["value"]
        case "removeOption":
            _keys(given, {"key"})
            schema["options"].pop(given["key"], None)
        case "updateComment":
            _keys(given, {"comment"})
            schema["comment"] = given["comment"]
        case _:
            return _apply_to_column(schema, change["action"], given, highest)
    return highest


def _apply_to_column(schema: dict[str, Any], action: str, given: dict[str, Any], highest: int) -> int:
    names = given.pop("fieldNames")
    if action in ("updateColumnType", "updateColumnNullability"):
        _change_type(*_slot(schema["fields"], names), action, given)
        return highest
    *above, name = names
    fields = _inside(schema["fields"], above)
    if action == "addColumn":
        move = given.pop("move", None)
        _keys(given, {"dataType", "comment"})
        if any(f["name"] == name for f in fields):
            raise Refused(409, f"column {name} exists", "COLUMN", name)
        _require(parse_type(given["dataType"]).nullable, f"new column {name} is NOT NULL")
        number = highest + 1
        added, highest = _numbered(given["dataType"], number)
        new = {"id": number, "name": name, "type": added}
        if given["comment"] is not None:
            new["description"] = given["comment"]
        fields.insert(_place(fields, name, move), new)
        return highest
    column = next((f for f in fields if f["name"] == name), None)
    if column is None:
        raise Refused(404, f"no column {name}", "COLUMN", name)
    keys = {*schema["primaryKeys"], *schema["partitionKeys"]}
    match action:
        case "renameColumn":
            _keys(given, {"newName"})
            if any(f["name"] == given["newName"] for f in fields):
                raise Refused(409, f"column {given['newName']} exists", "COLUMN", given["newName"])
            _require(bool(above) or name not in schema["partitionKeys"], f"partition column {name} is renamed")
            schema["primaryKeys"] = [given["newName"] if k == name and not above else k for k in schema["primaryKeys"]]
            column["name"] = given["newName"]
        case "dropColumn":
            _keys(given, set())
            _require(bool(above) or name not in keys, f"key column {name} is dropped")
            fields.remove(column)
        case "updateColumnComment":
            _keys(given, {"newComment"})
            column["description"] = given["newComment"]
        case _:
            raise Refused(501, f"{action} is not implemented")
    return highest


def _change_type(holder: Any, key: str, action: str, given: dict[str, Any]) -> None:
    """Change the type that ``holder`` has under ``key``."""
    present = holder[key]
    if action == "updateColumnType":
        _keys(given, {"newDataType", "keepNullability"})
        _require(isinstance(given["newDataType"], str), "a nested type as a whole")
        wanted = str(parse_type(given["newDataType"]).with_nullable(parse_type(present).nullable))
        _require(wanted != present, "it has this type")
        holder[key] = wanted
        return
    _keys(given, {"newNullability"})
    _require(given["newNullability"] is True and not parse_type(present).nullable, "it becomes NOT NULL, or takes NULL")
    if isinstance(present, dict):
        present["type"] = present["type"].removesuffix(" NOT NULL")
    else:
        holder[key] = present.removesuffix(" NOT NULL")


def _slot(fields: list[Any], names: list[str]) -> tuple[Any, str]:
    """What has the type that the names lead to, and under which key; ARRAY and MAP have ``element`` and ``value``."""
    holder: Any = {"type": {"fields": fields}}
    key = "type"
    for name in names:
        inside: Any = holder[key]
        if not isinstance(inside, dict):
            raise Refused(404, f"no column {names}", "COLUMN", name)
        if "fields" in inside:
            found = [f for f in inside["fields"] if f["name"] == name]
            holder, key = found[0] if found else {}, "type"
        else:
            holder, key = inside, name
        if key not in holder:
            raise Refused(404, f"no column {names}", "COLUMN", name)
    return holder, key


def _inside(fields: list[Any], above: list[str]) -> list[Any]:
    """The fields of the ROW that the names lead to."""
    type_: Any = {"fields": fields}
    for name in above:
        if "fields" in type_:
            type_ = next((f["type"] for f in type_["fields"] if f["name"] == name), None)
        else:
            type_ = type_.get(name)
        if not isinstance(type_, dict):
            raise Refused(404, f"no column {above}", "COLUMN", name)
    found: list[Any] = type_["fields"]
    return found


def _numbered(type_: Any, highest: int) -> tuple[Any, int]:
    """A type whose fields have ids above ``highest``."""
    if not isinstance(type_, dict):
        return type_, highest
    out = dict(type_)
    for part in ("element", "key", "value"):
        if part in out:
            out[part], highest = _numbered(out[part], highest)
    if "fields" in out:
        numbered = []
        for one in out["fields"]:
            inner, highest = _numbered(one["type"], highest + 1)
            numbered.append({**one, "id": highest - _count_ids(inner), "type": inner})
        out["fields"] = numbered
    return out, highest


def _count_ids(type_: Any) -> int:
    return len(list(_ids_inside(type_)))


def _place(fields: list[Any], name: str, move: Any) -> int:
    if move is None:
        return len(fields)
    _keys(move, {"fieldName", "referenceFieldName", "type"})
    _require(move["fieldName"] == name, f"{name} moves {move['fieldName']}")
    if move["type"] == "FIRST":
        return 0
    _require(move["type"] == "AFTER", f"unknown move {move['type']}")
    at = next((i for i, f in enumerate(fields) if f["name"] == move["referenceFieldName"]), None)
    if at is None:
        raise Refused(404, f"no column {move['referenceFieldName']}", "COLUMN", move["referenceFieldName"])
    return at + 1
