// A node's view: room, pods by policy, what it rejects, what was placed on it lately.

import { bar, h } from "./dom.js";
import { definitions, kubectl, part, podNames } from "./explanation.js";
import { podLink } from "./overview.js";
import { toOverview } from "./route.js";
import { age, amount, count, plural } from "./words.js";

const MOST_DECISIONS = 20;

/** Returns the elements that show a node; `decisions` are those that are known. */
export function nodeView({ metadata, status }, decisions) {
  const { name } = metadata;
  const placed = decisions.filter((one) => one.status.nodeName === name).slice(0, MOST_DECISIONS);
  return [
    h("p", { class: "back" }, h("a", { href: toOverview() }, "Cluster")),
    h("h2", { id: "detail-title", tabindex: "-1" }, name, status.unschedulable ? [" ", h("span", { class: "badge", "data-tone": "bad" }, "cordoned")] : null),
    definitions([
      ["Zone", status.zone || "none"],
      ["Pods", `${count(status.podCount)}${status.assumedPods ? `, ${count(status.assumedPods)} of them being bound` : ""}`],
      ["Pods by policy", (status.pods ?? []).map(({ policy, count: number }) => `${policy} ${count(number)}`).join(", ")],
      ["Taints", status.taints?.length ? h("span", { class: "events" }, status.taints.map((taint) => h("code", {}, taint))) : "none"],
      ["Room is being made for", status.nominatedPods?.length ? h("span", {}, podNames(status.nominatedPods)) : null],
    ]),
    part("Room", room(status.resources ?? [])),
    rejected(status.rejects),
    placed.length ? part("Placed here lately", h("ul", { class: "plain" }, placed.map(placement))) : null,
    kubectl(`kubectl describe nodeview ${name}`),
  ];
}

function room(resources) {
  const head = h("tr", {}, ["Resource", "Requested", "Allocatable", "Free", "Used"].map((text, i) => h("th", { scope: "col", class: i ? "number" : null }, text)));
  const rows = resources.map((one) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, one.name),
      [one.requested, one.allocatable, one.free].map((exact) => h("td", { class: "number", title: exact }, amount(one.name, exact))),
      h("td", { class: "number" }, bar(one.percent, `${one.percent} percent`), h("span", { class: "percent" }, `${one.percent} %`)),
    ),
  );
  return h("table", { class: "rows" }, h("caption", { class: "unseen" }, "Room by resource"), h("thead", {}, head), h("tbody", {}, rows));
}

function rejected(entries) {
  if (!entries?.length) return part("Pending pods that it rejects", h("p", { class: "note" }, "None of the pods that were tried last."));
  const items = entries.map(({ pod, plugin, message }) => {
    const [namespace, name] = pod.split("/");
    return h("li", {}, podLink(namespace, name), `: ${message} `, h("small", {}, `(${plugin})`));
  });
  return part("Pending pods that it rejects", h("p", { class: "note" }, `${plural(entries.length, "pod")}, one of each kind, the latest that were tried.`), h("ul", { class: "plain" }, items));
}

const placement = ({ metadata, status }) => h("li", {}, podLink(metadata.namespace, status.podName), h("small", {}, ` ${age(status.time)} ago`));
