// Search over nodes and pods: those that are known here, and any pod by its namespace and name.

import { h } from "./dom.js";
import { model } from "./model.js";
import { toNode, toPod } from "./route.js";

const MOST = 8;

/** Returns what a text finds: {kind, text, href}. */
export function find(text, namespace) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const nodes = [];
  for (const name of model.nodes.keys()) {
    if (name.includes(wanted)) nodes.push({ kind: "node", text: name, href: toNode(name) });
    if (nodes.length >= MOST) break;
  }
  const pods = new Map();
  const known = [
    ...model.pending.map(({ metadata }) => [metadata.namespace, metadata.name]),
    ...model.decisions.map(({ metadata, status }) => [metadata.namespace, status.podName]),
  ];
  for (const [space, name] of known) {
    const key = `${space}/${name}`;
    if (pods.size < MOST && key.includes(wanted)) pods.set(key, { kind: "pod", text: key, href: toPod(space, name) });
  }
  const [space, name, more] = wanted.includes("/") ? wanted.split("/") : [namespace, wanted];
  const key = `${space}/${name}`;
  const isName = space && name && more === undefined && !pods.has(key);
  const direct = isName ? [{ kind: "pod", text: key, note: "by its name", href: toPod(space, name) }] : [];
  return [...nodes, ...pods.values(), ...direct];
}

/** The combobox. `namespace()` is the one that is chosen, "" for all. */
export function attach(input, list, namespace) {
  let found = [];
  let active = -1;

  function draw() {
    const isOpen = input.value.trim() !== "" && document.activeElement === input;
    list.hidden = !isOpen;
    input.setAttribute("aria-expanded", String(isOpen));
    const options = found.map(({ kind, text, note }, i) =>
      h("li", { id: `found-${i}`, role: "option", "aria-selected": String(i === active), onpointerdown: (event) => choose(event, i) }, h("small", {}, kind), text, note ? h("small", {}, note) : null),
    );
    const none = h("li", { class: "note", role: "option", "aria-disabled": "true", "aria-selected": "false" }, "Nothing known by this name. Any pod: namespace/name");
    list.replaceChildren(...(options.length ? options : [none]));
    if (active >= 0) input.setAttribute("aria-activedescendant", `found-${active}`);
    else input.removeAttribute("aria-activedescendant");
  }

  function choose(event, i) {
    event.preventDefault();
    if (!found[i]) return;
    location.hash = found[i].href;
    input.value = "";
    input.blur();
  }

  function look() {
    found = find(input.value, namespace());
    active = found.length ? 0 : -1;
    draw();
  }

  input.addEventListener("input", look);
  input.addEventListener("focus", look);
  input.addEventListener("blur", draw);
  input.addEventListener("keydown", (event) => {
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && found.length) {
      event.preventDefault();
      active = (active + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length;
      draw();
    } else if (event.key === "Enter") {
      choose(event, active);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      if (input.value) input.value = "";
      else input.blur();
      look();
    }
  });
}
