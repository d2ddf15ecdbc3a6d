// The page: asks the master once a second while somebody looks, and shows one group. It changes nothing anywhere.
import {drawHour, drawPaths, drawRing, kBadEvents, number, slowestOf} from "./pictures.js";

const kPeriodMs = 1000, kAnswerMs = 5000, kLateMs = 20, kLatePart = 0.2;
const at = (id) => document.getElementById(id);
const ui = {group: at("group"), state: at("state"), hurts: at("hurts"), ring: at("ring"), sites: at("sites"),
  paths: at("paths"), hour: at("hour"), events: at("events"), card: at("card"), facts: at("facts"), pause: at("pause")};
let newest = null, open_card = null, paused = false;

const make = (name, attributes = {}, ...children) => {
  const element = Object.assign(document.createElement(name), attributes);
  element.append(...children);
  return element;
};
const listed = (names) => names.slice(0, 4).join(", ") + (names.length > 4 ? ` and ${names.length - 4} more` : "");
// Leaves what is equal alone, so that a reader's place and a screen reader's words stay.
const setText = (element, text) => { if (element.textContent !== text) element.textContent = text; };

// What is known of each peer, by name: late is who submits after the others, awaited whom they wait for.
function peersOf(group) {
  const peers = new Map(group.peers.map((peer) => [peer.name || `peer ${peer.peer_id}`,
    {...peer, awaited_by: [], late_ms: null, is_late: false, is_gone: !peer.online}]));
  const members = [...peers.values()].filter((peer) => peer.state === "member");
  if (members.length > 1 && members.every((peer) => peer.live?.op_ms > 0 && peer.live.ops_per_s > 0)) {
    const longest = Math.max(...members.map((peer) => peer.live.op_ms));
    for (const peer of members) peer.late_ms = longest - peer.live.op_ms;
    for (const peer of members) peer.is_late = peer.late_ms > kLateMs && peer.late_ms > kLatePart * longest;
  }
  for (const [name, peer] of peers) {
    for (const on of peer.live?.wait?.on ?? []) peers.get(on)?.awaited_by.push(name);
  }
  for (const peer of peers.values()) peer.is_late ||= peer.awaited_by.length > 0;
  return peers;
}

function hurtsOf(status, group, peers) {
  const out = [];
  const {journal} = status.master;
  if (journal !== "ok" && journal !== "none") out.push(["bad", `the master cannot write its journal: ${journal}`]);
  if (group === undefined) return out;
  if (group.collecting) out.push(["bad", "a recovery runs: operations stand still until the next view"]);
  for (const [name, peer] of peers) {
    if (peer.awaited_by.length > 0) {
      const wait = peers.get(peer.awaited_by[0]).live.wait;
      const chain = peer.live?.wait?.on?.length > 0 ? `, for it waits for ${listed(peer.live.wait.on)} itself` : "";
      out.push(["bad", `${listed(peer.awaited_by)} wait${peer.awaited_by.length === 1 ? "s" : ""} for ${name}: its ` +
        `trainer has not submitted ${wait.what} for ${number(wait.age_ms / 1000)} s${chain}`]);
    } else if (peer.is_late) {
      out.push(["warn", `${name} submits about ${number(peer.late_ms)} ms after the first`]);
    }
    if (peer.is_gone) out.push(["bad", `the master does not hear the daemon of ${name}`]);
    if (peer.state === "pending") out.push(["warn", `${name} is not in yet: ${peer.why}`]);
    if (peer.live?.wait?.reason === "data" && peer.live.wait.on.length === 0) {
      out.push(["warn", `${name}: ${peer.live.wait.what} has needed data for ${number(peer.live.wait.age_ms / 1000)} s`]);
    }
  }
  const slowest = slowestOf(group);
  if (slowest !== null) {
    out.push(["note", `bottleneck of the ring: ${slowest.from} to ${slowest.to}, ${number(slowest.rate)} Mbit/s`]);
  }
  if (group.prepared !== null) out.push(["note", `view ${group.prepared} waits until all members call UpdateView`]);
  if (!out.some(([level]) => level !== "note")) out.unshift(["good", "✓ nothing is seen that holds it up"]);
  return out;
}

