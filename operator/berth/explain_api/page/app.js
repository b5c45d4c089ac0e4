// The page: what is asked for and when, and which view is shown.

import * as api from "./api.js";
import { openDetail } from "./detail.js";
import { byId, h, patch } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { clearDecisions, model, NodeIntake, on, setCluster, setPending, setProblem, takeDecisions } from "./model.js";
import { NodeTable } from "./node_table.js";
import * as overview from "./overview.js";
import { Repeater } from "./pace.js";
import { explain, shown } from "./problems.js";
import { read as readRoute, setOptions, toNode, toOverview } from "./route.js";
import { attach } from "./search.js";
import { count } from "./words.js";

const PENDING = 100;
const NODES_SECONDS = 2;
const COMMON = ["cpu", "memory", "pods"];
const collator = new Intl.Collator("en", { numeric: true });

let route = readRoute();
const option = (name) => route.options.get(name) ?? "";
const namespace = () => option("namespace");

// --- what is asked for -----------------------------------------------------------------------------------------------

const about = (source) => (problem) => setProblem(source, problem);

const cluster = new Repeater(async (signal) => {
  setCluster((await api.read({ resource: "clusterviews", name: "current", kind: "view" }, {}, signal)).status);
}, about("cluster"));

const nodes = new Repeater(
  async (signal) => {
    const intake = new NodeIntake();
    const reading = await api.readAll({ resource: "nodeviews" }, (items, rest) => intake.page(items, rest), signal);
    const began = performance.now();
    intake.end();
    note("berth-nodes-update", reading + performance.now() - began);
  },
  about("nodes"),
  { leastSeconds: NODES_SECONDS },
);

const pending = new Repeater(async (signal) => {
  const reason = option("reason");
  const query = { limit: String(PENDING), fieldSelector: reason ? `status.reason=${reason}` : "" };
  const list = await api.read({ resource: "explanations", namespace: namespace() }, query, signal);
  const rest = list.metadata.remainingItemCount ?? (list.metadata.continue ? 1 : 0);
  setPending(list.items, rest);
}, about("pending"));

const decisions = new Repeater(
  async (signal) => {
    let areFirst = true;
    const take = (events) => {
      setProblem("decisions", null);
      takeDecisions(events, areFirst);
      areFirst = false;
    };
    await api.watch({ resource: "decisions", namespace: namespace() }, take, signal);
  },
  about("decisions"),
  { rest: 0 },
);

/** Leaves how long an update took, for whoever measures; only the last one is kept. */
function note(name, duration) {
  performance.clearMeasures(name);
  performance.measure(name, { start: Math.max(0, performance.now() - duration), duration });
}

// --- the overview ----------------------------------------------------------------------------------------------------

const map = new HeatMap({
  container: byId("zones"),
  legend: byId("legend"),
  tip: byId("tip"),
  says: byId("cell"),
  open: (name) => (location.hash = toNode(name)),
});
const table = new NodeTable(byId("table"));

const resource = () => option("resource") || "cpu";

function drawNodes() {
  if (route.view !== "overview") {
    if (model.areNodesComplete) nodes.stop();
    return;
  }
  const isTable = option("form") === "table";
  byId("map").hidden = isTable;
  byId("table").hidden = !isTable;
  drawResources();
  if (isTable) {
    table.show([...model.nodes.values()], resource());
  } else {
    const ordered = [...model.nodes.values()].sort((left, right) => (left.name < right.name ? -1 : 1));
    map.show(ordered, resource(), model.areNodesComplete ? model.cluster?.zones : []);
  }
  if (model.nodes.size && !performance.getEntriesByName("berth-first-map").length) performance.mark("berth-first-map");
}

function drawResources() {
  const names = new Set(COMMON);
  for (const { name } of model.cluster?.resources ?? []) names.add(name);
  names.add(resource());
  const entries = [...names].map((name) => ({
    key: name,
    sign: String(name === resource()),
    make: () => {
      const input = h("input", { type: "radio", name: "resource", value: name, onchange: () => setOptions({ resource: name === "cpu" ? "" : name }) });
      input.checked = name === resource();
      return h("label", {}, input, name);
    },
  }));
  const legend = { key: "legend", sign: "", make: () => h("legend", { class: "unseen" }, "Resource") };
  patch(byId("resources"), [legend, ...entries]);
}

