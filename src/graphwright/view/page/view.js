// One canvas: a stage of a model, where it is looked at, which groups are open, and what is selected.

import {GROUP, NODE, ROOT} from "./model.js";
import {Scene} from "./scene.js";
import {Figures, figure_text, OVERLAYS} from "./overlay.js";
import {fills, paint, theme} from "./paint.js";

const LEAST_SCALE = 0.002, MOST_SCALE = 3, LEGIBLE = 0.5, CLEAR = 0.7;
const MARGIN = 24;
const MOST_OPENED = 60;
/** Of paper, in points of the page. */
const SHEET = {width: 800, height: 900, ratio: 2}, MOST_SHEETS = 8;

export class View {
  /**
   * @param {HTMLElement} frame @param {import("./model.js").Model} model
   * @param {(view: View, reference: number | null) => void} chosen called where a box is clicked
   */
  constructor(frame, model, chosen) {
    this.frame = frame;
    this.model = model;
    this.chosen = chosen;
    this.canvas = /** @type {HTMLCanvasElement} */ (frame.querySelector("canvas"));
    this.context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d", {alpha: false}));
    /** @type {Set<number>[]} Open groups of each stage. */
    this.open = model.stages.map(first_open);
    /** @type {({x: number, y: number, scale: number} | null)[]} Where each stage is looked at. */
    this.cameras = model.stages.map(() => null);
    this.index = 0;
    /** @type {number | null} */
    this.selected = null;
    /** @type {number[]} */
    this.linked = [];
    this.overlay = "op";
    this.painted = 0;
    this.prints = false;
    /** @type {HTMLCanvasElement[]} Behind the first one, while the page is printed. */
    this.sheets = [];
    this.waits = false;
    this.colors = theme();
    this.size = {width: 1, height: 1, ratio: 1};
    this.listen();
    this.measure();
  }

  get stage() {
    return this.model.stages[this.index];
  }

  get camera() {
    return this.cameras[this.index] || {x: 0, y: 0, scale: 1};
  }

  /** Shows a stage; what comes from `sources` is marked. @param {number} index @param {Set<number> | null} sources */
  enter(index, sources) {
    this.index = index;
    this.selected = null;
    this.mark(sources);
    this.rebuild();
    if (!this.cameras[index]) this.fit(false);
  }

  /** Marks what comes from `sources`, beside what is selected. @param {Set<number> | null} sources */
  mark(sources) {
    this.linked = sources ? this.stage.from(sources).filter((reference) => reference !== this.selected) : [];
    this.redraw();
  }

  rebuild() {
    this.scene = new Scene(this.stage, this.open[this.index]);
    this.recolor();
  }

  /** @param {string} overlay */
  recolor(overlay = this.overlay) {
    this.overlay = overlay;
    this.colors = theme();
    this.figures = overlay === "op" || overlay === "layout" ? null : new Figures(this.model, this.stage, overlay);
    this.fills = fills(this.scene, overlay, this.figures, this.colors);
    const most = this.figures ? `; darkest: ${figure_text(overlay, this.figures.most)}` : "";
    /** @type {HTMLElement} */ (this.frame.querySelector(".legend")).textContent =
      `${this.model.label(this.index)}. Color: ${OVERLAYS[overlay]}${most}`;
    this.redraw();
  }

