"use strict";

// What the page shows is in the JSON above it; names and ranks were worked out when it was written.
const data = JSON.parse(document.getElementById("data").textContent);
const card = document.getElementById("card");

// Cells of the maps and rows of the tables -> {run, result}.
const subjects = new WeakMap();
// "run name" -> its cell.
const cells = new Map();
// The cell or row whose card stays in view, or null.
let pinned = null;
// Renderers that stand side by side: {run, result}, in the order they were chosen.
const compared = [];
const MOST_COMPARED = 6;

// -- helpers --------------------------------------------------------------------------------------

/** An element with attributes (a false one is left out) and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function classes(...names) {
  return names.filter(Boolean).join(" ") || false;
}

/** Four digits, no trailing zeros. */
function digits(x) {
  return x === null ? "–" : String(Number(x.toPrecision(4)));
}

function scoreText(result) {
  return result.score === null ? "diverged" : result.score.toFixed(4);
}

/** The score with its standard error, if that is known. */
function scoreWithError(result) {
  const known = result.score !== null && result.error !== null;
  return known ? `${result.score.toFixed(3)} ± ${result.error.toFixed(3)}` : scoreText(result);
}

/** "yager(p=2)"; where one function has two names, both. */
function conormText(result) {
  const name = result.name.split("/")[1];
  return result.same === null ? name : `${name} = ${result.same}`;
}

// The namespace of SVG, from the browser, so that the page names no address.
const SVG = (() => {
  const holder = document.createElement("div");
  holder.innerHTML = "<svg></svg>";
  return holder.firstChild.namespaceURI;
})();

/** An element of a drawing. */
function draw(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

function duration(seconds) {
  if (seconds < 100) return `${seconds.toFixed(1)} s`;
  return seconds < 6000 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** Round numbers between low and high, about five. */
function roundNumbers(low, high) {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) {
    found.push(k * step);
  }
  return found;
}

// -- colours --------------------------------------------------------------------------------------

const stops = data.colours.map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));

/** The colour of a score: the best is the bright end. */
function shade(run, score) {
  const { best, worst } = run.limits;
  const goodness = best === worst ? 1 : (score - worst) / (best - worst);
  const place = Math.min(Math.max(goodness, 0), 1) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  const mix = stops[below].map((c, i) => c + (stops[below + 1][i] - c) * (place - below));
  return `rgb(${mix.map(Math.round).join(" ")})`;
}

function drawRamp(run) {
  const { best, worst } = run.limits;
  const [low, high] = [Math.min(best, worst), Math.max(best, worst)];
  const ordered = best < worst ? [...data.colours].reverse() : data.colours;
  const ticks = make("div", { class: "ticks" });
  for (const x of low < high ? roundNumbers(low, high) : [low]) {
    const left = low < high ? (100 * (x - low)) / (high - low) : 50;
    ticks.append(make("span", { style: `left: ${left}%` }, digits(x)));
  }
  const ramp = make("div", {
    class: "ramp",
    style: `background: linear-gradient(to right, ${ordered.join(", ")})`,
  });
  const end = run.limits.clipped ? "; what is worse than the dark end has its colour" : "";
  const caption = make("div", {}, `${run.unit}, ${run.better} is better${end}`);
  return make("div", {}, make("div", { class: "scale" }, ramp, ticks), caption);
}

function key(className, text, symbol = "") {
  return make("div", { class: "key" }, make("i", { class: className }, symbol), text);
}

function drawLegend(run) {
  const legend = make("div", { class: "legend" });
  if (run.limits.best !== null) legend.append(drawRamp(run), key("winner", "the best"));
  const failed = Object.keys(run.failures).length;
  if (run.results.length + failed < run.total) legend.append(key("missing", "not run"));
  if (failed) legend.append(key("failed", `given up (${failed})`, "!"));
  if (run.results.some((result) => result.score === null)) {
    legend.append(key("diverged", "diverged", "×"));
  }
  return legend;
}

// -- heat maps ------------------------------------------------------------------------------------