function showHurts(hurts) {
  while (ui.hurts.children.length > hurts.length) ui.hurts.lastChild.remove();
  hurts.forEach(([level, text], i) => {
    const item = ui.hurts.children[i] ?? ui.hurts.appendChild(make("li"));
    item.className = level;
    setText(item, text);
  });
}

const kColumns = [["ops/s", (peer) => number(peer.live?.ops_per_s)], ["op ms", (peer) => number(peer.live?.op_ms)],
  ["late ms", (peer) => number(peer.late_ms)], ["sent Mbit/s", (peer) => number(peer.live?.sent_mbit)],
  ["waits for", (peer) => {
    const wait = peer.live?.wait;
    return !wait ? "" : `${wait.on.length > 0 ? listed(wait.on) : wait.reason}, ${number(wait.age_ms / 1000)} s`;
  }], ["state", (peer) => peer.is_gone ? "not heard" : peer.state === "pending" ? "not in yet" :
    peer.awaited_by.length > 0 ? "others wait for it" : peer.is_late ? "late" : ""]];

function showSites(peers) {
  const sites = new Map();
  for (const [name, peer] of peers) {
    const site = peer.site || "no site";
    sites.set(site, [...(sites.get(site) ?? []), [name, peer]]);
  }
  const key = JSON.stringify([...sites].map(([site, ranks]) => [site, ranks.map(([name, peer]) => [name, peer.rank])]));
  if (ui.sites.dataset.key !== key) {
    ui.sites.dataset.key = key;
    ui.sites.replaceChildren(...[...sites].map(([site, ranks]) => {
      const table = make("table", {}, make("caption", {textContent: `site ${site}`}));
      const head = table.createTHead().insertRow();
      for (const name of ["rank", ...kColumns.map(([title]) => title)]) {
        head.append(make("th", {scope: "col", textContent: name}));
      }
      const body = table.createTBody();
      for (const [name, peer] of ranks) {
        const button = make("button", {type: "button", className: "name", textContent: `${peer.rank ?? "-"} ${name}`});
        button.addEventListener("click", () => openCard(name));
        const row = body.insertRow();
        row.dataset.name = name;
        row.append(make("th", {scope: "row"}, button), ...kColumns.map(([title]) =>
          make("td", {className: title === "waits for" || title === "state" ? "words" : ""})));
      }
      return table;
    }));
  }
  for (const row of ui.sites.querySelectorAll("tbody tr")) {
    const peer = peers.get(row.dataset.name);
    row.className = peer.is_gone ? "gone" : peer.is_late ? "late" : "";
    kColumns.forEach(([, text], i) => setText(row.cells[i + 1], text(peer)));
  }
}

function openCard(name) {
  open_card = name;
  show();
  if (!ui.card.open) ui.card.showModal();
}

function showCard(group, peers) {
  const peer = peers.get(open_card);
  if (peer === undefined) return;
  setText(at("card-head"), `rank ${peer.rank ?? "-"}: ${open_card}`);
  const rank = group.paths?.ranks.indexOf(open_card) ?? -1;
  const facts = [["daemon", `${peer.daemon} at ${peer.address || "no address"}`], ["site", peer.site],
    ["state", peer.state === "pending" ? `not in yet: ${peer.why}` : peer.is_gone ? "the master does not hear it" : "member"],
    ...kColumns.slice(0, 5).map(([title, text]) => [title, text(peer) || "nothing"]),
    ["operations", `${peer.ops_done} done, ${peer.ops_retried} retried, ${peer.ops_failed} failed`],
    ["bytes", `${number(peer.bytes_sent / 1e6)} MB sent, ${number(peer.bytes_received / 1e6)} MB received`],
    ["losses", `${peer.lanes_lost} lanes broke, ${peer.segments_resent} segments sent again`],
    ...(rank < 0 ? [] : group.paths.ranks.flatMap((to, i) => i === rank ? [] : [[`to ${to}`,
      `${number(group.paths.sent_mbit[rank][i])} of ${number(group.paths.rate_mbit[rank][i])} Mbit/s, ` +
      `${number(group.paths.delay_ms[rank][i])} ms`]]))];
  ui.facts.replaceChildren(...facts.flatMap(([term, text]) =>
    [make("dt", {textContent: term}), make("dd", {textContent: text})]));
}

