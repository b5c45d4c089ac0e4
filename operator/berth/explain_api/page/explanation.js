// A pod's explanation: why it is pending, or why it is on its node, and what would help.

import { h } from "./dom.js";
import { toNode, toOverview, toPod } from "./route.js";
import { age, count, plural, spaced, tone } from "./words.js";

/** Returns the elements that show an explanation; `node` is the one whose verdicts were asked for. */
export function explanation({ metadata, status }, node, ask) {
  const { namespace, name } = metadata;
  return [
    h("p", { class: "back" }, h("a", { href: toOverview() }, "Cluster")),
    h("h2", { id: "detail-title", tabindex: "-1" }, h("span", { class: "namespace" }, `${namespace}/`), name, " ", h("span", { class: "badge", "data-tone": tone(status.state) }, spaced(status.state))),
    h("p", { class: "lead" }, sentence(status.message)),
    facts(status),
    ...(status.notes ?? []).map((note) => h("p", { class: "note" }, note)),
    advice(status.advice),
    reasons(status.reasons, status.nodes),
    outlook(status),
    choice(status.choice),
    verdicts(status, namespace, name, node, ask),
    retried(status.retriedOn),
    kubectl(`kubectl describe why ${name} -n ${namespace}`, status.schedulerMessage === status.message ? "" : status.schedulerMessage),
  ];
}