function drawCell(run, map, row, column) {
  const index = map.places[row][column];
  const first = run.columns[column].first && "first";
  if (index === null) return drawMissing(run, map, row, column, first);
  const result = run.results[index];
  const diverged = result.score === null;
  const rank = diverged ? "" : `, rank ${result.rank} of ${run.results.length}`;
  const cell = make(
    "td",
    {
      class: classes("cell", first, diverged && "diverged", result.rank === 1 && "winner"),
      role: "gridcell",
      tabindex: -1,
      style: !diverged && `background-color: ${shade(run, result.score)}`,
      "aria-label": `${result.name}: ${scoreText(result)}${rank}`,
    },
    diverged ? "×" : "",
  );
  subjects.set(cell, { run, result });
  cells.set(`${run.id} ${result.name}`, cell);
  return cell;
}

/** A cell without a result: not run, or given up for a reason. */
function drawMissing(run, map, row, column, first) {
  const distribution = run.columns[column].name + (map.squared ? ".squared" : "");
  const name = `${distribution}/${run.rows[row].name}`;
  const reason = run.failures[name];
  const what = `${name}: ${reason === undefined ? "not run" : `given up, ${reason}`}`;
  return make(
    "td",
    {
      class: classes("cell", first, reason === undefined ? "missing" : "failed"),
      role: "gridcell",
      tabindex: -1,
      title: what,
      "aria-label": what,
    },
    reason === undefined ? "" : "!",
  );
}

/** The histogram above the columns. */
function drawTops(run, map, most) {
  const row = make("tr", { class: "tops", "aria-hidden": "true" });
  row.append(make("th", { scope: "row" }, `how many of the best ${map.counted}`));
  run.columns.forEach((column, j) => {
    const bar = make("div", { style: `height: ${(30 * map.by_column[j]) / most}px` });
    const count = map.by_column[j] ? String(map.by_column[j]) : "";
    row.append(make("td", { class: classes(column.first && "first") }, count, bar));
  });
  return row;
}

/** One row of cells, with its bar of the histogram at the end. */
function drawRow(run, map, i, most) {
  const { label, name, first } = run.rows[i];
  const share = `${map.by_row[i]} of the best ${map.counted}`;
  const head = make("th", { scope: "row", title: `${name}: ${share}` }, label);
  const row = make("tr", { class: classes(first && "first") }, head);
  run.columns.forEach((_, j) => row.append(drawCell(run, map, i, j)));
  const bar = make("div", { style: `width: ${(22 * map.by_row[i]) / most}px` });
  const count = map.by_row[i] ? String(map.by_row[i]) : "";
  row.append(make("td", { class: "count", "aria-hidden": "true" }, bar, count));
  return row;
}

function drawColumnNames(run, map) {
  const row = make("tr", {}, make("td"));
  run.columns.forEach(({ label, name, first }, j) => {
    const title = `${name}: ${map.by_column[j]} of the best ${map.counted}`;
    const head = make("th", { scope: "col", class: classes(first && "first"), title });
    head.append(make("span", {}, label));
    row.append(head);
  });
  return row;
}

function drawMap(run, map, most) {
  const body = make("tbody", {}, drawTops(run, map, most.column));
  run.rows.forEach((_, i) => body.append(drawRow(run, map, i, most.row)));
  const grid = make(
    "table",
    { class: "map", role: "grid", "aria-label": `${run.title}, ${map.title}` },
    body,
    make("tfoot", {}, drawColumnNames(run, map)),
  );
  grid.querySelector(".cell")?.setAttribute("tabindex", 0);
  return make(
    "figure",
    {},
    make("figcaption", {}, map.title, make("span", { class: "faint" }, `  ${map.formula}`)),
    make("div", { class: "scroll" }, grid),
  );
}

/** Arrow keys walk through a map. */
function walk(cell, key) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  if (!(key in steps)) return false;
  const [down, right] = steps[key];
  const rows = [...cell.closest("tbody").rows].map((row) => [...row.querySelectorAll(".cell")]);
  const i = rows.findIndex((row) => row.includes(cell));
  const next = rows[i + down]?.[rows[i].indexOf(cell) + right];
  if (next) {
    cell.setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    next.focus();
  }
  return true;
}

// -- the card -------------------------------------------------------------------------------------

