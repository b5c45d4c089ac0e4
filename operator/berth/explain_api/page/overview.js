// The panels of the cluster: numbers, queue, decisions, policies.

import { bar, byId, h, patch, say } from "./dom.js";
import { model } from "./model.js";
import { setOptions, toNode, toPod } from "./route.js";
import { age, amount, count, plural, spaced, tone, wait } from "./words.js";

const MOST_PENDING_ROWS = 50;
const MOST_DECISION_ROWS = 30;

// --- numbers ---------------------------------------------------------------------------------------------------------

export function drawLeader() {
  const { cluster } = model;
  const element = byId("leader");
  if (!cluster) return;
  element.dataset.tone = cluster.leads ? "good" : "bad";
  say(element, cluster.leads ? `${cluster.replica || "this replica"} leads` : `${cluster.replica || "this replica"} stands by`);
}

export function drawFacts() {
  const { cluster } = model;
  if (!cluster) return;
  const rates = cluster.rates ?? {};
  const cordoned = cluster.unschedulableNodes ? `${count(cluster.unschedulableNodes)} cordoned` : "";
  const facts = [
    ["Nodes", count(cluster.nodes), cordoned],
    ["Pods on nodes", count(cluster.pods), cluster.assumedPods ? `${count(cluster.assumedPods)} being bound` : ""],
    ["Pending", count(cluster.pending), ""],
    ["Decisions", `${(rates.decisionsPerSecond ?? 0).toFixed(1)}/s`, rates.seconds ? `last ${Math.round(rates.seconds)} s` : ""],
    ["Median wait", wait(rates.medianWaitSeconds) || "–", ""],
    ...(cluster.resources ?? []).slice(0, 2).map((one) => [one.name === "cpu" ? "CPU" : spaced(one.name), `${one.percent} %`, `${amount(one.name, one.free)} free`, one.percent]),
  ];
  patch(
    byId("facts"),
    facts.map(([name, value, note, percent]) => ({
      key: name,
      sign: `${value} ${note}`,
      make: () =>
        h(
          "div",
          {},
          h("dt", {}, name),
          h("dd", {}, h("b", {}, value), note ? h("small", {}, note) : null, percent === undefined ? null : bar(percent, `${percent} percent`)),
        ),
    })),
  );
}

// --- queue -----------------------------------------------------------------------------------------------------------

export function drawStates() {
  const states = model.cluster?.queue ?? [];
  say(byId("queue-states"), states.map(({ state, pods }) => `${count(pods)} ${spaced(state).toLowerCase()}`).join(", "));
}

export function drawReasons(chosen) {
  const reasons = model.cluster?.reasons ?? [];
  const most = Math.max(1, ...reasons.map((one) => one.pods));
  patch(
    byId("reasons"),
    reasons.map(({ reason, pods }) => ({
      key: reason,
      sign: `${pods} ${most} ${chosen === reason}`,
      make: () => {
        const attributes = { type: "button", "aria-pressed": String(chosen === reason), onclick: () => setOptions({ reason: chosen === reason ? "" : reason }) };
        const length = h("span", { class: "length" });
        length.style.inlineSize = `${(100 * pods) / most}%`;
        return h("li", {}, h("button", attributes, length, h("span", {}, spaced(reason)), h("b", {}, count(pods))));
      },
    })),
  );
}

export function drawPending(reason) {
  const rows = model.pending.slice(0, MOST_PENDING_ROWS);
  const now = Date.now();
  patch(
    byId("pending"),
    rows.map(({ metadata, status }) => {
      const why = status.reason || status.state;
      const since = age(status.since, now);
      return {
        key: `${metadata.namespace}/${metadata.name}`,
        sign: JSON.stringify([why, status.state, since, status.attempts]),
        make: () =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, podLink(metadata.namespace, metadata.name)),
            h("td", {}, h("span", { class: "badge", "data-tone": tone(status.state), title: status.message }, spaced(why))),
            h("td", { class: "number" }, since),
            h("td", { class: "number roomy" }, count(status.attempts)),
          ),
      };
    }),
  );
  say(byId("pending-note"), pendingNote(rows.length, reason));
}

