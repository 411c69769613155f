// The page of a running Tidemark: draw.js has its texts, elements and charts.
"use strict";

const POINTS = 720;
const EVENTS_SHOWN = 8;
const histories = new Map();
const sections = new Map();
let token = sessionStorage.getItem("tidemark-token") || "";

async function asked(path, given = {}) {
  const headers = { ...(token ? { Authorization: `Bearer ${token}` } : {}), ...(given.headers || {}) };
  const answer = await fetch(path, { ...given, headers });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || `the server answered ${answer.status}`);
  return body;
}

const query = (path, values) => `${path}?${new URLSearchParams(values)}`;

// ---- tables

const standingClass = (word) => ({ running: "good", paused: "bad", failed: "bad" })[word] || "between";

function actionButtons(section, table) {
  const fits = { pause: table.standing !== "paused", resume: table.standing === "paused" };
  const buttons = section.pipeline.actions.filter((action) => fits[action] !== false).map((action) =>
    element("button", { type: "button", "data-action": action, "data-table": shown(table.name), disabled: !token, title: token ? false : "enter the token first",
      "aria-label": `${action} ${shown(table.name, 80)}`, onclick: () => act(section, { table: table.name, action }) }, action));
  return element("div", { class: "actions" }, ...buttons);
}

function besideWords(section, beside) {
  const total = beside.records + (beside.records_left || 0);
  const share = beside.records_left === null || !total ? null : Math.floor((beside.records / total) * 100);
  const words = `${number(beside.records)}${beside.records_left === null ? "" : ` of about ${number(total)}`} records, ${number(beside.rows)} rows since start`;
  const ago = beside.slice_s === null ? "no slice yet since the start" : `last slice ${duration(Math.max(0, section.time - beside.slice_s))} ago`;
  return element("div", { class: "beside" }, element("span", { class: "between" }, `${beside.work}${share === null ? "" : ` ${share} %`}`),
    share === null ? "" : element("progress", { max: 100, value: share, "aria-label": `${beside.work}: ${share} %` }),
    element("div", { class: "faint" }, words), element("div", { class: "faint" }, "next at ", text(beside.position, 200), `; ${ago}`));
}

function topicWords(table) {
  if (!table.topics.length) return "";
  const more = table.topics.length > 2 ? ` and ${table.topics.length - 2} more` : "";
  return element("div", { class: "faint note", title: shown(table.topics.join("\n"), 2000) }, "from ", text(table.topics.slice(0, 2).join(", "), 200), more);
}

function missedWords(table) {
  return table.missed_records === null ? "" : element("div", { class: "missed" }, `misses about ${number(table.missed_records)} record${table.missed_records === 1 ? "" : "s"}`);
}

// What a table that nobody has looked at since the start shows in place of zeros.
function seen(table, words) {
  return table.snapshot_id ? words : "–";
}

function tableRows(section) {
  return section.pipeline.tables.map((table) => [
    element("div", {}, element("button", { type: "button", class: "name", "aria-expanded": String(section.open === table.name), onclick: () => openDetails(section, table.name) }, text(table.name, 120)), topicWords(table)),
    element("span", {}, element("span", { class: `word ${standingClass(table.standing)}` }, table.standing), table.since_s === null ? "" : element("span", { class: "faint" }, ` for ${duration(Math.max(0, section.time - table.since_s))}`), missedWords(table), table.reason ? element("div", { class: standingClass(table.standing) === "bad" ? "reason" : "reason between" }, text(table.reason)) : "", table.beside ? besideWords(section, table.beside) : ""),
    number(table.events), number(table.rows), seen(table, number(table.snapshot_id)),
    table.snapshot_time_s === null ? "–" : duration(section.time - table.snapshot_time_s),
    seen(table, number(table.shape.files)), seen(table, bytes(table.shape.size_bytes)),
    element("span", { class: table.shape.backlog_buckets ? "between" : "" }, seen(table, `${number(table.shape.level0_runs)} / ${number(table.shape.most_runs)}`)),
    actionButtons(section, table),
  ]);
}

