// The page: one view or two side by side, the details of what is selected, search, and keys.

import {Model} from "./model.js";
import {OVERLAYS, is_known} from "./overlay.js";
import {words} from "./paint.js";
import {Details, element} from "./details.js";
import {View} from "./view.js";

const STEP = 1.25;
const KEYS = {
  "/": "search; Enter shows the next match",
  "[ ]": "the stage before, the next one",
  "Arrows": "the box above, below, beside",
  "Enter": "open or close a group",
  "e, c": "open all groups, close all",
  "+ \u2212 0": "zoom in, out, show all",
  "Esc": "select nothing",
  "?": "these keys",
};

/** @param {string} id @returns {any} */
const by_id = (id) => document.getElementById(id);

class Page {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    const chosen = (view, reference) => this.select(view, reference);
    this.view = new View(by_id("view"), model, chosen);
    this.other = new View(by_id("other"), model, chosen);
    /** The view that keys work on. */
    this.active = this.view;
    this.details = new Details(by_id("details"), model, (index, reference) => this.show(index, reference));
    /** @type {Set<number> | null} Source nodes of what is selected. */
    this.sources = null;
    this.found = {text: "", next: 0};
    this.make_controls();
    this.listen();
    this.enter(model.starts[0]);
    this.compare(model.starts.length > 1 ? model.starts[1] : -1);
  }

  get painted() {
    return this.view.painted;
  }

  // -- what is shown

  enter(index) {
    this.active = this.view;
    this.view.enter(index, this.sources);
    by_id("stages").querySelectorAll("button").forEach((button, k) => button.setAttribute("aria-selected", String(k === index)));
    if (this.sources === null) this.details.overview(index);
    this.say(`Stage ${this.model.label(index)}`);
  }

  /** Shows a stage; what was selected is marked there where it went. @param {number} index */
  switch(index) {
    if (index < 0 || index >= this.model.stages.length || index === this.view.index) return;
    this.enter(index);
    if (this.view.linked.length) this.view.reveal(this.view.linked[0]);
  }

  /** Shows a second stage beside the first; -1 is none. @param {number} index */
  compare(index) {
    by_id("other").hidden = index < 0;
    by_id("compare").value = String(index);
    this.active = this.view;
    if (index < 0) return;
    this.other.measure();
    this.other.enter(index, this.sources);
    if (this.other.linked.length) this.other.reveal(this.other.linked[0]);
  }

  /** Selects a node or group, and shows where it is; in the other view if that shows its stage. */
  show(index, reference) {
    const beside = !by_id("other").hidden && this.other.index === index;
    const view = beside ? this.other : this.view;
    if (!beside && view.index !== index) this.enter(index);
    view.reveal(reference);
    this.select(view, reference);
  }

  /** @param {View} view @param {number | null} reference */
  select(view, reference) {
    this.active = view;
    const beside = view === this.view ? this.other : this.view;
    this.sources = reference === null ? null : view.stage.sources(reference);
    view.selected = reference;
    view.mark(this.sources);
    beside.selected = null;
    beside.mark(this.sources);
    if (!by_id("other").hidden && beside.linked.length) beside.reveal(beside.linked[0]);
    if (reference === null) this.details.overview(view.index);
    else {
      this.details.select(view.index, reference);
      this.say(`${view.stage.title(reference)} ${view.stage.name_of(reference)}`);
    }
  }

  /** To a box that a key leads to. @param {number | null} reference */
  go(reference) {
    if (reference === null) return;
    this.select(this.active, reference);
    this.active.center(reference);
  }

  /** What a screen reader says. @param {string} text */
  say(text) {
    by_id("said").textContent = text;
  }

  // -- search

  /** Shows the next match of a text. @param {string} text */
  search(text) {
    if (text !== this.found.text) this.found = {text, next: 0};
    const matches = text ? this.matches(text.toLowerCase()) : [];
    by_id("matches").textContent = text ? `${matches.length} found` : "";
    if (!matches.length) return;
    const number = this.found.next % matches.length;
    this.found.next = number + 1;
    this.active.reveal(matches[number]);
    this.select(this.active, matches[number]);
    by_id("matches").textContent = `${number + 1} of ${matches.length}`;
  }

  /** Nodes and groups by name, op, or the name of a source node. @param {string} text */
  matches(text) {
    const {stage} = this.active, sources = new Set();
    this.model.sources.forEach((name, number) => { if (name.toLowerCase().includes(text)) sources.add(number); });
    const has = (node) => `${node.op}\n${node.name}`.toLowerCase().includes(text)
      || node.sources.some((source) => sources.has(source));
    const is_called = (group) => group.name.toLowerCase().includes(text);
    const groups = stage.groups.flatMap((group, number) => number && is_called(group) ? [~number] : []);
    const nodes = stage.nodes.flatMap((node, number) => has(node) ? [number] : []);
    return [...groups, ...nodes];
  }

  // -- controls

  make_controls() {
    const labels = this.model.stages.map((_, index) => this.model.label(index));
    by_id("stages").replaceChildren(...labels.map((label, index) =>
      element("button", {role: "tab", onclick: () => this.switch(index)}, label)));
    by_id("compare").replaceChildren(
      ...["none", ...labels].map((label, k) => element("option", {value: String(k - 1)}, label)));
    const known = Object.entries(OVERLAYS).filter(([name]) => is_known(this.model, name));
    by_id("overlay").replaceChildren(...known.map(([name, text]) => element("option", {value: name}, text)));
    by_id("keys").replaceChildren(
      ...Object.entries(KEYS).flatMap(([key, text]) => [element("dt", {}, key), element("dd", {}, text)]));
  }

  listen() {
    by_id("overlay").onchange = (event) => this.both((view) => view.recolor(event.target.value));
    by_id("compare").onchange = (event) => this.compare(Number(event.target.value));
    by_id("open-all").onclick = () => this.active.open_all(true);
    by_id("close-all").onclick = () => this.active.open_all(false);
    by_id("fit").onclick = () => this.active.fit();
    by_id("larger").onclick = () => this.active.zoom(STEP);
    by_id("smaller").onclick = () => this.active.zoom(1 / STEP);
    by_id("help-button").onclick = () => by_id("help").showModal();
    by_id("search").onkeydown = (event) => {
      if (event.key === "Enter") this.search(event.target.value.trim());
      if (event.key === "Escape") this.active.canvas.focus();
    };
    document.addEventListener("keydown", (event) => this.press(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.both((view) => view.recolor()));
    addEventListener("beforeprint", () => this.both((view) => view.print(true)));
    addEventListener("afterprint", () => this.both((view) => view.print(false)));
  }

  /** @param {(view: View) => void} action on each view that is seen */
  both(action) {
    action(this.view);
    if (!by_id("other").hidden) action(this.other);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || by_id("help").open) return;
    if (["INPUT", "SELECT"].includes(event.target.tagName)) return;
    if (event.key === "Enter" && ["BUTTON", "SUMMARY"].includes(event.target.tagName)) return;
    const action = this.actions()[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  /** What keys do. @returns {Object<string, () => void>} */
  actions() {
    const view = this.active, {selected} = view;
    return {
      "/": () => { by_id("search").focus(); by_id("search").select(); },
      "[": () => this.switch(this.view.index - 1),
      "]": () => this.switch(this.view.index + 1),
      "+": () => view.zoom(STEP),
      "=": () => view.zoom(STEP),
      "-": () => view.zoom(1 / STEP),
      "0": () => view.fit(),
      "e": () => view.open_all(true),
      "c": () => view.open_all(false),
      "?": () => by_id("help").showModal(),
      "Escape": () => this.select(view, null),
      "Enter": () => { if (selected !== null && selected < 0) view.toggle(~selected); },
      "ArrowUp": () => this.go(view.next("above")),
      "ArrowDown": () => this.go(view.next("below")),
      "ArrowLeft": () => this.go(view.beside(-1)),
      "ArrowRight": () => this.go(view.beside(1)),
    };
  }
}

const data = by_id("data");
const page = new Page(new Model(JSON.parse(data.textContent)));
data.remove();
/** For tests, and for those who write scripts. */
Object.assign(globalThis, {graphwright: {page, words}});