/** Curves of the score over the scales that were tried, of one renderer or several. */
function drawCurves(run, results, wide, high) {
  const shown = results.filter((result) => result.curve.length > 1);
  if (!shown.length) return null;
  const [left, foot, head] = [34, 30, 8];
  const xs = shown.flatMap((result) => result.curve.map(([x]) => x));
  const ys = shown.flatMap((result) => result.curve.map(([, y]) => y));
  const [low, top] = [Math.min(...ys), Math.max(...ys)];
  const [first, last] = [Math.min(...xs), Math.max(...xs)];
  const x = (v) => left + 6 + ((v - first) / (last - first)) * (wide - left - 16);
  const y = (v) => high - foot - ((v - low) / (top - low || 1)) * (high - foot - head);
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${high}`, class: "curves", role: "img" });
  const names = shown.map((result) => result.name).join(", ");
  svg.append(draw("title", {}, `score against scale: ${names}`));
  for (const v of top > low ? roundNumbers(low, top) : [low]) {
    svg.append(draw("line", { x1: left, x2: wide - 4, y1: y(v), y2: y(v) }));
    svg.append(draw("text", { x: left - 4, y: y(v) + 3, "text-anchor": "end" }, digits(v)));
  }
  for (const v of roundNumbers(first, last)) {
    const place = { x: x(v), y: high - foot + 13, "text-anchor": "middle" };
    svg.append(draw("text", place, digits(v).replace("-", "−")));
  }
  const axis = { x: (left + wide) / 2, y: high - 4, "text-anchor": "middle" };
  svg.append(draw("text", axis, `log10 of the scale τ; score: ${run.better} is better`));
  for (const result of shown) {
    const hue = `hue${results.indexOf(result)}`;
    const points = result.curve.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`);
    svg.append(draw("polyline", { points: points.join(" "), class: `curve ${hue}` }));
    for (const [a, b] of result.curve) {
      const best = Math.abs(a - Math.log10(result.scale)) < 1e-3;
      svg.append(draw("circle", { cx: x(a), cy: y(b), r: best ? 4 : 2.2, class: hue }));
    }
  }
  return svg;
}

const pictures = new Map(); // of each run, once one of them was shown

/** The picture of a result; null if it has none, or while the page is still on its way. */
function pictureOf(run, result) {
  if (document.readyState === "loading") return null;
  if (!pictures.has(run)) {
    pictures.set(run, JSON.parse(document.getElementById(`pictures-${run.id}`).textContent));
  }
  const picture = pictures.get(run)[run.results.indexOf(result)];
  return picture && `data:image/png;base64,${picture}`;
}

function fillCard({ run, result }) {
  const row = run.rows[result.row];
  const column = run.columns[result.column];
  const facts = make("dl");
  const fact = (name, value) => facts.append(make("dt", {}, name), make("dd", {}, value));
  fact(run.unit, scoreWithError(result));
  if (result.rank !== null) fact("rank", `${result.rank} of ${run.results.length}`);
  if (result.score !== null) {
    fact(run.scale, `${digits(result.scale)} ${result.squared ? "NDC²" : "NDC"}`);
    fact("learning rate", digits(result.learning_rate));
  }
  fact("search took", duration(result.seconds));
  const [distribution, tconorm] = result.name.split("/");
  const words = distribution.split(/(?=\.[a-z])/);
  const heading = make("h4", {}, ...words.flatMap((word) => [make("wbr"), word]));
  heading.append(make("br"), result.same === null ? tconorm : conormText(result));
  const head = make("div", { class: "head" }, make("div", {}, heading, facts));
  const source = pictureOf(run, result);
  if (source) head.prepend(make("img", { src: source, alt: "what it fitted", width: 112, height: 112 }));
  const formulas = make("div", { class: "formulas" });
  for (const line of [result.coverage, column.distribution, row.formula]) {
    formulas.append(make("div", {}, line));
  }
  const close = make("button", { class: "close", type: "button", "aria-label": "Close" }, "×");
  close.addEventListener("click", unpin);
  const beside = make("button", { type: "button", class: "beside" }, "compare");
  beside.addEventListener("click", () => {
    addCompared(run, result);
    unpin();
  });
  const curves = drawCurves(run, [result], 300, 120);
  card.replaceChildren(close, head, ...(curves ? [curves] : []), formulas, beside);
}