function showEvents(events) {
  const shown = [...events].reverse();
  const key = `${shown[0]?.number} ${shown.length}`;
  if (ui.events.dataset.key === key) return;
  ui.events.dataset.key = key;
  ui.events.replaceChildren(...shown.map((event) => {
    const time = new Date(Date.now() - event.age_ms);
    return make("li", {className: kBadEvents.has(event.event) ? "bad" : ""},
      make("time", {dateTime: time.toISOString(), textContent: time.toLocaleTimeString()}),
      make("b", {textContent: event.event}), make("span", {textContent: [event.who, event.text].filter(Boolean).join(": ")}));
  }));
}

// What the group has sent since the master began, by pairs of sites; the dearest first.
function showTraffic(group, currency) {
  const {pairs, rest} = group?.traffic ?? {pairs: [], rest: {bytes: 0}};
  const money = (cost) => cost === null || cost === undefined ? "" : `${Number(cost.toPrecision(3))} ${currency}`;
  const all = [...pairs, ...(rest.bytes > 0 ? [{from: "other", to: "other", ...rest}] : [])]
    .sort((a, b) => (b.cost ?? 0) - (a.cost ?? 0) || b.bytes - a.bytes);
  at("traffic").hidden = all.length === 0;
  const per = group?.cost_operation === null ? "" : `, ${money(group?.cost_operation)} an operation`;
  setText(at("cost"), currency === null ? "no prices: start the master with --price" :
    `${money(group?.cost_hour)} in the last hour${per}`);
  const texts = all.map((pair) => [pair.from || "no site", pair.to || "no site", number(pair.bytes / 1e9), money(pair.cost)]);
  if (at("pairs").dataset.key === JSON.stringify(texts)) return;
  at("pairs").dataset.key = JSON.stringify(texts);
  at("pairs").replaceChildren(...texts.map((row) =>
    make("tr", {}, ...row.map((text) => make("td", {textContent: text})))));
}

function showGroups(groups) {
  const names = groups.map((group) => group.name);
  if (ui.group.dataset.key === JSON.stringify(names)) return;
  ui.group.dataset.key = JSON.stringify(names);
  const chosen = ui.group.value || decodeURIComponent(location.hash.slice(1));
  ui.group.replaceChildren(...names.map((name) => make("option", {value: name, textContent: name})));
  if (names.includes(chosen)) ui.group.value = chosen;
}

function show() {
  if (newest === null) return;
  showGroups(newest.groups);
  const group = newest.groups.find((one) => one.name === ui.group.value);
  const peers = group === undefined ? new Map() : peersOf(group);
  const events = newest.events.filter((event) => event.group === "" || event.group === group?.name);
  const speed = Math.max(0, ...[...peers.values()].map((peer) => peer.live?.ops_per_s ?? 0));
  setText(ui.state, group === undefined ? "no group" : `epoch ${group.epoch}, world of ${group.world_size}, ` +
    `${number(speed)} operations a second`);
  ui.state.className = "";
  showHurts(hurtsOf(newest, group, peers));
  showSites(peers);
  showEvents(events);
  showTraffic(group, newest.master.currency ?? null);
  drawHour(ui.hour, group, events);
  const none = {ring: [], paths: {ranks: []}};
  drawRing(ui.ring, group ?? none, peers, openCard);
  drawPaths(ui.paths, group ?? none, document.querySelector("input[name=metric]:checked").value);
  if (open_card !== null && group !== undefined) showCard(group, peers);
}

async function ask() {
  if (!paused && !document.hidden) {
    try {
      const answer = await fetch("live.json", {signal: AbortSignal.timeout(kAnswerMs)});
      if (!answer.ok) throw new Error(await answer.text());
      newest = await answer.json();
      show();
    } catch (error) {
      setText(ui.state, `the master does not answer: ${error.message}`);
      ui.state.className = "stale";
    }
  }
  setTimeout(ask, kPeriodMs);
}

ui.group.addEventListener("change", show);
ui.card.addEventListener("close", () => { open_card = null; });
for (const input of document.querySelectorAll("input[name=metric]")) input.addEventListener("change", show);
ui.pause.addEventListener("click", () => {
  paused = !paused;
  ui.pause.setAttribute("aria-pressed", paused);
  setText(ui.pause, paused ? "Go on" : "Pause");
});
ask();
