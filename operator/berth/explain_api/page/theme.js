// Light or dark: as the system has it, until the switch says otherwise. No module: it runs before anything is drawn.
"use strict";
(() => {
  const KEY = "berth-theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem(KEY);
  } catch {
    // Storage may be forbidden: then a choice lasts as long as the page.
  }

  const isDark = () => (chosen ? chosen === "dark" : system.matches);

  function apply() {
    root.dataset.theme = isDark() ? "dark" : "light";
    const button = document.getElementById("theme");
    if (button) {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
    }
    document.dispatchEvent(new CustomEvent("themechange"));
  }

  function toggle() {
    const wanted = isDark() ? "light" : "dark";
    chosen = (wanted === "dark") === system.matches ? null : wanted; // back to what the system has: follow it again
    try {
      if (chosen) localStorage.setItem(KEY, chosen);
      else localStorage.removeItem(KEY);
    } catch {
      // See above.
    }
    apply();
  }

  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", toggle);
    apply();
  });
})();