function placeRows(pipeline) {
  const late = [...pipeline.places].sort((a, b) => (b.records || 0) - (a.records || 0)).slice(0, 50);
  return late.map((place) => [text(place.topic), number(place.partition), number(place.next_offset), number(place.end_offset), number(place.records), duration(place.seconds)]);
}

// ---- one pipeline

function newSection(name) {
  const part = (title) => { const inner = element("div"); return { outer: element("div", {}, element("h3", {}, title), inner), inner }; };
  const section = { open: null, tab: "levels", parts: {} };
  const ids = { title: `pipeline-${sections.size}` };
  section.title = element("div", { class: "title" });
  section.reason = element("div");
  section.facts = element("dl", { class: "facts" });
  section.advice = element("div");
  section.charts = element("div", { class: "charts" });
  for (const title of ["Tables", "Quarantine", "Last events", "Partitions"]) section.parts[title] = part(title);
  section.details = element("section", { class: "details", hidden: true, tabindex: "-1", "aria-label": "Details of a table" });
  section.news = element("p", { role: "status", class: "faint" });
  section.records = element("div");
  section.quarantineButton = element("button", { type: "button", class: "more", onclick: () => showQuarantine(section) }, "Show bad records");
  section.parts.Quarantine.outer.append(section.quarantineButton, section.records);
  section.parts.Tables.outer.append(element("p", { class: "faint note" }, "Events and rows count from the start of the process, including reads alongside the stream. Age is the age of the newest snapshot. Readers merge the sorted runs of a bucket."), section.news, section.details);
  section.root = element("section", { class: "pipeline", "aria-labelledby": ids.title }, section.title, section.reason, section.facts, section.charts, section.advice,
    ...Object.values(section.parts).map((one) => one.outer));
  section.titleId = ids.title;
  sections.set(name, section);
  document.getElementById("pipelines").append(section.root);
  return section;
}

function fact(name, value, note = "", kind = "") {
  return element("div", {}, element("dt", {}, name), element("dd", { class: kind }, value), element("dd", { class: "faint note" }, note));
}

function facts(section, pipeline, rate) {
  const last = pipeline.last_batches[pipeline.last_batches.length - 1];
  const runs = pipeline.running_batch !== null;
  const batch = runs ? pipeline.running_batch : last ? last.id : "none yet";
  const batchNote = runs ? `running for ${duration(Math.max(0, section.time - pipeline.running_since_s))}` : last ? `done ${duration(Math.max(0, section.time - last.ended_s))} ago` : "";
  const lost = Object.values(pipeline.lost_offsets).reduce((sum, one) => sum + one, 0);
  const bad = pipeline.open_bad_records, putAside = pipeline.bad_records.reduce((sum, one) => sum + one.put_aside, 0);
  const age = pipeline.bad_counted_s === null ? 0 : section.time - pipeline.bad_counted_s;
  const badNote = [`${number(putAside)} since start`, ...(age > 60 ? [`counted ${duration(age)} ago`] : [])].join(", ");
  const retries = Object.values(pipeline.retries).reduce((sum, one) => sum + one, 0);
  return [
    fact("Records read", number(pipeline.records), "since start"),
    fact("Records per second", rate.length ? number(rate[rate.length - 1].value) : "–", "last 5 s"),
    fact("Records behind", number(pipeline.lag_records), "not read yet"),
    fact("Time behind", duration(pipeline.lag_s), "oldest unread record", pipeline.lag_s > 600 ? "bad" : ""),
    fact("Batch", String(batch), batchNote),
    fact("In quarantine", bad === null ? "counting" : number(bad), badNote, bad ? "between" : ""),
    ...(lost ? [fact("Offsets lost", number(lost), "since start", "bad")] : []),
    fact("Retries", number(retries), "since start"),
  ];
}

const BAD_EVENTS = ["failed", "paused", "waiting", "reload refused"];

function eventRows(section, events) {
  return events.map((one) => [
    element("time", { datetime: new Date(one.time_s * 1000).toISOString(), title: new Date(one.time_s * 1000).toLocaleString("en-GB") },
      section.time - one.time_s > 86400 ? new Date(one.time_s * 1000).toLocaleString("en-GB") : clock(one.time_s)),
    element("span", { class: BAD_EVENTS.includes(one.kind) ? "bad" : "" }, `${one.kind}${one.count > 1 ? ` ×${number(one.count)}` : ""}`),
    one.table || one.reason ? text([one.table, one.reason].filter(Boolean).join(": ")) : "",
  ]);
}

