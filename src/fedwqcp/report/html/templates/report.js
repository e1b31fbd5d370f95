// Filters of the page: which view, which agents. The address holds the selection, so
// that a link shows the same.
"use strict";
(() => {
  const state = { view: "0", agents: new Set(), at: "" };
  const each = (root, selector, act) => root.querySelectorAll(selector).forEach(act);
  const current = () => document.querySelector(".view:not([hidden])");

  const toggle = (agent) => {
    if (!state.agents.delete(agent)) state.agents.add(agent);
  };

  const remember = () => {
    const words = new URLSearchParams({ view: state.view });
    if (state.agents.size) words.set("agents", JSON.stringify([...state.agents]));
    if (state.at) words.set("at", state.at);
    history.replaceState(null, "", `#${words}`);
  };

  // What an address asks for; whatever is not on this page is left out by `open`.
  const recall = () => {
    const words = new URLSearchParams(location.hash.slice(1));
    const section = document.getElementById(words.get("at") ?? location.hash.slice(1));
    state.at = section && section.closest(".view") ? section.id : "";
    try { state.agents = new Set([].concat(JSON.parse(words.get("agents") ?? "[]"))); } catch { /* of another page */ }
    const asked = words.get("view") ?? (state.at ? section.closest(".view").dataset.view : "0");
    return document.querySelector(`.view[data-view="${CSS.escape(asked)}"]`) ? asked : "0";
  };

  // Numbers by their size, from the first number in a cell; everything else by its letters.
  const value = (cell) => {
    const text = cell.textContent.trim().replace(/(?<=\d),(?=\d{3})/g, "");
    const number = text.startsWith("infinite") ? Infinity : parseFloat(text);
    return { text, number };
  };
  const sort = (button) => {
    const head = button.closest("th");
    const down = head.getAttribute("aria-sort") === "ascending";
    const body = button.closest("table").tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, ...value(row.cells[Number(button.dataset.sort)]) }));
    const numbers = rows.every((one) => !Number.isNaN(one.number));
    rows.sort((a, b) => (numbers ? a.number - b.number || 0 : a.text.localeCompare(b.text)));
    if (down) rows.reverse();
    each(head.parentNode, "th", (other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...rows.map((one) => one.row));
  };

  const apply = () => {
    const view = current();
    const shown = (agent) => !state.agents.size || state.agents.has(agent);
    each(view, "[data-pick-agent]", (e) => {
      e.setAttribute("aria-pressed", state.agents.has(e.dataset.pickAgent));
    });
    each(view, "[data-all]", (e) => { e.hidden = !state.agents.size; });
    each(view, "[data-agent]", (e) => { e.hidden = !shown(e.dataset.agent); });
    remember();
  };

  const open = (number) => {
    state.view = String(number);
    each(document, ".view", (e) => { e.hidden = e.dataset.view !== String(number); });
    each(document, "[data-view-button]", (e) => {
      e.setAttribute("aria-pressed", e.dataset.viewButton === String(number));
    });
    const view = current();
    const names = [...view.querySelectorAll("[data-pick-agent]")].map((e) => e.dataset.pickAgent);
    state.agents = new Set([...state.agents].filter((agent) => names.includes(agent)));
    apply();
    document.documentElement.dataset.drawn = number;
  };

  document.addEventListener("click", (event) => {
    const link = event.target.closest(".toc a");
    if (link) {
      event.preventDefault();
      state.at = link.hash.slice(1);
      document.getElementById(state.at).scrollIntoView();
      remember();
      return;
    }
    const button = event.target.closest("button");
    if (!button) return;
    const { viewButton, pickAgent, all, sort: column } = button.dataset;
    if (column !== undefined) { sort(button); return; }
    if (viewButton !== undefined) { state.at = ""; open(viewButton); return; }
    if (pickAgent !== undefined) toggle(pickAgent);
    if (all !== undefined) state.agents.clear();
    apply();
  });
  const select = document.getElementById("view");
  if (select) select.addEventListener("change", () => { state.at = ""; open(select.value); });
  const start = () => {
    const number = recall();
    if (select) select.value = number;
    open(number);
    if (state.at) document.getElementById(state.at).scrollIntoView();
  };
  window.addEventListener("hashchange", start);
  start();
})();
