// Elements. Text only ever becomes text: nothing that the API answers is read as markup.

/** Returns a new element. Attributes: functions are listeners (onclick), null and false leave an attribute out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Sets a text, if it is another one: a screen reader hears what has changed only. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Makes the children of an element those of `entries`: {key, sign, make}. A child whose sign is the same stays as it
 * is, so that focus, selection and the place of a screen reader survive an update.
 */
export function patch(parent, entries) {
  const before = new Map();
  for (const child of parent.children) before.set(child.dataset.key, child);
  const held = parent.contains(document.activeElement) ? heldKeys(document.activeElement, parent) : null;
  const after = entries.map(({ key, sign, make }) => {
    const old = before.get(key);
    if (old && old.berthSign === sign) return old;
    const child = make();
    child.dataset.key = key;
    child.berthSign = sign;
    return child;
  });
  if (after.length !== parent.children.length || after.some((child, i) => parent.children[i] !== child)) {
    parent.replaceChildren(...after);
    if (held) regain(parent, held);
  }
}

function heldKeys(focused, parent) {
  let child = focused;
  while (child.parentElement !== parent && child !== parent) child = child.parentElement;
  const inside = [...child.querySelectorAll("a, button, input")];
  return { key: child.dataset.key, place: inside.indexOf(focused) };
}

function regain(parent, held) {
  const child = [...parent.children].find((one) => one.dataset.key === held.key);
  if (!child) return;
  const target = held.place < 0 ? child : child.querySelectorAll("a, button, input")[held.place];
  target?.focus({ preventScroll: true });
}

/** A bar with its percentage in words; `percent` may be more than 100. */
export function bar(percent, label) {
  const fill = h("span", { class: "fill" });
  fill.style.inlineSize = `${Math.min(100, percent)}%`;
  return h("span", { class: percent > 100 ? "bar over" : "bar", role: "img", "aria-label": label }, fill);
}
