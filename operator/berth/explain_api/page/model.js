// What is known of the cluster, and who is told when that changes.

const MOST_DECISIONS = 1000;

const listeners = new Map();

export const model = {
  cluster: null, // the status of clusterviews/current
  nodes: new Map(), // by name
  nodesExpected: 0, // how many there will be once all pages have come
  areNodesComplete: false,
  pending: [], // explanations, the first page of them
  pendingRest: 0,
  isPendingKnown: false,
  decisions: [], // the latest first
  areDecisionsKnown: false,
  problems: new Map(), // by source
};

/** Calls back after each change of `what`: cluster, nodes, pending, decisions, problems. */
export function on(what, callback) {
  if (!listeners.has(what)) listeners.set(what, []);
  listeners.get(what).push(callback);
}

function tell(what) {
  for (const callback of listeners.get(what) ?? []) callback();
}

export function setCluster(status) {
  model.cluster = status;
  tell("cluster");
}

export function setPending(items, rest) {
  Object.assign(model, { pending: items, pendingRest: rest, isPendingKnown: true });
  tell("pending");
}

export function setProblem(source, problem) {
  const before = model.problems.get(source);
  if (!problem && !before) return;
  if (problem) model.problems.set(source, problem);
  else model.problems.delete(source);
  tell("problems");
}

// --- nodes -----------------------------------------------------------------------------------------------------------

/** Returns a node as the page needs it. `shares`: requested of allocatable by resource, in percent. */
export function toNode({ metadata, status }) {
  const shares = {};
  for (const { name, percent } of status.resources ?? []) shares[name] = percent;
  return {
    name: metadata.name,
    zone: status.zone ?? "",
    shares,
    resources: status.resources ?? [],
    pods: status.podCount ?? 0,
    isCordoned: Boolean(status.unschedulable),
    taints: status.taints ?? [],
  };
}

/** Takes the pages of a list of nodes one after another; what is in none of them is gone at the end. */
export class NodeIntake {
  #seen = new Set();

  page(items, rest) {
    for (const item of items) {
      const node = toNode(item);
      model.nodes.set(node.name, node);
      this.#seen.add(node.name);
    }
    model.nodesExpected = this.#seen.size + rest;
    if (!model.areNodesComplete) tell("nodes"); // the first time, show what is there already
  }

  end() {
    for (const name of model.nodes.keys()) if (!this.#seen.has(name)) model.nodes.delete(name);
    model.areNodesComplete = true;
    tell("nodes");
  }
}

// --- decisions -------------------------------------------------------------------------------------------------------

export function clearDecisions() {
  Object.assign(model, { decisions: [], areDecisionsKnown: false });
  tell("decisions");
}

/** Takes events of a watch; the first ones of a watch replace what is known. */
export function takeDecisions(events, areFirst) {
  if (areFirst) model.decisions = [];
  const gone = new Set();
  const fresh = [];
  for (const { type, object } of events) {
    if (type === "DELETED") gone.add(keyOf(object));
    else if (type === "ADDED" || type === "MODIFIED") fresh.push(object);
  }
  for (const object of fresh) gone.add(keyOf(object));
  const kept = model.decisions.filter((object) => !gone.has(keyOf(object)));
  model.decisions = [...fresh, ...kept].sort(latestFirst).slice(0, MOST_DECISIONS);
  model.areDecisionsKnown = true;
  tell("decisions");
}

const keyOf = ({ metadata }) => `${metadata.namespace}/${metadata.name}`;

/** The number behind the last dot of a name says in which order decisions were made. */
const numberOf = ({ metadata }) => parseInt(metadata.name.slice(metadata.name.lastIndexOf(".") + 1), 16) || 0;

function latestFirst(left, right) {
  return (right.status.time ?? "").localeCompare(left.status.time ?? "") || numberOf(right) - numberOf(left);
}
