// How often the page asks: at most once a second, less where an answer takes long, not at all while nobody looks.

const LEAST_SECONDS = 1;
const REST = 9; // a pause as a multiple of how long the answer took: a tenth of the time at most
const LONGEST_SECONDS = 30;

const all = new Set();

/** Does something again and again. `work(signal)` returns a promise; `onProblem` gets what it throws, null if nothing. */
export class Repeater {
  #work;
  #onProblem;
  #least;
  #rest;
  #timer = 0;
  #abort = null;
  #failures = 0;
  #running = false;

  /** `rest` is 0 for what takes long because it waits, as a watch does. */
  constructor(work, onProblem, { leastSeconds = LEAST_SECONDS, rest = REST } = {}) {
    this.#work = work;
    this.#onProblem = onProblem;
    this.#least = Math.max(LEAST_SECONDS, leastSeconds);
    this.#rest = rest;
  }

  /** Begin, unless that is done. */
  start() {
    if (this.#running) return;
    this.#running = true;
    all.add(this);
    this.now();
  }

  stop() {
    this.#running = false;
    all.delete(this);
    this.pause();
  }

  pause() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#abort = null;
  }

  /** Do it now: something else is asked for. */
  now() {
    this.pause();
    if (this.#running && !document.hidden) this.#run();
  }

  async #run() {
    const abort = (this.#abort = new AbortController());
    const began = performance.now();
    let pause = 0;
    try {
      await this.#work(abort.signal);
      if (abort.signal.aborted) return;
      this.#failures = 0;
      this.#onProblem(null);
      pause = Math.min(LONGEST_SECONDS, Math.max(this.#least, (this.#rest * (performance.now() - began)) / 1000));
    } catch (error) {
      if (abort.signal.aborted || error.name === "AbortError") return;
      if (error.status === undefined) console.error(error);
      this.#onProblem(error);
      pause = Math.min(LONGEST_SECONDS, Math.max(error.retrySeconds || 0, 2 ** this.#failures));
      this.#failures = Math.min(5, this.#failures + 1);
    }
    this.#timer = setTimeout(() => this.now(), pause * 1000);
  }
}

document.addEventListener("visibilitychange", () => {
  for (const one of all) document.hidden ? one.pause() : one.now();
});