// A text of Tidemark itself, in which backquotes mark what is typed.
const marked = (words) => shown(words, 2000).split("`").map((part, n) => (n % 2 ? element("code", {}, part) : part));

function showEvents(section, pipeline) {
  const place = section.parts["Last events"].inner, newest = [...pipeline.events].reverse();
  const names = columns("time", "what", "about"), older = newest.slice(EVENTS_SHOWN);
  const isOpen = Boolean(place.querySelector("details[open]"));
  put(place, newest.length ? grid("Last events", names, eventRows(section, newest.slice(0, EVENTS_SHOWN))) : element("p", { class: "faint" }, "No events yet."),
    ...(older.length ? [element("details", { open: isOpen }, element("summary", {}, `${number(older.length)} earlier`), grid("Earlier events", names, eventRows(section, older)))] : []));
}

function showPipeline(state, pipeline) {
  const section = sections.get(pipeline.name) || newSection(pipeline.name);
  section.pipeline = pipeline;
  section.time = state.time_s;
  const history = histories.get(pipeline.name) || [];
  const seen = history.length ? history[history.length - 1].time_s : 0;
  history.push(...pipeline.history.filter((point) => point.time_s > seen));
  history.splice(0, history.length - POINTS);
  histories.set(pipeline.name, history);

  put(section.title, element("h2", { id: section.titleId }, text(pipeline.name)), element("span", { class: `word ${pipeline.state_kind}` }, pipeline.state));
  put(section.reason, ...(pipeline.reason ? [element("p", { class: "reason" }, text(pipeline.reason, 3000))] : []),
    ...(pipeline.source_silent_s ? [element("p", { class: "reason" }, `The source has not answered for ${duration(pipeline.source_silent_s)}.`)] : []));
  const rate = rates(history);
  put(section.facts, ...facts(section, pipeline, rate));
  put(section.charts, lineChart("Records per second", rate, number, roundTop),
    lineChart("Time behind", history.map((point) => ({ time: point.time_s, value: point.lag_s })), duration, roundDuration), batchChart(pipeline.last_batches));
  put(section.advice, ...(pipeline.advice ? [element("p", { class: "advice" }, ...marked(pipeline.advice))] : []));
  const shape = JSON.stringify([pipeline.tables, section.open, Boolean(token), pipeline.actions]);
  if (shape !== section.shape || state.time_s - (section.drawn || 0) > 15) {
    const focused = document.activeElement && section.parts.Tables.inner.contains(document.activeElement) ? focusPath(document.activeElement) : null;
    section.shape = shape;
    section.drawn = state.time_s;
    section.parts.Tables.inner.replaceChildren(pipeline.tables.length
      ? grid("Tables", columns("table", "state", "#events", "#rows", "#snapshot", "#age", "#files", "#size", "#level 0 / most runs", "actions"), tableRows(section))
      : element("p", { class: "faint" }, "No table yet."));
    if (focused) refocus(section.parts.Tables.inner, focused);
  }
  put(section.parts.Partitions.inner, pipeline.places.length
    ? grid("Partitions", columns("topic", "#partition", "#next offset", "#end offset", "#records behind", "#time behind"), placeRows(pipeline))
    : element("p", { class: "faint" }, "The source has no partitions with a known end."));
  put(section.parts.Quarantine.inner, pipeline.bad_records.length
    ? grid("Bad records", columns("table", "reason", "#in quarantine", "#since start"), pipeline.bad_records.map((one) =>
      [text(one.table, 120), text(one.reason), one.open === null ? "counting" : number(one.open), number(one.put_aside)]))
    : element("p", { class: "faint" }, pipeline.bad_counted_s === null ? "Counting the records in quarantine." : "No bad records."));
  showEvents(section, pipeline);
  section.quarantineButton.disabled = !token;
  section.quarantineButton.title = token ? "" : "enter the token first";
}

const focusPath = (focused) => [...document.querySelectorAll("button, [tabindex]")].filter((one) => one.closest(".pipeline") === focused.closest(".pipeline")).indexOf(focused);