// -- side by side ---------------------------------------------------------------------------------

function addCompared(run, result) {
  const known = compared.some((each) => each.run === run && each.result === result);
  if (!known) compared.push({ run, result });
  if (compared.length > MOST_COMPARED) compared.shift();
  drawCompared();
}

/** A line of the panel: name, bar with its error, score, and a button to remove it. */
function drawSide(result, k, place) {
  const bar = make("div", { class: "bar" });
  if (result.score !== null) {
    bar.append(make("i", { class: `hue${k}`, style: `width: ${place(result.score)}%` }));
    if (result.error) {
      const [left, right] = [result.score - result.error, result.score + result.error].map(place);
      bar.append(make("u", { style: `left: ${left}%; width: ${right - left}%` }));
    }
  }
  const rank = result.rank === null ? "" : `, rank ${result.rank}`;
  const away = make("button", { type: "button", "aria-label": `Remove ${result.name}` }, "×");
  away.addEventListener("click", () => {
    compared.splice(compared.findIndex((each) => each.result === result), 1);
    drawCompared();
  });
  const name = make("span", {}, `${result.name.split("/")[0]} / ${conormText(result)}`);
  return [name, bar, make("b", {}, `${scoreWithError(result)}${rank}`), away];
}

/** The panel with the chosen renderers: bars with errors, pictures, and curves in one drawing. */
function drawCompared() {
  const panel = document.getElementById("compared");
  panel.hidden = !compared.length;
  const parts = [make("h2", {}, "Side by side")];
  for (const run of data.runs) {
    const mine = compared.filter((each) => each.run === run).map(({ result }) => result);
    if (!mine.length) continue;
    const ends = mine.filter((r) => r.score !== null).map((r) => r.score + (r.error ?? 0));
    const most = Math.max(1e-9, ...ends);
    const place = (v) => (100 * Math.max(v, 0)) / most;
    const lines = mine.flatMap((result, k) => drawSide(result, k, place));
    const pictures = mine.filter((result) => pictureOf(run, result)).map((result) =>
      make("img", { src: pictureOf(run, result), alt: result.name, width: 144 }));
    const curves = drawCurves(run, mine, 460, 200);
    parts.push(make("h3", {}, `${run.title}: ${run.unit}, ${run.better} is better`));
    parts.push(make("div", { class: "sides" }, ...lines));
    parts.push(make("div", {}, ...pictures), ...(curves ? [curves] : []));
  }
  panel.replaceChildren(...parts);
}

/** Beside its cell where there is room, else below it; a narrow screen has it at its foot. */
function placeCard(anchor) {
  const { left, right, top, bottom } = anchor.getBoundingClientRect();
  const [width, height] = [card.offsetWidth, card.offsetHeight];
  const screen = document.documentElement;
  let x = right + 12;
  let y = Math.min(Math.max(top - 24, 8), Math.max(screen.clientHeight - height - 8, 8));
  if (x + width > screen.clientWidth - 8) x = left - width - 12;
  if (x < 8) {
    x = screen.clientWidth - width - 24;
    y = bottom + 8 + height > screen.clientHeight ? top - height - 8 : bottom + 8;
  }
  card.style.left = `${x + window.scrollX}px`;
  card.style.top = `${y + window.scrollY}px`;
}

function showCard(element) {
  fillCard(subjects.get(element));
  card.hidden = false;
  placeCard(element);
}

function cellOf(element) {
  const { run, result } = subjects.get(element);
  return cells.get(`${run.id} ${result.name}`);
}

function pin(element) {
  unpin();
  pinned = element;
  const { run, result } = subjects.get(element);
  cellOf(element).classList.add("pinned");
  card.classList.add("pinned");
  showCard(element);
  history.replaceState(null, "", `#run=${run.id}&cell=${encodeURIComponent(result.name)}`);
}

