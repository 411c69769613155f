// Texts, elements and charts of the page. Everything that comes from tables, topics and records is put in as text, never as HTML.
"use strict";

const STEPS = ["plan", "decode", "write", "wait", "append", "compact", "commit"];
const LONGEST = 600;

// Characters that nobody sees, or that turn the direction of what follows, stand there as their codes.
function shown(value, longest = LONGEST) {
  const text = String(value);
  const cut = text.length > longest ? `${text.slice(0, longest)}… (${text.length.toLocaleString("en")} characters)` : text;
  return cut.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\u2028\u2029]/gu, (c) => (c === "\n" ? c : `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`));
}

function element(name, given = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (key === "class") made.className = value;
    else if (key === "onclick") made.addEventListener("click", value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function drawn(name, given) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(given)) made.setAttribute(key, value);
  return made;
}

const text = (value, longest) => element("bdi", { class: "text" }, shown(value, longest));
const number = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));

function bytes(size) {
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (size < 1000) return `${unit === "B" || size >= 100 ? size.toFixed(0) : size.toFixed(1)} ${unit}`;
    size /= 1000;
  }
  return `${size.toFixed(1)} TB`;
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 120) return `${seconds < 10 && seconds % 1 ? seconds.toFixed(1) : seconds.toFixed(0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.floor(minutes / 1440)} days`;
}

// Replaces what a place shows only where it differs, so that focus and selection stay.
function put(place, ...children) {
  const next = element("div", {}, ...children);
  if (place.innerHTML !== next.innerHTML) place.replaceChildren(...next.childNodes);
}

// ---- charts

const clock = (time) => new Date(time * 1000).toLocaleTimeString("en-GB");

// The first of 1, 2, 5, 10, ... that is not below the value.
function roundTop(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return power * [1, 2, 5, 10].find((step) => step * power >= value * 0.9999);
}

// So it is with lengths of time, whose round numbers are others.
function roundDuration(seconds) {
  const steps = [0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400];
  return steps.find((step) => step >= seconds) || Math.ceil(seconds / 86400) * 86400;
}

// A drawing of the unit square between its axes; texts stand beside it, where they keep their form at every width.
function chart(caption, now, spoken, svg, top, unit, left, right) {
  const axis = (kind, ...texts) => element("div", { class: kind, "aria-hidden": "true" }, ...texts.map((one) => element("span", {}, one)));
  svg.setAttribute("aria-label", `${caption}: ${spoken}`);
  for (const y of [0.5, 50, 99.5]) svg.prepend(drawn("line", { x1: 0, x2: 100, y1: y, y2: y, class: "rule" }));
  return element("figure", {}, element("figcaption", {}, element("span", {}, caption), element("strong", {}, now)),
    element("div", { class: "plot" }, axis("y", unit(top), unit(top / 2), unit(0)), svg, axis("x", left, right)));
}

const square = () => drawn("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img" });

function lineChart(caption, points, unit, roundUp) {
  const known = points.filter((point) => point.value !== null), svg = square();
  if (!known.length) return chart(caption, "not known yet", "not known yet", svg, 1, () => "", "", "");
  const top = roundUp(Math.max(1e-9, ...known.map((point) => point.value)));
  const first = known[0].time, last = known[known.length - 1], span = Math.max(1, last.time - first);
  const path = known.map((point) => `${(((point.time - first) / span) * 100).toFixed(2)},${(99.5 - (point.value / top) * 99).toFixed(2)}`);
  if (known.length > 1) svg.append(drawn("polyline", { points: path.join(" "), class: "line" }));
  const most = Math.max(...known.map((point) => point.value));
  return chart(caption, unit(last.value), `now ${unit(last.value)}, at most ${unit(most)}`, svg, top, unit, clock(first), clock(last.time));
}

function batchChart(batches) {
  const caption = "Time per batch, by step", svg = square(), shownBatches = batches.slice(-30);
  if (!shownBatches.length) return chart(caption, "no batch yet", "no batch yet", svg, 1, () => "", "", "");
  const total = (batch) => Object.values(batch.steps).reduce((sum, one) => sum + one, 0);
  const top = roundDuration(Math.max(1e-9, ...shownBatches.map(total)));
  const first = shownBatches[0], last = shownBatches[shownBatches.length - 1], width = 100 / Math.max(12, shownBatches.length);
  shownBatches.forEach((batch, position) => {
    let below = 99.5;
    for (const step of Object.keys(batch.steps).sort((a, b) => STEPS.indexOf(a) - STEPS.indexOf(b))) {
      const height = (batch.steps[step] / top) * 99;
      below -= height;
      const bar = drawn("rect", { x: position * width + width * 0.1, y: below, width: width * 0.8, height, class: STEPS.includes(step) ? step : "other" });
      const title = drawn("title", {});
      title.textContent = shown(`batch ${batch.id}: ${step} ${duration(batch.steps[step])} of ${duration(total(batch))}, ${number(batch.records)} records`);
      bar.append(title);
      svg.append(bar);
    }
  });
  const figure = chart(caption, duration(total(last)), `${shownBatches.length} batches, the last one, ${last.id}, took ${duration(total(last))}`,
    svg, top, duration, `batch ${first.id}, ${clock(first.ended_s)}`, first === last ? "" : `batch ${last.id}, ${clock(last.ended_s)}`);
  const present = STEPS.filter((step) => shownBatches.some((batch) => batch.steps[step]));
  figure.append(element("ul", { class: "legend", "aria-label": "Steps" }, ...present.map((step) => element("li", {}, element("span", { class: step }), step))));
  return figure;
}

function rates(history) {
  return history.slice(1).map((point, position) => ({
    time: point.time_s,
    value: Math.max(0, point.records - history[position].records) / Math.max(0.1, point.time_s - history[position].time_s),
  }));
}

// ---- tables

const columns = (...names) => names.map((name) => ({ name: name.replace(/^#/, ""), number: name.startsWith("#") }));

// On a phone each row is a card whose cells have the names of their columns; the roles keep it a table for those who hear it.
function grid(label, names, rows) {
  const head = element("tr", { role: "row" }, ...names.map((name) => element("th", { scope: "col", role: "columnheader", class: name.number ? "number" : "" }, name.name)));
  const body = rows.map((cells) => element("tr", { role: "row" }, ...cells.map((cell, n) =>
    element("td", { role: "cell", "data-label": shown(names[n].name, 80), class: names[n].number ? "number" : "" }, element("div", {}, cell)))));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    element("table", { role: "table" }, element("thead", { role: "rowgroup" }, head), element("tbody", { role: "rowgroup" }, ...body)));
}
