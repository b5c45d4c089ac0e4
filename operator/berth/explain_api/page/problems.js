// What went wrong, in plain words, and the way out.

import { h } from "./dom.js";

/** A request that was not answered as it should be. `status` is 0 if there was no answer at all. */
export class Problem extends Error {
  constructor(status, message, asked, retrySeconds = 0) {
    super(message);
    this.status = status;
    this.asked = asked;
    this.retrySeconds = retrySeconds;
  }
}

const CLUSTER = new Set(["nodeviews", "clusterviews"]);

const said = {
  0: () => ["No connection", "Is berth ui, or kubectl proxy, still running? Start it again; this page goes on by itself, unless berth ui gave it a new address."],
  401: () => ["Not logged in", "The API server does not accept your credentials. Log in again, then restart berth ui or kubectl proxy."],
  403: (problem) => CLUSTER.has(problem.asked.resource)
    ? ["You may not see nodes and the cluster", "Ask an administrator to bind the ClusterRole berth-explain-cluster-view to you. Pods of your own namespaces you can see without it: enter a namespace above."]
    : problem.asked.namespace
      ? [`You may not see pods of namespace ${problem.asked.namespace}`, "Enter a namespace in which you have the role view, or ask its owner for it."]
      : ["You may not see all namespaces", "Enter a namespace of yours above: with the role view there you see its pods."],
  404: (problem) => problem.asked.name
    ? [`There is no ${problem.asked.kind} ${problem.asked.name}`, problem.asked.kind === "pod" ? "It is gone, it has finished, or the name is another one." : "It is gone, or the name is another one."]
    : ["The API of explanations is not installed", "Install Berth's chart with explanations.enabled=true."],
  429: () => ["Too many requests", "The page asks less often for a while."],
  502: () => ["The API server cannot be reached", "Check that the cluster is up and that this machine reaches it. The page goes on by itself."],
  503: () => ["Berth does not answer", "A new leader may be taking over, which takes some seconds. If it lasts: kubectl get apiservice v1alpha1.explain.berth.dev -o yaml says why."],
};

/** Returns a heading and the way out. */
export function explain(problem) {
  const known = said[problem.status] ?? (problem.status >= 500 ? said[503] : null);
  return known ? known(problem) : [`The request failed (${problem.status})`, problem.message];
}

/** Returns the problem as an element. */
export function shown(problem) {
  const [heading, wayOut] = explain(problem);
  const detail = problem.message && problem.status ? h("p", { class: "note" }, problem.message) : null;
  return h("div", { class: "trouble" }, h("p", { class: "trouble-head" }, heading), h("p", {}, wayOut), detail);
}