function pendingNote(shown, reason) {
  if (!model.isPendingKnown) return "";
  const of = reason ? ` for ${spaced(reason).toLowerCase()}` : "";
  if (!shown) return reason ? `No pod is pending${of}.` : "No pod is pending.";
  const rest = model.pending.length - shown + model.pendingRest;
  return rest > 0 ? `The first ${shown}${of}, by namespace and name; ${count(rest)} more.` : "";
}

/** Returns a link to a pod's explanation. */
export function podLink(namespace, name) {
  return h("a", { href: toPod(namespace, name) }, h("span", { class: "namespace" }, `${namespace}/`), name);
}

// --- decisions -------------------------------------------------------------------------------------------------------

export function drawDecisions() {
  const now = Date.now();
  patch(byId("decided"), model.decisions.slice(0, MOST_DECISION_ROWS).map((one) => decisionRow(one, now)));
  const isEmpty = model.areDecisionsKnown && !model.decisions.length;
  say(byId("decisions-note"), isEmpty ? "None is remembered yet." : "as they are made");
}

function decisionRow({ metadata, status }, now) {
  const old = age(status.time, now);
  const score = status.total === undefined ? "only one" : count(status.total);
  const ahead = status.runnerUpNodeName ? `${status.runnerUpNodeName} had ${status.runnerUpTotal}` : null;
  return {
    key: `${metadata.namespace}/${metadata.name}`,
    sign: old,
    make: () =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, podLink(metadata.namespace, status.podName)),
        h("td", {}, h("a", { href: toNode(status.nodeName) }, status.nodeName)),
        h("td", { class: "roomy" }, status.policy?.name ?? ""),
        h("td", { class: "number roomy" }, `${count(status.nodesFeasible)} of ${count(status.nodesEvaluated)}`),
        h("td", { class: "number roomy", title: ahead }, score),
        h("td", { class: "number" }, wait(status.waitedSeconds)),
        h("td", { class: "number" }, old),
      ),
  };
}

// --- policies --------------------------------------------------------------------------------------------------------

const OUTCOMES = [
  ["same", "same node"],
  ["different", "another node"],
  ["gained", "placed, where the active policy found no node"],
  ["unplaced", "not placed, where the active policy found a node"],
  ["skipped", "not looked at"],
];

export function drawPolicies() {
  const policies = model.cluster?.policies ?? [];
  say(byId("policies-note"), model.cluster ? `${count(policies.length)} in force` : "");
  patch(
    byId("policy-list"),
    policies.map((policy) => ({ key: policy.name, sign: JSON.stringify(policy), make: () => policyEntry(policy) })),
  );
}

function policyEntry({ name, generation, schedulerName, mode, placed, pending, shadow }) {
  const isShadow = mode === "Shadow";
  return h(
    "div",
    { class: "policy" },
    h(
      "p",
      {},
      h("b", {}, name),
      " ",
      h("span", { class: "badge", "data-tone": isShadow ? "plain" : "good" }, mode),
      h("small", {}, ` for ${schedulerName}, generation ${generation}`),
    ),
    isShadow ? null : h("p", { class: "note" }, `${plural(placed ?? 0, "pod")} placed, ${count(pending)} pending`),
    shadow ? shadowBar(shadow) : isShadow ? h("p", { class: "note" }, "It has not judged any pod yet.") : null,
  );
}

function shadowBar(shadow) {
  const there = OUTCOMES.filter(([name]) => shadow[name]);
  const parts = there.map(([name, text]) => {
    const part = h("span", { class: `part ${name}`, title: `${count(shadow[name])} ${text}` });
    part.style.flexGrow = shadow[name];
    return part;
  });
  const words = there.map(([name, text]) => h("li", {}, h("i", { class: `part ${name}` }), h("b", {}, count(shadow[name])), ` ${text}`));
  return h("div", {}, h("div", { class: "parts", "aria-hidden": "true" }, parts), h("ul", { class: "outcomes", "aria-label": "What it would have done" }, words));
}
