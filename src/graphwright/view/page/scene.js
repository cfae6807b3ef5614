// What is on the canvas while some groups are open: boxes, frames of open groups, and edges between them.

import {GROUP, NODE, ROOT} from "./model.js";
import {displaced} from "./displacement.js";

export const HEADER = 24, PADDING = 14;

/** @typedef {{kind: number, reference: number, group: number, x: number, y: number, width: number, height: number, open: boolean, text: string}} Box */
/** @typedef {{from: number, to: number, points: number[], drawn: boolean, text: string, left: number, top: number, right: number, bottom: number}} Edge */

export class Scene {
  /** @param {import("./model.js").Stage} stage @param {Set<number>} open numbers of groups */
  constructor(stage, open) {
    this.stage = stage;
    this.open = open;
    /** @type {Box[]} */
    this.boxes = [];
    /** @type {Edge[]} */
    this.edges = [];
    /** @type {Map<number, number>} Which box shows a reference. */
    this.shown = new Map();
    const whole = this.measure(ROOT);
    this.width = whole.width;
    this.height = whole.height;
    this.place(ROOT, whole, 0, 0);
    this.neighbors = this.connect();
  }

  /** The size of an open group's contents, and of those that are open in it. @param {number} group */
  measure(group) {
    const {items, drawing} = this.stage.groups[group];
    const inner = new Map(), sizes = new Map();
    items.forEach((item, position) => {
      if (item.kind !== GROUP || !this.open.has(item.number)) return;
      const measured = this.measure(item.number);
      inner.set(position, measured);
      sizes.set(position, {width: measured.width + 2 * PADDING, height: measured.height + HEADER + 2 * PADDING});
    });
    return {...displaced(drawing, sizes), inner};
  }

  /** @param {number} group @param {any} measured @param {number} x @param {number} y */
  place(group, measured, x, y) {
    const {items, drawing, texts} = this.stage.groups[group];
    const positions = [];
    items.forEach((item, position) => {
      const {x: left, y: top, width, height} = measured.boxes[position];
      const open = measured.inner.has(position);
      const reference = item.kind === GROUP ? ~item.number : item.number;
      const box = {kind: item.kind, reference, group, x: x + left, y: y + top, width, height, open, text: item.text};
      positions.push(this.boxes.length);
      if (item.kind === NODE || item.kind === GROUP) this.shown.set(reference, this.boxes.length);
      this.boxes.push(box);
      if (open) this.place(item.number, measured.inner.get(position), box.x + PADDING, box.y + HEADER + PADDING);
    });
    drawing.routes.forEach(([tail, head, , drawn], k) => {
      const points = measured.routes[k].map((value, axis) => value + (axis % 2 ? y : x));
      this.edges.push(edge(positions[tail], positions[head], points, drawn === 1, texts[k]));
    });
  }

  /** Boxes that an edge leads to, by box. @returns {{above: number[], below: number[]}[]} */
  connect() {
    const found = this.boxes.map(() => ({above: [], below: []}));
    for (const {from, to} of this.edges) {
      found[from].below.push(to);
      found[to].above.push(from);
    }
    return found;
  }

  /** The innermost box at a place; -1 where there is none. @param {number} x @param {number} y */
  at(x, y) {
    for (let k = this.boxes.length - 1; k >= 0; k--) {
      const box = this.boxes[k];
      if (x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height) return k;
    }
    return -1;
  }

  /** The box that shows a reference, or the closed group that it is in; -1 for what is no part of it. @param {number} reference */
  box_of(reference) {
    const closed = this.stage.path(reference).find((group) => !this.open.has(group));
    const found = this.shown.get(closed === undefined ? reference : ~closed);
    return found === undefined ? -1 : found;
  }
}

/** @returns {Edge} */
function edge(from, to, points, drawn, text) {
  let left = Infinity, top = Infinity, right = -Infinity, bottom = -Infinity;
  for (let k = 0; k < points.length; k += 2) {
    left = Math.min(left, points[k]);
    right = Math.max(right, points[k]);
    top = Math.min(top, points[k + 1]);
    bottom = Math.max(bottom, points[k + 1]);
  }
  return {from, to, points, drawn, text, left, top, right, bottom};
}