function unpin() {
  if (pinned !== null) {
    cellOf(pinned).classList.remove("pinned");
    history.replaceState(null, "", "#");
  }
  pinned = null;
  card.classList.remove("pinned");
  card.hidden = true;
}

/** The cell, row or dot under an event, if a renderer stands there. */
function subjectOf(event) {
  const element = event.target.closest(".cell, .list tbody tr, .dot");
  return subjects.has(element) ? element : null;
}

function preview(event) {
  const element = subjectOf(event);
  if (pinned !== null || event.pointerType === "touch") return;
  if (element === null) card.hidden = true;
  else showCard(element);
}

document.addEventListener("pointerover", preview);
document.addEventListener("focusin", preview);
document.addEventListener("click", (event) => {
  const element = subjectOf(event);
  if (element !== null && element !== pinned) pin(element);
  else if (!card.contains(event.target) && event.target.isConnected) unpin();
});
document.addEventListener("keydown", (event) => {
  const cell = event.target.closest(".cell");
  if (event.key === "Escape") unpin();
  else if (cell !== null && walk(cell, event.key)) event.preventDefault();
  else if (subjects.has(cell) && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    pin(cell);
  }
});

// -- the table ------------------------------------------------------------------------------------

// Title, what it is sorted by, what it shows. Names are in the order of the maps.
const COLUMNS = [
  ["rank", (r) => r.rank, (r) => (r.rank === null ? "–" : String(r.rank))],
  ["distribution", (r) => 2 * r.column + Number(r.squared), (r) => r.name.split("/")[0]],
  ["T-conorm", (r) => r.row, conormText],
  ["score", (r) => r.score, scoreWithError],
  ["first or best τ", (r) => r.scale, (r) => digits(r.scale)],
  ["learning rate", (r) => r.learning_rate, (r) => digits(r.learning_rate)],
  ["seconds", (r) => r.seconds, (r) => r.seconds.toFixed(1)],
];
const NAMES = new Set(["distribution", "T-conorm"]);

function drawLine(run, result) {
  const line = make("tr");
  for (const [title, , text] of COLUMNS) {
    const td = make("td", { class: classes(!NAMES.has(title) && "number") });
    if (title === "distribution") td.append(make("button", { type: "button" }, text(result)));
    else td.append(text(result));
    if (title === "score" && result.score !== null) {
      const colour = `background-color: ${shade(run, result.score)}`;
      td.prepend(make("span", { class: "swatch", style: colour }));
    }
    line.append(td);
  }
  subjects.set(line, { run, result });
  return line;
}

/** Sort lines by a column; what has no value comes last either way. */
function sortLines(lines, value, descending) {
  const sign = descending ? -1 : 1;
  return lines.sort((one, other) => {
    const [a, b] = [one, other].map((line) => value(subjects.get(line).result));
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return sign * (a - b);
  });
}

function drawTableHead(body, lines) {
  const row = make("tr");
  for (const [title, value] of COLUMNS) {
    const button = make("button", { type: "button" }, title);
    const head = make("th", { scope: "col", class: classes(!NAMES.has(title) && "number") }, button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      for (const other of row.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      body.append(...sortLines(lines, value, descending));
    });
    row.append(head);
  }
  row.cells[0].setAttribute("aria-sort", "ascending");
  return make("thead", {}, row);
}

function drawFilter(run, lines) {
  const words = make("input", {
    type: "search",
    placeholder: "words of the name: gamma reversed yager",
    "aria-label": "Filter by words of the name",
  });
  const half = make("select", { "aria-label": "Plain or squared" });
  for (const [value, text] of [["", "plain and squared"], ["false", "plain"], ["true", "squared"]]) {
    half.append(make("option", { value }, text));
  }
  const count = make("span", { class: "faint", role: "status" });
  const apply = () => {
    const wanted = words.value.toLowerCase().split(/\s+/);
    const fits = ({ name, squared }) =>
      (half.value === "" || half.value === String(squared)) &&
      wanted.every((word) => name.includes(word));
    for (const line of lines) line.hidden = !fits(subjects.get(line).result);
    for (const result of run.results) {
      cells.get(`${run.id} ${result.name}`).classList.toggle("dimmed", !fits(result));
    }
    for (const dot of document.querySelectorAll("#both .dot")) {
      dot.classList.toggle("dimmed", !fits(subjects.get(dot).result));
    }
    count.textContent = `${lines.filter((line) => !line.hidden).length} of ${lines.length}`;
  };
  words.addEventListener("input", apply);
  half.addEventListener("change", apply);
  apply();
  return make("div", { class: "filter" }, words, half, count);
}

