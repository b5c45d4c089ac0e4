// Nodes as a table: sorted by any column, a hundred at a time.

import { bar, h, patch } from "./dom.js";
import { toNode } from "./route.js";
import { amount, count } from "./words.js";

const ROWS = 100;
const collator = new Intl.Collator("en", { numeric: true });

export class NodeTable {
  #head = h("tr");
  #body = h("tbody");
  #note = h("p", { class: "note" });
  #pages = h("div", { class: "pages" });
  #sorted = { by: "share", descending: true };
  #page = 0;
  #nodes = [];
  #resource = "cpu";

  constructor(container) {
    const caption = h("caption", { class: "unseen" }, "Nodes");
    const table = h("table", { class: "rows" }, caption, h("thead", {}, this.#head), this.#body);
    container.replaceChildren(table, h("div", { class: "panel-foot" }, this.#note, this.#pages));
    const button = (text, move) => h("button", { type: "button", onclick: () => this.#turn(move) }, text);
    this.#pages.append(button("Previous", -1), button("Next", 1));
  }

  show(nodes, resource) {
    this.#nodes = nodes;
    this.#resource = resource;
    this.#draw();
  }

  #columns() {
    return [
      { by: "name", text: "Node", value: (node) => node.name, isText: true },
      { by: "zone", text: "Zone", value: (node) => node.zone, isText: true, isRoomy: true },
      { by: "share", text: this.#resource, value: (node) => node.shares[this.#resource] ?? -1 },
      { by: "free", text: "Free", value: null },
      { by: "pods", text: "Pods", value: (node) => node.pods },
    ];
  }

  #draw() {
    const { by, descending } = this.#sorted;
    const column = this.#columns().find((one) => one.by === by);
    const compare = column.isText ? (a, b) => collator.compare(column.value(a), column.value(b)) : (a, b) => column.value(a) - column.value(b);
    const ordered = [...this.#nodes].sort((a, b) => (descending ? -compare(a, b) : compare(a, b)) || collator.compare(a.name, b.name));
    const last = Math.max(0, Math.ceil(ordered.length / ROWS) - 1);
    this.#page = Math.min(this.#page, last);
    const from = this.#page * ROWS;
    patch(this.#head, this.#columns().map((one) => this.#heading(one)));
    patch(this.#body, ordered.slice(from, from + ROWS).map((node) => this.#row(node)));
    this.#note.textContent = `${count(ordered.length ? from + 1 : 0)} to ${count(Math.min(ordered.length, from + ROWS))} of ${count(ordered.length)} nodes`;
    const [previous, next] = this.#pages.children;
    previous.disabled = this.#page === 0;
    next.disabled = this.#page === last;
    this.#pages.hidden = last === 0;
  }

  #heading({ by, text, value, isText, isRoomy }) {
    const isSorted = this.#sorted.by === by;
    const direction = this.#sorted.descending ? "descending" : "ascending";
    const arrow = isSorted ? (this.#sorted.descending ? " ↓" : " ↑") : "";
    const make = () => {
      const attributes = { scope: "col", class: isRoomy ? "roomy" : isText ? null : "number", "aria-sort": isSorted ? direction : null };
      const button = () => h("button", { type: "button", onclick: () => this.#sort(by, !isText) }, text, h("span", { "aria-hidden": "true" }, arrow));
      return h("th", attributes, value ? button() : text);
    };
    return { key: by, sign: `${text} ${isSorted} ${direction}`, make };
  }

  #sort(by, descendingFirst) {
    const isSame = this.#sorted.by === by;
    this.#sorted = { by, descending: isSame ? !this.#sorted.descending : descendingFirst };
    this.#page = 0;
    this.#draw();
  }

  #turn(move) {
    this.#page = Math.max(0, this.#page + move);
    this.#draw();
  }

  #row(node) {
    const room = node.resources.find((one) => one.name === this.#resource);
    const share = room ? `${room.percent} %` : "none";
    const make = () =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, h("a", { href: toNode(node.name) }, node.name), node.isCordoned ? h("span", { class: "badge" }, "cordoned") : null),
        h("td", { class: "roomy" }, node.zone || "–"),
        h("td", { class: "number" }, room ? bar(room.percent, `${room.percent} percent`) : null, h("span", { class: "percent" }, share)),
        h("td", { class: "number" }, room ? amount(room.name, room.free) : "–"),
        h("td", { class: "number" }, count(node.pods)),
      );
    return { key: node.name, sign: JSON.stringify([node.zone, room, node.pods, node.isCordoned]), make };
  }
}
