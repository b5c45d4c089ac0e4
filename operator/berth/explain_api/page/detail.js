// The view of one pod or one node, which is read again as long as it is shown.

import * as api from "./api.js";
import { h, patch, say } from "./dom.js";
import { explanation } from "./explanation.js";
import { model } from "./model.js";
import { nodeView } from "./node.js";
import { Repeater } from "./pace.js";
import { shown } from "./problems.js";
import { toOverview } from "./route.js";
import { plural, spaced } from "./words.js";

const SECONDS = 2;

/** Returns a Repeater that shows what the route names in `place`, and says in `says` what changes. */
export function openDetail(route, place, says, onProblem) {
  const isPod = route.view === "pod";
  const key = isPod ? `${route.namespace}/${route.name}` : route.name;
  const asked = isPod
    ? { resource: "explanations", namespace: route.namespace, name: route.name, kind: "pod" }
    : { resource: "nodeviews", name: route.name, kind: "node" };
  const node = route.options.get("node");
  const ask = (href) => (location.hash = href);

  const heading = (...rest) => [
    h("p", { class: "back" }, h("a", { href: toOverview() }, "Cluster")),
    h("h2", { id: "detail-title", tabindex: "-1" }, key),
    ...rest,
  ];
  place.replaceChildren();
  redraw(place, heading(h("p", { class: "note" }, "Reading…")));
  place.querySelector("h2").focus({ preventScroll: true });

  return new Repeater(
    async (signal) => {
      const found = await api.read(asked, { node }, signal);
      redraw(place, (isPod ? explanation(found, node, ask) : nodeView(found, model.decisions)).filter(Boolean));
      say(says, isPod ? `${key}: ${spaced(found.status.state)}` : `${key}: ${plural(found.status.podCount ?? 0, "pod")}`);
    },
    (problem) => {
      const isAbout = problem?.status === 403 || problem?.status === 404;
      onProblem(isAbout ? null : problem);
      if (isAbout) redraw(place, heading(shown(problem)));
    },
    { leastSeconds: SECONDS },
  );
}

/** Replaces the parts that say something else now, so that one in which somebody types or selects stays. */
function redraw(place, elements) {
  const times = new Map();
  patch(
    place,
    elements.map((element) => {
      const name = `${element.tagName} ${element.className} ${element.querySelector("h3")?.textContent ?? ""}`;
      times.set(name, (times.get(name) ?? 0) + 1);
      return { key: `${name} ${times.get(name)}`, sign: element.textContent, make: () => element };
    }),
  );
}