function drawTable(run) {
  // One function under two names is one line; the maps have both.
  const names = new Set(run.results.map((result) => result.name));
  const other = (result) => `${result.name.split("/")[0]}/${result.same}`;
  const kept = run.results.filter((r) => r.same === null || !names.has(other(r)));
  const lines = kept.map((result) => drawLine(run, result));
  const body = make("tbody", {}, ...lines);
  const table = make("table", {}, drawTableHead(body, lines), body);
  return [drawFilter(run, lines), make("div", { class: "list", tabindex: 0 }, table)];
}

// -- the page -------------------------------------------------------------------------------------

function drawFacts(run) {
  const seconds = run.results.reduce((sum, result) => sum + result.seconds, 0);
  const best = run.results[0];
  const facts = [
    `${run.results.length} of ${run.total} renderers`,
    `seed ${run.seed}`,
    `gendr ${run.version}`,
    ...(run.created ? [`begun ${run.created}`] : []),
    `${duration(seconds)} of search in all`,
  ];
  const line = make("p", {}, facts.join(" · "));
  if (best.score !== null) {
    const equals = run.results.filter((result) => result.rank === 1).length - 1;
    const others = equals ? ` (and ${equals} more as good)` : "";
    line.prepend("Best: ", make("b", {}, best.name), `, ${scoreText(best)}${others}. `);
  }
  const protocol = make(
    "details",
    {},
    make("summary", {}, "protocol"),
    make("pre", {}, JSON.stringify(run.protocol, null, 2)),
  );
  return Object.keys(run.protocol).length ? [line, protocol] : [line];
}

// -- medians and both tasks -----------------------------------------------------------------------

function median(values) {
  const ordered = values.filter((x) => x !== null).sort((a, b) => a - b);
  const half = ordered.length >> 1;
  if (!ordered.length) return null;
  return ordered.length % 2 ? ordered[half] : (ordered[half - 1] + ordered[half]) / 2;
}

/** Bars of the medians of rows or columns, the best first. */
function drawBars(run, map, heads, scoresOf, what) {
  const better = run.better === "lower" ? 1 : -1;
  const found = heads
    .map(({ name }, i) => ({ name, value: median(scoresOf(i)) }))
    .filter(({ value }) => value !== null)
    .sort((a, b) => better * (a.value - b.value));
  if (!found.length) return "";
  const values = found.map(({ value }) => value);
  const [low, high] = [Math.min(0, ...values), Math.max(...values)];
  const list = make("div", { class: "bars" });
  for (const { name, value } of found) {
    const width = high > low ? (100 * (value - low)) / (high - low) : 100;
    const bar = make("i", { style: `width: ${width}%; background: ${shade(run, value)}` });
    list.append(make("span", {}, name), make("div", {}, bar), make("b", {}, value.toFixed(3)));
  }
  return make("figure", {}, make("figcaption", {}, `${what}, ${map.title}`), list);
}

/** Medians of the distributions over all T-conorms, and of the T-conorms over all distributions. */
function drawMedians(run) {
  const figures = run.maps.flatMap((map) => {
    const score = (i, j) => (map.places[i][j] === null ? null : run.results[map.places[i][j]].score);
    return [
      drawBars(run, map, run.columns, (j) => run.rows.map((_, i) => score(i, j)), "distributions"),
      drawBars(run, map, run.rows, (i) => run.columns.map((_, j) => score(i, j)), "T-conorms"),
    ];
  });
  const medians = make("details", { class: "medians" }, make("summary", {}, "medians, sorted"));
  medians.append(make("div", { class: "maps" }, ...figures));
  return medians;
}

