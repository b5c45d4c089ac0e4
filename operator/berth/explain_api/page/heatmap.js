// The heat map: a canvas for each zone, a cell for each node, as dark as the node is full. Drawing 5,000 cells takes a
// few milliseconds. Who does not see it has the same in words: the cell with the focus is said, and there is a table.

import { h, say } from "./dom.js";
import { amount, count, plural } from "./words.js";

const MOST_ZONES = 24;
const NO_ZONE = "no zone";
const STEPS = 10;
const PITCHES = [[120, 28], [400, 20], [1200, 15], [3000, 11], [Infinity, 9]]; // up to so many nodes, so many pixels a cell
const collator = new Intl.Collator("en", { numeric: true });

/** Returns in which of the steps of the legend a share is; -1 if it is more than everything. */
export const step = (percent) => (percent > 100 ? -1 : Math.min(STEPS, Math.round(percent / STEPS)));

export class HeatMap {
  #container;
  #legend;
  #tip;
  #says;
  #open;
  #zones = new Map();
  #resource = "cpu";
  #pitch = 14;

  /** `open(name)` is called when a node is chosen. */
  constructor({ container, legend, tip, says, open }) {
    this.#container = container;
    this.#legend = legend;
    this.#tip = tip;
    this.#says = says;
    this.#open = open;
    this.#makeLegend();
    new ResizeObserver(() => this.draw()).observe(container);
    document.addEventListener("themechange", () => this.draw());
  }

