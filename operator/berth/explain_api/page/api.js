// Requests: GET only, to the API below which this page lies.

import { Problem } from "./problems.js";

const ROOT = new URL("../", location.href.split("#")[0]);
const PAGE = 500;

/** What a request is about: {resource, namespace, name, kind}; `kind` is a word for people. */
function address({ resource, namespace, name }, query) {
  const parts = [...(namespace ? ["namespaces", namespace] : []), resource, ...(name ? [name] : [])];
  const url = new URL(parts.map(encodeURIComponent).join("/"), ROOT);
  for (const [key, value] of Object.entries(query ?? {})) if (value) url.searchParams.set(key, value);
  return url;
}

async function send(asked, query, signal) {
  let response;
  try {
    response = await fetch(address(asked, query), { signal, headers: { Accept: "application/json" }, redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "", asked);
  }
  if (response.ok) return response;
  const text = await response.text().catch(() => "");
  let message = text.slice(0, 300);
  try {
    message = JSON.parse(text).message ?? message;
  } catch {
    // A proxy on the way answers with plain text.
  }
  throw new Problem(response.status, message, asked, Number(response.headers.get("Retry-After")) || 0);
}

async function body(response, asked) {
  try {
    return await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "", asked);
  }
}

/** Returns an object or a list. */
export async function read(asked, query, signal) {
  return JSON.parse(await body(await send(asked, query, signal), asked));
}

/** Hands over every page of a list as {items, rest}, and returns the milliseconds that reading the texts took. */
export async function readAll(asked, onPage, signal) {
  let token = "";
  let milliseconds = 0;
  do {
    const text = await body(await send(asked, { limit: String(PAGE), continue: token }, signal), asked);
    const began = performance.now();
    const list = JSON.parse(text);
    onPage(list.items, list.metadata.remainingItemCount ?? 0);
    milliseconds += performance.now() - began;
    token = list.metadata.continue ?? "";
  } while (token);
  return milliseconds;
}

/** Hands over the events of a watch, those that arrived together at once, until it ends. Some come at the start always. */
export async function watch(asked, onEvents, signal) {
  const query = { watch: "true", sendInitialEvents: "true", allowWatchBookmarks: "true", resourceVersionMatch: "NotOlderThan" };
  const response = await send(asked, query, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new Problem(0, "", asked);
    });
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    const events = lines.filter(Boolean).map((line) => JSON.parse(line));
    if (events.length) onEvents(events);
  }
}
