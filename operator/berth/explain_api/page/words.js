// How numbers, times and states are written.

const number = new Intl.NumberFormat("en");

export const count = (value) => number.format(value ?? 0);

export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const inBytes = (resource) => resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-");
const digits = (value) => (value < 10 ? number.format(Math.floor(value * 100) / 100) : value < 100 ? number.format(Math.floor(value * 10) / 10) : number.format(Math.floor(value)));

/** Returns a quantity as the API writes it for people: 446187m cpu as 446, 2512199680Ki as 2.33Ti; never more than it is. */
export function amount(resource, quantity) {
  const found = /^(\d+)(m|[KMGTPE]i)?$/.exec(quantity ?? "");
  if (!found) return quantity ?? "";
  const value = Number(found[1]);
  if (!inBytes(resource)) return found[2] === "m" ? (value < 1000 ? quantity : digits(value / 1000)) : found[2] ? quantity : count(value);
  const bytes = value * 1024 ** BINARY.indexOf(found[2] ?? "");
  const power = bytes ? Math.min(BINARY.length - 1, Math.floor(Math.log2(bytes) / 10)) : 0;
  return digits(bytes / 1024 ** power) + BINARY[power];
}

/** Returns a number of seconds as kubectl writes ages: 12s, 3m, 5h, 2d. */
export function short(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 120) return `${whole}s`;
  if (whole < 120 * 60) return `${Math.floor(whole / 60)}m`;
  if (whole < 48 * 3600) return `${Math.floor(whole / 3600)}h`;
  return `${Math.floor(whole / 86400)}d`;
}

/** Returns how long ago a moment was; "" without one. */
export function age(moment, now = Date.now()) {
  return moment ? short((now - Date.parse(moment)) / 1000) : "";
}

/** Returns a wait with as many digits as matter: 4 ms, 0.32 s, 12 s, 3m. */
export function wait(seconds) {
  if (seconds === undefined || seconds === null) return "";
  if (seconds < 0.1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(2)} s`;
  return seconds < 120 ? `${Math.round(seconds)} s` : short(seconds);
}

/** Returns InsufficientResource as "Insufficient resource". */
export function spaced(code) {
  const text = String(code ?? "").replace(/([a-z])([A-Z])/g, (_, left, right) => `${left} ${right.toLowerCase()}`);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const GOOD = new Set(["Bound", "Binding"]);
const BAD = new Set(["Unschedulable", "Invalid", "NotServed"]);

/** Returns what colour a state has; its name is always beside it. */
export const tone = (state) => (GOOD.has(state) ? "good" : BAD.has(state) ? "bad" : "plain");