  #makeLegend() {
    const swatches = Array.from({ length: STEPS + 1 }, (_, i) => h("i", { class: `heat heat-${i}` }));
    this.#legend.replaceChildren(
      h("span", {}, "0 %"),
      h("span", { class: "ramp" }, swatches),
      h("span", {}, "100 %"),
      h("i", { class: "heat heat-over" }),
      h("span", {}, "more"),
      h("i", { class: "heat cordoned" }),
      h("span", {}, "cordoned"),
      h("i", { class: "heat none" }),
      h("span", {}, "has none"),
    );
  }

  /** Shows the nodes; `zones` has the numbers of clusterviews/current, if they are known. */
  show(nodes, resource, zones = []) {
    this.#resource = resource;
    this.#pitch = PITCHES.find(([most]) => nodes.length <= most)[1];
    const groups = group(nodes);
    for (const [name, zone] of this.#zones) {
      if (!groups.has(name)) {
        zone.section.remove();
        this.#zones.delete(name);
      }
    }
    let before = null;
    for (const [name, members] of groups) {
      const zone = this.#zones.get(name) ?? this.#addZone(name);
      zone.nodes = members;
      zone.title(members, resource, zones.find((one) => (one.zone || NO_ZONE) === name));
      if (before ? before.nextSibling !== zone.section : this.#container.firstChild !== zone.section) {
        before ? before.after(zone.section) : this.#container.prepend(zone.section);
      }
      before = zone.section;
    }
    this.draw();
  }

  #addZone(name) {
    const zone = new Zone(name, this.#tip, this.#says, this.#open);
    this.#zones.set(name, zone);
    return zone;
  }

  draw() {
    const width = this.#container.clientWidth;
    if (!width) return;
    const colours = this.#colours();
    for (const zone of this.#zones.values()) zone.draw(width, this.#pitch, this.#resource, colours);
  }

  /** The legend has the colours of the theme: what is drawn is what it shows. */
  #colours() {
    const ramp = [...this.#legend.querySelectorAll(".ramp .heat")].map((one) => getComputedStyle(one).backgroundColor);
    const of = (name, property) => getComputedStyle(this.#legend.querySelector(name))[property];
    return {
      ramp,
      over: of(".heat-over", "backgroundColor"),
      line: of(".none", "borderTopColor"),
      stroke: of(".cordoned", "color"),
      focus: getComputedStyle(this.#container).color,
    };
  }
}

/** Returns nodes by zone, in the order of names; of very many zones the smallest are put together. */
function group(nodes) {
  const groups = new Map();
  for (const node of nodes) {
    const name = node.zone || NO_ZONE;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(node);
  }
  let names = [...groups.keys()];
  if (names.length > MOST_ZONES) {
    names.sort((left, right) => groups.get(right).length - groups.get(left).length);
    const rest = names.slice(MOST_ZONES - 1);
    groups.set(`${rest.length} other zones`, rest.flatMap((name) => groups.get(name)));
    for (const name of rest) groups.delete(name);
    names = [...groups.keys()];
  }
  names.sort(collator.compare);
  return new Map(names.map((name) => [name, groups.get(name)]));
}

class Zone {
  #name;
  #tip;
  #says;
  #heading = h("h3");
  #canvas;
  #columns = 1;
  #pitch = 1;
  #resource = "cpu";
  #focused = 0;
  #redraw = () => {};
  nodes = [];
  section;

  constructor(name, tip, says, open) {
    this.#name = name;
    this.#tip = tip;
    this.#says = says;
    this.#canvas = h("canvas", {
      tabindex: "0",
      role: "application",
      "aria-roledescription": "heat map",
      onkeydown: (event) => this.#key(event, open),
      onfocus: () => this.#look(),
      onblur: () => this.#redraw(),
      onpointermove: (event) => this.#point(event),
      onpointerleave: () => (this.#tip.hidden = true),
      onclick: (event) => {
        const node = this.nodes[this.#at(event)];
        this.#tip.hidden = true;
        if (node) open(node.name);
      },
    });
    this.section = h("section", { class: "zone" }, this.#heading, this.#canvas);
  }

  title(nodes, resource, known) {
    const whole = known?.resources?.find((one) => one.name === resource);
    const text = whole ? `, ${resource} ${whole.percent} %, ${amount(resource, whole.free)} free` : "";
    const small = `${plural(nodes.length, "node")}${text}`;
    if (this.#heading.dataset.text === small) return;
    this.#heading.dataset.text = small;
    this.#heading.replaceChildren(this.#name, " ", h("small", {}, small));
    this.#canvas.setAttribute("aria-label", `${this.#name}, ${small}. Arrow keys move, Enter opens a node.`);
  }

  draw(width, pitch, resource, colours) {
    this.#redraw = () => this.draw(width, pitch, resource, colours);
    this.#pitch = pitch;
    this.#resource = resource;
    this.#columns = Math.max(1, Math.floor((width + 1) / pitch));
    const rows = Math.ceil(this.nodes.length / this.#columns);
    const scale = devicePixelRatio || 1;
    const height = rows * pitch;
    const [pixelsAcross, pixelsDown] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.#canvas.width !== pixelsAcross || this.#canvas.height !== pixelsDown) {
      this.#canvas.width = pixelsAcross;
      this.#canvas.height = pixelsDown;
      this.#canvas.style.height = `${height}px`;
    }
    const context = this.#canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    this.#cells(context, colours);
    if (document.activeElement === this.#canvas) this.#ring(context, colours);
  }

  #cells(context, colours) {
    const [pitch, columns] = [this.#pitch, this.#columns];
    const size = pitch - (pitch > 12 ? 2 : 1);
    context.lineWidth = pitch > 12 ? 1.5 : 1;
    for (let i = 0; i < this.nodes.length; i++) {
      const node = this.nodes[i];
      const x = (i % columns) * pitch;
      const y = Math.floor(i / columns) * pitch;
      const percent = node.shares[this.#resource];
      if (percent === undefined) {
        context.strokeStyle = colours.line;
        context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
      } else {
        const at = step(percent);
        context.fillStyle = at < 0 ? colours.over : colours.ramp[at];
        context.fillRect(x, y, size, size);
      }
      if (node.isCordoned) {
        context.strokeStyle = colours.stroke;
        context.beginPath();
        context.moveTo(x + 1, y + size - 1);
        context.lineTo(x + size - 1, y + 1);
        context.stroke();
      }
    }
  }

  #ring(context, colours) {
    const x = (this.#focused % this.#columns) * this.#pitch;
    const y = Math.floor(this.#focused / this.#columns) * this.#pitch;
    context.strokeStyle = colours.focus;
    context.lineWidth = 2;
    context.strokeRect(x, y, this.#pitch - 1, this.#pitch - 1);
  }

  #at(event) {
    const box = this.#canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.#pitch);
    if (column >= this.#columns || column < 0) return -1;
    return Math.floor((event.clientY - box.top) / this.#pitch) * this.#columns + column;
  }

  #point(event) {
    const node = this.nodes[this.#at(event)];
    this.#tip.hidden = !node;
    this.#canvas.style.cursor = node ? "pointer" : "";
    if (!node) return;
    say(this.#tip, describe(node, this.#resource));
    const left = Math.min(event.clientX + 12, innerWidth - this.#tip.offsetWidth - 8);
    this.#tip.style.transform = `translate(${Math.max(4, left)}px, ${event.clientY + 16}px)`;
  }

  #key(event, open) {
    const last = this.nodes.length - 1;
    const moves = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: this.#columns,
      ArrowUp: -this.#columns,
      Home: -last - 1,
      End: last + 1,
    };
    if (event.key in moves) {
      const wanted = this.#focused + moves[event.key];
      const isEdge = event.key === "Home" || event.key === "End";
      if (isEdge) this.#focused = Math.max(0, Math.min(last, wanted));
      else if (wanted >= 0 && wanted <= last) this.#focused = wanted;
      event.preventDefault();
      this.#look();
    } else if ((event.key === "Enter" || event.key === " ") && this.nodes[this.#focused]) {
      event.preventDefault();
      open(this.nodes[this.#focused].name);
    }
  }

  #look() {
    this.#focused = Math.max(0, Math.min(this.nodes.length - 1, this.#focused));
    const node = this.nodes[this.#focused];
    if (node) say(this.#says, describe(node, this.#resource));
    this.#redraw();
  }
}

/** Returns a node in a few words, the resource that is shown first. */
export function describe(node, resource) {
  const first = node.shares[resource] === undefined ? `no ${resource}` : `${resource} ${node.shares[resource]} %`;
  const others = ["cpu", "memory"].filter((name) => name !== resource && node.shares[name] !== undefined);
  const rest = others.map((name) => `${name} ${node.shares[name]} %`);
  const words = [first, ...rest, `${count(node.pods)} pods`, ...(node.isCordoned ? ["cordoned"] : [])];
  return `${node.name}: ${words.join(", ")}`;
}