function refocus(inside, position) {
  const all = [...document.querySelectorAll("button, [tabindex]")].filter((one) => one.closest(".pipeline") === inside.closest(".pipeline"));
  if (all[position]) all[position].focus();
}

// ---- details of a table

const TABS = { levels: "Levels", snapshots: "Snapshots", schemas: "Schemas", rows: "Rows", changes: "Changes" };

function openDetails(section, name) {
  section.open = section.open === name ? null : name;
  section.details.hidden = section.open === null;
  section.shape = null;
  if (section.open !== null) {
    showDetails(section);
    section.details.focus();
  }
}

async function showDetails(section) {
  const name = section.open, pipeline = section.pipeline.name, tab = section.tab;
  const tabs = element("div", { class: "tabs", role: "group", "aria-label": "What to show" }, ...Object.entries(TABS).map(([key, title]) =>
    element("button", { type: "button", "data-tab": key, "aria-pressed": String(key === tab), onclick: () => { section.tab = key; showDetails(section).then(() => section.details.querySelector(`[data-tab=${key}]`).focus()); } }, title)));
  const content = element("div", {}, element("p", { class: "faint" }, "loading …"));
  section.details.replaceChildren(element("h3", {}, text(name, 200)), tabs, content);
  try {
    const needsToken = tab === "rows" || tab === "changes";
    if (needsToken && !token) throw new Error("enter the token of the page first");
    const found = await asked(query(needsToken ? `/api/${tab}` : "/api/table", { pipeline, table: name }));
    if (section.open !== name || section.tab !== tab) return;
    content.replaceChildren(...{ levels, snapshots, schemas, rows: sample, changes: sample }[tab](found));
  } catch (error) {
    content.replaceChildren(element("p", { class: "reason" }, text(error.message)));
  }
}

function levels(found) {
  if (!found.buckets.length) return [element("p", { class: "faint" }, "No files yet.")];
  const rows = found.buckets.map((bucket) => element("div", { class: "bucket" },
    element("div", {}, text(`${bucket.partition ? bucket.partition + " " : ""}bucket ${bucket.bucket}`)),
    element("div", { class: "runs", role: "img", "aria-label": `${bucket.runs.length} sorted runs` }, ...bucket.runs.map((run) =>
      element("div", { class: run.level === 0 ? "run level0" : "run", title: `${number(run.rows)} rows in ${number(run.files)} files, ${bytes(run.bytes)}` }, `L${run.level} ${bytes(run.bytes)}`)))));
  const more = found.count > found.buckets.length ? [element("p", { class: "faint" }, `and ${number(found.count - found.buckets.length)} more buckets`)] : [];
  return [element("p", { class: "faint" }, `Sorted runs per bucket, newest first; the highest level is L${found.max_level}.`), ...rows, ...more];
}

function snapshots(found) {
  return [grid("Snapshots", columns("#id", "kind", "time", "user", "#identifier", "#schema", "#rows stored", "#added", "#changelog"), found.snapshots.map((one) =>
    [number(one.id), one.kind, text(one.time), text(one.user), String(one.identifier), number(one.schema), number(one.rows), number(one.added_rows), number(one.changelog_rows)]))];
}

function schemas(found) {
  const options = Object.entries(found.options).map(([name, value]) => `${name} = ${value}`).join("\n");
  return [grid("Versions of the schema", columns("#id", "#columns", "changes"), found.schemas.map((one) => [number(one.id), number(one.columns), text(one.changes.join("\n"), 4000)])),
    element("h3", {}, "Options"), element("p", {}, text(options || "none", 4000))];
}

function sample(found) {
  if (!found.rows.length) return [element("p", { class: "faint" }, "Nothing to show.")];
  const cell = (value) => (value === null ? element("span", { class: "null" }, "NULL") : text(value));
  const more = found.left_out ? [element("p", { class: "faint" }, `and ${number(found.left_out)} more columns`)] : [];
  return [grid("Rows", found.columns.map((name) => ({ name: text(name, 80), number: false })), found.rows.map((row) => row.map(cell))), ...more];
}