/** Returns a text with a capital and a full stop; a name at its beginning stays as it is. */
function sentence(text) {
  if (!text) return "";
  const begun = /^[a-z]+[ ,:]/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

/** A section with a heading. */
export const part = (title, ...children) => h("section", { class: "panel" }, h("h3", {}, title), ...children);

/** A list of names and values; what is empty is left out. */
export function definitions(pairs) {
  const known = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return h("dl", { class: "pairs" }, known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export const nodeLink = (name) => (name ? h("a", { href: toNode(name) }, name) : null);

/** Pods that are written as namespace/name. */
export function podNames(keys) {
  return keys.flatMap((key, i) => {
    const [namespace, name] = key.split("/");
    return [i ? ", " : "", name ? h("a", { href: toPod(namespace, name) }, key) : key];
  });
}

/** The same question for a terminal. */
export function kubectl(command, message) {
  return h("section", { class: "terminal", "aria-label": "In a terminal" }, h("code", {}, command), message ? h("p", { class: "note" }, message) : null);
}

function facts(status) {
  const { policy } = status;
  const next = status.nextTry ? Math.ceil((Date.parse(status.nextTry) - Date.now()) / 1000) : null;
  return definitions([
    ["Node", nodeLink(status.nodeName)],
    ["Nominated node", nodeLink(status.nominatedNodeName)],
    ["Policy", policy ? `${policy.name}, generation ${policy.generation}` : null],
    ["Scheduler name", status.schedulerName],
    ["Did you mean", status.didYouMean],
    ["Priority", count(status.priority)],
    ["In this state for", status.since ? h("time", { datetime: status.since, title: status.since }, age(status.since)) : null],
    ["Attempts", status.attempts === undefined ? null : count(status.attempts)],
    ["Place in the queue", status.placeInQueue === undefined ? null : count(status.placeInQueue)],
    ["Tried again", next === null ? null : next > 0 ? `in ${age(new Date(Date.now() - next * 1000))} at the latest` : "now"],
    ["Waits for", status.waitsFor?.join(", ")],
  ]);
}

// --- why it is pending -----------------------------------------------------------------------------------------------

function advice(entries) {
  if (!entries?.length) return null;
  const items = entries.map((one) =>
    h(
      "li",
      {},
      h("p", {}, h("b", {}, sentence(one.message))),
      h("ul", { class: "changes" }, (one.changes ?? []).map(change)),
      one.victims?.length ? h("p", { class: "note" }, "Once these are preempted: ", ...podNames(one.victims)) : null,
    ),
  );
  return part("What would help", h("p", { class: "note" }, "Each of these has been tried: any one of them is enough."), h("ol", { class: "advice" }, items));
}

function change({ field, before, after }) {
  const parts = [h("code", {}, field), " "];
  if (before) parts.push(h("del", {}, before), " ");
  parts.push(after ? h("ins", {}, after) : h("span", { class: "note" }, "removed"));
  return h("li", {}, parts);
}

function reasons(entries, nodes) {
  if (!entries?.length) return null;
  const ordered = [...entries].sort((left, right) => right.nodes - left.nodes);
  return part(
    "Why no node fits",
    h("ul", { class: "why" }, ordered.map((one) => reason(one, nodes))),
  );
}

function reason({ code, plugin, message, nodes, nodesRejectedByNothingElse: alone, help, nearestMisses }, all) {
  const length = h("span", { class: "length" });
  length.style.inlineSize = `${(100 * nodes) / Math.max(all ?? nodes, nodes, 1)}%`;
  const misses = (nearestMisses ?? []).map((miss) => h("li", {}, nodeLink(miss.node), `: ${miss.message}`));
  return h(
    "li",
    {},
    h("p", { class: "why-head" }, length, h("b", {}, message), h("span", {}, all ? `${count(nodes)} of ${plural(all, "node")}` : plural(nodes, "node"))),
    h("p", { class: "note" }, `${plugin}, ${code}`, alone ? `; nothing else is against ${plural(alone, "of them", "of them")}` : ""),
    help ? h("p", {}, sentence(help)) : null,
    misses.length ? h("details", { open: true }, h("summary", {}, "Nearest misses"), h("ul", { class: "misses" }, misses)) : null,
  );
}

const OUTLOOKS = { Fits: "It fits now", NotNow: "Not now, but when pods leave", Never: "Never, as it is" };

function outlook({ prospect, preemption }) {
  if (!prospect && !preemption) return null;
  return part(
    OUTLOOKS[prospect?.outlook] ?? "Preemption",
    prospect ? h("p", {}, sentence(prospect.message)) : null,
    definitions([
      ["Nodes that could", prospect?.examples?.length ? prospect.examples.flatMap((name, i) => [i ? ", " : "", nodeLink(name)]) : null],
      [preemption?.helps ? "Preemption helps" : "Preemption does not help", preemption ? sentence(preemption.message) : null],
      ["Victims", preemption?.victims?.length ? podNames(preemption.victims) : null],
    ].map(([name, value]) => [name, Array.isArray(value) ? h("span", {}, value) : value])),
  );
}

function retried(events) {
  return events?.length ? part("What brings it back", h("p", { class: "events" }, events.map((event) => h("code", {}, event)))) : null;
}

// --- why it is there -------------------------------------------------------------------------------------------------

const EVIDENCE = { Recorded: "as recorded at the decision", JudgedAgain: "judged again now, as if the pod were not there" };

function choice(chosen) {
  if (!chosen) return null;
  const found = [chosen.chosen, ...(chosen.others ?? [])].filter(Boolean);
  const of = chosen.evaluated ? `${count(chosen.feasible)} of ${plural(chosen.evaluated, "node")} fitted; ` : "";
  return part("Why this node", h("p", {}, sentence(chosen.message)), h("p", { class: "note" }, of, EVIDENCE[chosen.evidence] ?? ""), found.some((node) => node.scores?.length) ? scores(found, chosen.nodeName) : null);
}

function scores(nodes, chosen) {
  const plugins = [...new Map(nodes.flatMap((node) => node.scores ?? []).map((one) => [one.plugin, one.weight]))];
  const head = h("tr", {}, h("th", { scope: "col" }, "Plugin"), nodes.map((node) => h("th", { scope: "col", class: "number" }, nodeLink(node.nodeName), node.nodeName === chosen ? h("span", { class: "badge", "data-tone": "good" }, "chosen") : null)));
  const rows = plugins.map(([plugin, weight]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, plugin, weight === undefined ? null : h("small", {}, ` × ${weight}`)),
      nodes.map((node) => {
        const found = node.scores?.find((one) => one.plugin === plugin);
        return h("td", { class: "number" }, found ? count(found.points) : "–");
      }),
    ),
  );
  const total = h("tr", { class: "total" }, h("th", { scope: "row" }, "Total"), nodes.map((node) => h("td", { class: "number" }, count(node.total))));
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Scores by plugin" }, h("table", { class: "rows" }, h("caption", { class: "unseen" }, "Points by plugin and node"), h("thead", {}, head), h("tbody", {}, rows), h("tfoot", {}, total)));
}

// --- one node --------------------------------------------------------------------------------------------------------

function verdicts(status, namespace, name, node, ask) {
  const input = h("input", { id: "verdict-node", type: "text", value: node ?? "", placeholder: "name of a node", autocomplete: "off", spellcheck: "false" });
  const submit = (event) => {
    event.preventDefault();
    ask(toPod(namespace, name, { node: input.value.trim() }));
  };
  const form = h("form", { class: "ask", onsubmit: submit }, h("label", { for: "verdict-node" }, "What do the plugins say of node"), input, h("button", { type: "submit" }, "Ask"));
  return part("One node", form, (status.verdicts ?? []).map(verdict), node && !status.verdicts?.length ? h("p", { class: "note" }, `There are no verdicts on ${node}.`) : null);
}

function verdict({ nodeName, fits, plugins }) {
  const rows = (plugins ?? []).map((one) => h("tr", {}, h("th", { scope: "row" }, one.plugin), h("td", {}, one.status), h("td", {}, (one.messages ?? []).join(", "))));
  const head = h("tr", {}, ["Plugin", "Verdict", "Reason"].map((text) => h("th", { scope: "col" }, text)));
  return h("div", {}, h("p", {}, nodeLink(nodeName), " ", h("span", { class: "badge", "data-tone": fits ? "good" : "bad" }, fits ? "fits" : "does not fit")), rows.length ? h("table", { class: "rows" }, h("caption", { class: "unseen" }, `Verdicts on ${nodeName}`), h("thead", {}, head), h("tbody", {}, rows)) : null);
}
