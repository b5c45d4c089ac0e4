// Addresses: everything that is looked at is in the part behind #, so that it can be sent to somebody.
//
//   #/                        the cluster          ?namespace=  ?resource=  ?form=table  ?reason=
//   #/pod/NAMESPACE/NAME      a pod                ?node=NAME asks for the verdicts on a node
//   #/node/NAME               a node

export function read(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map(decode);
  const options = new URLSearchParams(query);
  if (parts[0] === "pod" && parts[1] && parts[2]) return { view: "pod", namespace: parts[1], name: parts[2], options };
  if (parts[0] === "node" && parts[1]) return { view: "node", name: parts[1], options };
  return { view: "overview", options };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const encode = (path, options = {}) => {
  const given = Object.entries(options).filter(([, value]) => value);
  const query = new URLSearchParams(given).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
};

export const toOverview = (options) => encode([], options);
export const toNode = (name) => encode(["node", name]);
export const toPod = (namespace, name, options) => encode(["pod", namespace, name], options);

/** Changes options of the overview, which is the same page: nothing is added to the history. */
export function setOptions(changes) {
  const { options } = read();
  const merged = { ...Object.fromEntries(options), ...changes };
  history.replaceState(null, "", toOverview(merged));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