function drawCluster() {
  overview.drawLeader();
  overview.drawFacts();
  overview.drawStates();
  overview.drawReasons(option("reason"));
  overview.drawPolicies();
  overview.drawDecisions(); // their ages
  if (route.view === "overview") {
    const waiting = model.cluster?.pending ?? 0;
    document.title = waiting ? `${count(waiting)} pending · Berth` : "Berth";
  }
}

function drawPending() {
  overview.drawPending(option("reason"));
  const spaces = new Set(model.pending.map(({ metadata }) => metadata.namespace));
  for (const { metadata } of model.decisions) spaces.add(metadata.namespace);
  patch(byId("namespaces"), [...spaces].sort(collator.compare).map((name) => ({ key: name, sign: "", make: () => h("option", { value: name }) })));
}

// --- troubles --------------------------------------------------------------------------------------------------------

const PANELS = { cluster: "policies-trouble", nodes: "nodes-trouble", pending: "queue-trouble", decisions: "decisions-trouble" };

/** What concerns one panel is said there; what concerns everything is said once, at the top. */
function drawProblems() {
  const general = [...model.problems.values()].find((problem) => problem.status !== 403 && problem.status !== 404) ?? notInstalled();
  const [heading, wayOut] = general ? explain(general) : ["", ""];
  const key = `${heading} ${wayOut}`;
  patch(byId("troubles"), general ? [{ key, sign: key, make: () => shown(general) }] : []);
  for (const [source, id] of Object.entries(PANELS)) {
    const problem = model.problems.get(source);
    const isHere = problem && (problem.status === 403 || (problem.status === 404 && problem !== general));
    const sign = isHere ? `${problem.status} ${problem.message}` : "";
    patch(byId(id), isHere ? [{ key: source, sign, make: () => shown(problem) }] : []);
  }
}

const notInstalled = () => [...model.problems.values()].find((problem) => problem.status === 404 && !problem.asked.name);

// --- routes ----------------------------------------------------------------------------------------------------------

let detail = null;

function follow() {
  const before = route;
  route = readRoute();
  const isOverview = route.view === "overview";
  byId("overview").hidden = !isOverview;
  byId("detail").hidden = isOverview;
  detail?.stop();
  detail = null;
  setProblem("detail", null);
  if (isOverview) showOverview(before);
  else showDetail();
}

function showOverview(before) {
  byId("detail").replaceChildren();
  byId("namespace").value = namespace();
  for (const input of byId("forms").querySelectorAll("input")) input.checked = input.value === (option("form") || "map");
  restart(before);
  drawNodes();
  drawCluster();
  drawPending();
  if (before.view !== "overview") byId("main").focus({ preventScroll: true });
}

function showDetail() {
  pending.stop();
  if (model.areNodesComplete) nodes.stop(); // otherwise they are read once, for the search
  scrollTo(0, 0);
  document.title = `${route.name} · Berth`;
  detail = openDetail(route, byId("detail"), byId("says"), about("detail"));
  detail.start();
}

/** Asks again for what the address says otherwise than before. */
function restart(before) {
  const differs = (name) => (before.options.get(name) ?? "") !== option(name);
  nodes.start();
  pending.start();
  if (differs("namespace") || differs("reason")) pending.now();
  if (differs("namespace")) {
    clearDecisions();
    decisions.now();
  }
}

// --- the start -------------------------------------------------------------------------------------------------------

on("cluster", drawCluster);
on("nodes", drawNodes);
on("pending", drawPending);
on("decisions", overview.drawDecisions);
on("problems", drawProblems);

addEventListener("hashchange", follow);
byId("skip").addEventListener("click", () => byId("main").focus());
byId("namespace").addEventListener("change", (event) => {
  const name = event.target.value.trim();
  if (route.view === "overview") setOptions({ namespace: name });
  else location.hash = toOverview({ namespace: name });
});
byId("forms").addEventListener("change", (event) => setOptions({ form: event.target.value === "table" ? "table" : "" }));
attach(byId("search"), byId("found"), namespace);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target.matches("input, textarea, select");
  if (event.key === "/" && !isTyping) {
    event.preventDefault();
    byId("search").focus();
  } else if (event.key === "Escape" && !isTyping && route.view !== "overview") {
    location.hash = toOverview();
  }
});

cluster.start();
nodes.start();
decisions.start();
follow();
