// The ring, the matrix of paths, and the hour, drawn from the facts of one group (page.js).
const kSvg = "http://www.w3.org/2000/svg";

export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  return value.toFixed(size === 0 || size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
}

function svg(name, attributes, text) {
  const element = document.createElementNS(kSvg, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// The path of the ring with the lowest measured rate; null where none is measured.
export function slowestOf(group) {
  const ranks = group.paths?.ranks ?? [];
  let slowest = null;
  group.ring.forEach((from, i) => {
    const to = group.ring[(i + 1) % group.ring.length];
    const rate = group.paths?.rate_mbit?.[ranks.indexOf(from)]?.[ranks.indexOf(to)];
    if (from !== to && rate > 0 && (slowest === null || rate < slowest.rate)) slowest = {from, to, rate};
  });
  return slowest;
}

export function drawRing(root, group, peers, open) {
  const ring = group.ring, ranks = group.paths?.ranks ?? [], slowest = slowestOf(group);
  const place = (i) => {
    const turn = 2 * Math.PI * i / Math.max(ring.length, 1) - Math.PI / 2;
    return [110 * Math.cos(turn), 110 * Math.sin(turn)];
  };
  const parts = [];
  ring.forEach((from, i) => {
    const to = ring[(i + 1) % ring.length];
    if (to === from) return;
    const [ax, ay] = place(i), [bx, by] = place(i + 1);
    const sent = group.paths?.sent_mbit?.[ranks.indexOf(from)]?.[ranks.indexOf(to)];
    const is_slow = slowest !== null && slowest.from === from && slowest.to === to;
    parts.push(svg("path", {class: is_slow ? "path slow" : "path", d: `M${ax} ${ay}A110 110 0 0 1 ${bx} ${by}`}));
    const turn = 2 * Math.PI * (i + 0.5) / ring.length - Math.PI / 2;
    if (ring.length <= 24) {
      parts.push(svg("text", {class: "rate", x: 88 * Math.cos(turn), y: 88 * Math.sin(turn) + 2, "text-anchor": "middle"},
        `→ ${number(sent)}`));
    }
  });
  ring.forEach((name, i) => {
    const [x, y] = place(i), peer = peers.get(name);
    const state = peer?.is_gone ? " gone" : peer?.is_late ? " late" : "";
    const node = svg("circle", {class: "node" + state, cx: x, cy: y, r: ring.length > 24 ? 5 : 9});
    node.addEventListener("click", () => open(name));
    node.append(svg("title", {}, name));
    parts.push(node);
    if (ring.length <= 32) {
      const anchor = Math.abs(x) < 20 ? "middle" : x > 0 ? "start" : "end";
      parts.push(svg("text", {x: 1.12 * x, y: 1.2 * y + 3, "text-anchor": anchor}, `${peer?.rank ?? "-"} ${name}`));
    }
  });
  root.replaceChildren(...parts);
  root.setAttribute("aria-label", ring.length === 0 ? "no view yet" : `ring of ${ring.length}: ${ring.join(" to ")}` +
    (slowest === null ? "" : `; its slowest path is ${slowest.from} to ${slowest.to}, ${number(slowest.rate)} Mbit/s`));
}

export function drawPaths(table, group, metric) {
  const ranks = group.paths?.ranks ?? [], matrix = group.paths?.[metric] ?? [], slowest = slowestOf(group);
  const key = ranks.join("\n");
  if (table.dataset.key !== key) {  // else the cells stay, and with them where somebody reads
    table.dataset.key = key;
    table.querySelectorAll("thead, tbody").forEach((part) => part.remove());
    const head = table.createTHead().insertRow(), body = table.createTBody();
    const heading = (name, scope) => Object.assign(document.createElement("th"), {textContent: name, scope});
    head.append(heading("from", "col"), ...ranks.map((name) => heading(name, "col")));
    ranks.forEach((name) => {
      const row = body.insertRow();
      row.append(heading(name, "row"));
      ranks.forEach(() => row.insertCell());
    });
  }
  const most = Math.max(0, ...matrix.flat().filter(Number.isFinite));
  ranks.forEach((from, a) => ranks.forEach((to, b) => {
    const cell = table.tBodies[0].rows[a].cells[b + 1], value = matrix[a]?.[b], age = group.paths.age_s?.[a]?.[b];
    cell.textContent = a === b ? "" : number(value);
    cell.style.setProperty("--part", a === b || !(value > 0) ? 0 : 0.08 + 0.6 * value / most);
    cell.title = a === b ? "" : `${from} to ${to}: delay ${number(group.paths.delay_ms[a][b])} ms, measured ` +
      `${number(group.paths.rate_mbit[a][b])} Mbit/s` + (age === null ? "" : ` ${age} s ago`) +
      `, carries ${number(group.paths.sent_mbit[a][b])} Mbit/s`;
    cell.className = slowest !== null && slowest.from === from && slowest.to === to ? "slow" : "";
  }));
}

export const kBadEvents = new Set(["dropped", "recovery", "daemon_down", "journal_failed"]);

export function drawHour(root, group, events) {
  const kHour = 3600, kLeft = 40, kWidth = 670, kTop = 8, kHeight = 104;
  const x = (age) => kLeft + kWidth * (1 - Math.min(age, kHour) / kHour);
  const samples = group?.history ?? [];
  const most = Math.max(1, ...samples.map((sample) => sample.op_ms));
  const y = (ms) => kTop + kHeight * (1 - ms / most);
  const parts = [svg("path", {class: "axis", fill: "none", d: `M${kLeft} ${kTop}V${kTop + kHeight}H${kLeft + kWidth}`}),
    svg("text", {x: kLeft - 4, y: kTop + 6, "text-anchor": "end"}, `${number(most)} ms`)];
  for (const minutes of [60, 45, 30, 15, 0]) {
    parts.push(svg("text", {x: x(60 * minutes), y: kTop + kHeight + 14, "text-anchor": "middle"},
      minutes === 0 ? "now" : `-${minutes} min`));
  }
  for (const event of events) {
    const age = event.age_ms / 1000;
    if (age > kHour) continue;
    const line = svg("path", {class: kBadEvents.has(event.event) ? "event bad" : "event",
      d: `M${x(age)} ${kTop}V${kTop + kHeight}`});
    line.append(svg("title", {}, `${event.event} ${event.who} ${event.text}`));
    parts.push(line);
  }
  let path = "", pen_up = true;
  for (const sample of samples) {
    if (!(sample.ops_per_s > 0)) { pen_up = true; continue; }
    path += `${pen_up ? "M" : "L"}${x(sample.age_s)} ${y(sample.op_ms)}${pen_up ? "h0.1" : ""}`;
    pen_up = false;
  }
  parts.push(svg("path", {class: "times", d: path || "M0 0"}));
  root.replaceChildren(...parts);
  const newest = samples.at(-1);
  root.setAttribute("aria-label", newest === undefined ? "no operations in the last hour" :
    `times of operations in the last hour, at most ${number(most)} ms, last ${number(newest.op_ms)} ms`);
}