async function showQuarantine(section) {
  section.records.replaceChildren(element("p", { class: "faint" }, "loading …"));
  try {
    const found = await asked(query("/api/quarantine", { pipeline: section.pipeline.name }));
    const groups = found.groups.map((group) => element("details", {},
      element("summary", {}, `${number(group.count)} × `, text(`${group.table}: ${group.reason}`)),
      element("button", { type: "button", "data-action": "retry", onclick: () => act(section, { action: "retry", table: group.table, reason: group.reason }, section.retryNews) }, "retry"),
      grid("Examples", columns("place", "reason", "record"), group.examples.map((one) => [text(one.place), text(one.reason), text(one.record)]))));
    const part = found.read < found.files ? `The newest ${number(found.read)} of ${number(found.files)} files.` : "";
    section.retryNews = element("p", { role: "status", class: "faint" });
    section.records.replaceChildren(section.retryNews, ...(groups.length ? groups : [element("p", { class: "faint" }, "No bad records.")]), element("p", { class: "faint" }, part));
  } catch (error) {
    section.records.replaceChildren(element("p", { class: "reason" }, text(error.message)));
  }
}

// ---- actions

// What is asked for: an action, with a table, or for bad records with a table and a reason.
async function act(section, asks, place = section.news) {
  const say = (words) => place.replaceChildren(text(`${asks.action} ${shown(asks.table, 80)}: ${words}`, 2000));
  say("asked");
  try {
    const { number: job } = await asked("/api/actions", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ pipeline: section.pipeline.name, ...asks }),
    });
    for (;;) {
      const outcome = await asked(query("/api/actions", { number: job }));
      say(outcome.text);
      if (outcome.state !== "working") return;
      await new Promise((done) => setTimeout(done, 700));
    }
  } catch (error) {
    say(error.message);
  }
}

async function useToken(given) {
  const state = document.getElementById("token-state");
  token = given;
  try {
    await asked("/api/token");
    sessionStorage.setItem("tidemark-token", token);
    state.textContent = "token accepted";
  } catch (error) {
    token = "";
    sessionStorage.removeItem("tidemark-token");
    state.textContent = given ? "wrong token" : "enter the token to see rows and bad records and to use the buttons";
  }
  for (const section of sections.values()) section.shape = null;
  if (latest) told(latest);
}

// ---- the stream

let latest = null;

// Events come without the token, so their reasons hold no values of rows; with it the whole reasons are asked for.
async function told(state) {
  const hasReason = state.pipelines.some((one) => [one, ...one.tables, ...one.events].some((part) => part.reason));
  if (token && hasReason) {
    try {
      const whole = await asked("/api/state");
      if (latest && latest.time_s > state.time_s) return;
      for (const pipeline of state.pipelines) takeReasons(pipeline, whole.pipelines.find((one) => one.name === pipeline.name));
    } catch {
      // the reasons of the event stand
    }
  }
  show(state);
}

function takeReasons(pipeline, whole) {
  if (!whole) return;
  if (pipeline.phase === whole.phase) pipeline.reason = whole.reason;
  pipeline.events = whole.events;
  for (const table of pipeline.tables) {
    const found = whole.tables.find((one) => one.name === table.name && one.standing === table.standing);
    if (found) table.reason = found.reason;
  }
}

function show(state) {
  latest = state;
  const memory = Object.entries(state.processes).map(([kind, use]) => `${kind} ${bytes(use.resident_bytes)}`).join(", ");
  document.getElementById("process").textContent = shown(`version ${state.version}, Spark ${state.spark || "not started"}, up ${duration(state.time_s - state.started_s)}${memory ? `, memory: ${memory}` : ""}`);
  for (const pipeline of state.pipelines) showPipeline(state, pipeline);
}

function listen() {
  const connection = document.getElementById("connection");
  const stream = new EventSource("/api/events");
  stream.onmessage = (event) => {
    connection.textContent = "live";
    connection.className = "live";
    told(JSON.parse(event.data));
  };
  stream.onerror = () => {
    connection.textContent = latest ? "no connection: this is the last known state" : "no connection";
    connection.className = "lost";
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  };
}

document.getElementById("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.getElementById("token");
  useToken(field.value.trim());
  field.value = "";
});
if (token) useToken(token);
listen();
