// Colors of boxes: by op, by layout, or by a number.

import {GROUP, NODE} from "./model.js";

/** @typedef {import("./model.js").Stage} Stage */
/** @typedef {import("./model.js").Model} Model */

const NAMES = [["op", "op"], ["layout", "layout"], ["bytes", "bytes read and written"],
  ["predicted_ns", "predicted time"], ["measured_ns", "measured time"], ["error", "error against f64"]];

/** What colors can show, by name. */
export const OVERLAYS = Object.fromEntries(NAMES);

/** Whether any node has the figure. @param {Model} model @param {string} overlay */
export function is_known(model, overlay) {
  if (overlay === "op") return true;
  const has = (node) => overlay === "layout" ? node.layout !== "" : overlay in node.figures;
  return model.stages.some((stage) => stage.nodes.some(has) || stage.groups.some((group) => group.node && has(group.node)));
}

/** A number by reference, and the largest one of a node. A time is that of the tasks that come from it. */
export class Figures {
  /** @param {Model} model @param {Stage} stage @param {string} figure */
  constructor(model, stage, figure) {
    this.stage = stage;
    this.figure = figure;
    this.tasks = figure.endsWith("_ns") ? model.tasks_of(stage) : undefined;
    this.known = new Map();
    this.most = 0;
    stage.nodes.forEach((_, number) => { this.most = Math.max(this.most, this.of(number)); });
    stage.groups.forEach((group, number) => { if (group.node) this.most = Math.max(this.most, this.of(~number)); });
  }

  /** @param {number} reference */
  of(reference) {
    if (!this.known.has(reference)) this.known.set(reference, this.sum(reference));
    return this.known.get(reference);
  }

  /** @param {number} reference */
  sum(reference) {
    if (this.tasks && this.tasks !== this.stage) {
      const found = this.tasks.from(this.stage.sources(reference));
      return found.reduce((sum, task) => sum + ((this.tasks.node(task) || {figures: {}}).figures[this.figure] || 0), 0);
    }
    const node = this.stage.node(reference);
    if (node) return node.figures[this.figure] || 0;
    const inside = this.stage.groups[~reference].items.filter(({kind}) => kind === NODE || kind === GROUP)
      .map(({kind, number}) => this.of(kind === GROUP ? ~number : number));
    if (this.figure === "error") return Math.max(0, ...inside);
    return inside.reduce((sum, each) => sum + each, 0);
  }
}

/** A hue for a text, the same in each picture. @param {string} text */
export function hue(text) {
  let hash = 2166136261;
  for (let k = 0; k < text.length; k++) hash = Math.imul(hash ^ text.charCodeAt(k), 16777619);
  return ((hash >>> 0) * 137) % 360;
}

/** @param {string} figure @param {number} value */
export function figure_text(figure, value) {
  if (figure === "error") return value.toExponential(1);
  return figure.endsWith("_ns") ? duration_text(value) : bytes_text(value);
}

/** @param {number} count */
export function bytes_text(count) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (count >= Number(size)) return `${(count / Number(size)).toFixed(1)} ${unit}`;
  }
  return `${count} B`;
}

/** @param {number} nanoseconds */
export function duration_text(nanoseconds) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6]]) {
    if (nanoseconds >= Number(size)) return `${(nanoseconds / Number(size)).toFixed(3)} ${unit}`;
  }
  return `${(nanoseconds / 1e3).toFixed(1)} us`;
}