/** A dot for each renderer that two runs of different tasks have, best towards the upper right. */
function drawBoth(one, other) {
  const [wide, high, edge] = [620, 460, 52];
  const known = new Map(other.results.map((result) => [result.name, result]));
  const pairs = one.results
    .map((result) => [result, known.get(result.name)])
    .filter(([a, b]) => b !== undefined && a.score !== null && b.score !== null);
  if (pairs.length < 3) return null;
  const axis = (run, k, length) => {
    const scores = pairs.map((pair) => pair[k].score);
    const [worst, best] = run.better === "lower"
      ? [Math.max(...scores), Math.min(...scores)] : [Math.min(...scores), Math.max(...scores)];
    return (score) => edge + ((score - worst) / (best - worst || 1)) * (length - edge - 14);
  };
  const [x, y] = [axis(one, 0, wide), axis(other, 1, high)];
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${high}`, class: "both", role: "img" });
  svg.append(draw("title", {}, `${one.title} against ${other.title}`));
  const ticks = (run, k, place) => {
    const scores = pairs.map((pair) => pair[k].score);
    for (const value of roundNumbers(Math.min(...scores), Math.max(...scores))) place(value);
  };
  ticks(one, 0, (v) => {
    svg.append(draw("line", { x1: x(v), x2: x(v), y1: 8, y2: high - edge + 6 }));
    svg.append(draw("text", { x: x(v), y: high - edge + 22, "text-anchor": "middle" }, digits(v)));
  });
  ticks(other, 1, (v) => {
    svg.append(draw("line", { x1: edge - 6, x2: wide - 8, y1: high - y(v), y2: high - y(v) }));
    svg.append(draw("text", { x: edge - 10, y: high - y(v) + 4, "text-anchor": "end" }, digits(v)));
  });
  svg.append(draw("text", { x: wide / 2, y: high - 8, "text-anchor": "middle" },
    `${one.task}: ${one.unit}, ${one.better} is better, to the right`));
  svg.append(draw("text", { x: 12, y: high / 2, "text-anchor": "middle",
    transform: `rotate(-90 12 ${high / 2})` }, `${other.task}: ${other.unit}, better upwards`));
  for (const [a, b] of pairs) {
    const dot = draw("circle", {
      cx: x(a.score), cy: high - y(b.score), r: 3.5, class: a.squared ? "dot squared" : "dot",
    });
    dot.append(draw("title", {}, `${a.name}: ${scoreText(a)}, ${scoreText(b)}`));
    subjects.set(dot, { run: one, result: a });
    svg.append(dot);
  }
  const caption = `${one.task} against ${other.task}: a dot is a renderer (full: plain, open: squared)`;
  return [make("h2", {}, "Both tasks"), make("figure", {}, make("figcaption", {}, caption), svg)];
}

function drawRun(run) {
  const most = {
    column: Math.max(1, ...run.maps.flatMap((map) => map.by_column)),
    row: Math.max(1, ...run.maps.flatMap((map) => map.by_row)),
  };
  const maps = run.maps.map((map) => drawMap(run, map, most));
  return make(
    "section",
    { "aria-label": run.title },
    make("h2", {}, run.title),
    ...drawFacts(run),
    drawLegend(run),
    make("div", { class: "maps" }, ...maps),
    drawMedians(run),
    make("h3", {}, "All results"),
    ...drawTable(run),
  );
}

/** An address such as #run=2&cell=logistic/yager(p=2) pins that cell; without a run, the first. */
function followAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  if (!wanted.has("cell")) return;
  const cell = cells.get(`${wanted.get("run") ?? data.runs[0].id} ${wanted.get("cell")}`);
  if (cell === undefined) return;
  cell.scrollIntoView({ block: "center", inline: "center" });
  pin(cell);
}

document.getElementById("about").textContent = data.about;
document.getElementById("runs").replaceChildren(...data.runs.map(drawRun));
const second = data.runs.find((run) => run.task !== data.runs[0].task);
const both = second && drawBoth(data.runs[0], second);
if (both) {
  document.getElementById("both").hidden = false;
  document.getElementById("both").append(...both);
}
window.addEventListener("hashchange", followAddress);
followAddress();
document.addEventListener("DOMContentLoaded", followAddress); // again, with its picture