  redraw() {
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => { this.waits = false; this.paint(); });
  }

  paint() {
    if (!this.scene || this.prints) return;
    paint(this.context, this.scene, this.camera, this.size, this.look_of_boxes());
    if (!this.painted++) performance.mark("graph");
  }

  /** Colors, and what is marked; names stand out on the dark colors of numbers. */
  look_of_boxes() {
    const {fills, colors, scene} = this;
    const selected = this.selected === null ? -1 : scene.box_of(this.selected);
    const linked = new Set(this.linked.map((reference) => scene.box_of(reference)));
    return {fills, colors, below: this.figures ? colors.text : colors.quiet, selected, linked};
  }

  // -- where it is looked at

  look(x, y, scale) {
    this.cameras[this.index] = {x, y, scale};
    this.redraw();
  }

  /** Shows all; what would be illegible is shown from its top on, unless `whole`. */
  fit(whole = true) {
    const {width, height} = this.size;
    const across = (width - 2 * MARGIN) / Math.max(1, this.scene.width);
    const down = (height - 2 * MARGIN) / Math.max(1, this.scene.height);
    let scale = Math.min(1, across, down);
    if (!whole) scale = Math.max(scale, Math.min(LEGIBLE, across));
    scale = Math.max(scale, LEAST_SCALE);
    const x = (this.scene.width - width / scale) / 2;
    const y = this.scene.height * scale > height ? -MARGIN / scale : (this.scene.height - height / scale) / 2;
    this.look(x, y, scale);
  }

  zoom(factor, x = this.size.width / 2, y = this.size.height / 2) {
    const {x: left, y: top, scale} = this.camera;
    const next = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, scale * factor));
    this.look(left + x / scale - x / next, top + y / scale - y / next, next);
  }

  center(reference) {
    const box = this.scene.boxes[this.scene.box_of(reference)];
    if (!box) return;
    const {width, height} = this.size, scale = Math.max(this.camera.scale, CLEAR);
    const middle = box.y + Math.min(box.height, height / scale) / 2;
    this.look(box.x + box.width / 2 - width / scale / 2, middle - height / scale / 2, scale);
  }

  /** Opens the groups around a node or group, and brings it to the middle. */
  reveal(reference) {
    const open = this.open[this.index], before = open.size;
    for (const group of this.stage.path(reference)) open.add(group);
    if (open.size !== before) this.rebuild();
    this.center(reference);
  }

  // -- groups

  /** Opens or closes a group, whose top stays where it is. */
  toggle(group) {
    const open = this.open[this.index], before = this.scene.boxes[this.scene.box_of(~group)];
    if (open.has(group)) open.delete(group);
    else open.add(group);
    this.rebuild();
    const after = this.scene.boxes[this.scene.box_of(~group)], {x, y, scale} = this.camera;
    if (before && after) {
      this.look(x + after.x + after.width / 2 - before.x - before.width / 2, y + after.y - before.y, scale);
    }
  }

  open_all(wanted) {
    this.open[this.index] = new Set(wanted ? this.stage.groups.map((_, number) => number).slice(1) : []);
    this.rebuild();
    this.fit(false);
  }

  // -- steps from box to box

  /** What the first edge from the selected box leads to; from nothing the first box. @param {"above" | "below"} direction */
  next(direction) {
    const {boxes, neighbors} = this.scene;
    const from = this.selected === null ? -1 : this.scene.box_of(this.selected);
    const found = from < 0 ? boxes.findIndex(is_box) : neighbors[from][direction].find((k) => is_box(boxes[k]));
    return found === undefined || found < 0 ? null : boxes[found].reference;
  }

  /** The nearest box of the same row. @param {number} direction */
  beside(direction) {
    const from = this.selected === null ? undefined : this.scene.boxes[this.scene.box_of(this.selected)];
    if (!from) return null;
    const middle = from.y + from.height / 2;
    const row = this.scene.boxes.filter((box) => is_box(box) && box.group === from.group
      && Math.abs(box.y + box.height / 2 - middle) < 1 && (box.x - from.x) * direction > 0);
    const [found] = row.sort((a, b) => (a.x - b.x) * direction);
    return found ? found.reference : null;
  }

  // -- the pointer

  listen() {
    const held = new Map();
    let moved = 0;
    const place = (event) => ({x: event.offsetX, y: event.offsetY});
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      held.set(event.pointerId, place(event));
      moved = 0;
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const before = held.get(event.pointerId), now = place(event);
      if (!before) return;
      const other = [...held.entries()].find(([id]) => id !== event.pointerId);
      if (other) this.pinch(before, now, other[1]);
      else this.drag(before, now);
      moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
      held.set(event.pointerId, now);
    });
    const release = (event) => {
      if (held.delete(event.pointerId) && moved < 4 && event.type === "pointerup") {
        const box = this.box_at(place(event));
        this.chosen(this, box ? box.reference : null);
      }
    };
    this.canvas.addEventListener("pointerup", release);
    this.canvas.addEventListener("pointercancel", release);
    this.canvas.addEventListener("dblclick", (event) => {
      const box = this.box_at(place(event));
      if (box && box.kind === GROUP) this.toggle(~box.reference);
    });
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const {x, y, scale} = this.camera;
      if (event.shiftKey) this.look(x + event.deltaY / scale, y, scale);
      else this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    }, {passive: false});
    new ResizeObserver(() => { this.measure(); this.paint(); }).observe(this.frame);
  }

  drag(before, now) {
    const {x, y, scale} = this.camera;
    this.look(x - (now.x - before.x) / scale, y - (now.y - before.y) / scale, scale);
  }

  pinch(before, now, other) {
    const far = (a, b) => Math.hypot(a.x - b.x, a.y - b.y) || 1;
    this.zoom(far(now, other) / far(before, other), (now.x + other.x) / 2, (now.y + other.y) / 2);
  }

  box_at({x, y}) {
    const {x: left, y: top, scale} = this.camera;
    const box = this.scene.boxes[this.scene.at(left + x / scale, top + y / scale)];
    return box && is_box(box) ? box : undefined;
  }

  // -- size and print

  /** To the size of the frame; what is in the middle stays there. */
  measure() {
    if (this.prints) return;
    const ratio = Math.min(2, devicePixelRatio || 1), before = this.size.width;
    this.resize(Math.max(1, this.frame.clientWidth), Math.max(1, this.frame.clientHeight), ratio);
    for (const camera of this.cameras) if (camera) camera.x += (before - this.size.width) / 2 / camera.scale;
  }

  resize(width, height, ratio) {
    this.size = {width, height, ratio};
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
  }

  /** On paper: all that is open, in twice the resolution, in the colors of a light page, on as many sheets as it takes. */
  print(begins) {
    this.sheets.splice(0).forEach((sheet) => sheet.remove());
    this.prints = begins;
    this.recolor();
    if (begins) {
      this.canvas.width = SHEET.width * SHEET.ratio;
      this.canvas.height = SHEET.height * SHEET.ratio;
      this.paint_sheets();
    } else {
      this.measure();
      this.paint();
    }
  }

  /** The graph from its top on, in columns of the height of a sheet. */
  paint_sheets() {
    const {scene} = this, look = this.look_of_boxes();
    const {scale, columns, sheets} = sheets_for(scene.width + 2 * MARGIN, scene.height + 2 * MARGIN);
    const width = SHEET.width / columns, height = SHEET.height;
    for (let k = 0; k < sheets * columns; k++) {
      const canvas = k < columns ? this.canvas : this.sheet(Math.floor(k / columns));
      const x = (scene.width - width / scale) / 2, y = k * height / scale - MARGIN;
      const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", {alpha: false}));
      paint(context, scene, {x, y, scale}, {...SHEET, left: k % columns * width, width}, look);
    }
  }

  /** A canvas behind the first one. @param {number} number */
  sheet(number) {
    if (number > this.sheets.length) {
      const made = document.createElement("canvas");
      made.width = SHEET.width * SHEET.ratio;
      made.height = SHEET.height * SHEET.ratio;
      (this.sheets[this.sheets.length - 1] || this.canvas).after(made);
      this.sheets.push(made);
    }
    return this.sheets[number - 1];
  }
}

/**
 * The scale, the columns of a sheet and the sheets for a graph: legible, as long as it takes few sheets.
 * @param {number} width @param {number} height
 */
function sheets_for(width, height) {
  const whole = Math.min(1, SHEET.width / width, SHEET.height / height);
  let scale = Math.max(whole, Math.min(CLEAR, SHEET.width / width));
  for (;; scale *= 0.9) {
    const columns = Math.max(1, Math.floor(SHEET.width / (width * scale)));
    const slices = Math.max(1, Math.ceil(height * scale / SHEET.height - 1e-6));
    const sheets = Math.ceil(slices / columns);
    if (sheets <= MOST_SHEETS || scale <= whole) return {scale, columns: Math.min(columns, slices), sheets};
  }
}

const is_box = (box) => box.kind === NODE || box.kind === GROUP;

/** Scopes that are open at first: outer ones, as long as few boxes are shown. @param {import("./model.js").Stage} stage */
function first_open(stage) {
  const open = new Set();
  const pending = [ROOT];
  let shown = stage.groups[ROOT].items.length;
  while (pending.length) {
    const group = stage.groups[/** @type {number} */ (pending.shift())];
    for (const {kind, number} of group.items) {
      if (kind !== GROUP || stage.groups[number].node || group.repeats > 1) continue;
      const added = stage.groups[number].items.length;
      if (shown + added > MOST_OPENED) continue;
      shown += added;
      open.add(number);
      pending.push(number);
    }
  }
  return open;
}
