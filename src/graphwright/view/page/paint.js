// Paints a scene on a canvas. Far away, boxes are plain and edges are straight.

import {GROUP, IN, NODE, OUT} from "./model.js";
import {HEADER} from "./scene.js";
import {hue} from "./overlay.js";

const DETAILED = 0.8, READABLE = 0.45, PLAIN = 0.12;
const STUB = 16;

/** Colors of the page, which follow its theme. */
export function theme() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["page", "text", "quiet", "accent", "edge", "frame", "frame-line", "group", "box-line", "linked",
    "lightness", "saturation", "heat"];
  return Object.fromEntries(names.map((name) => [name, read(name)]));
}

/**
 * The color of each box.
 * @param {import("./scene.js").Scene} scene @param {string} overlay
 * @param {import("./overlay.js").Figures | null} figures @param {any} colors
 */
export function fills(scene, overlay, figures, colors) {
  const tint = (text) => `hsl(${hue(text)} ${colors.saturation} ${colors.lightness})`;
  const [heat, saturation] = colors.heat.split(",");
  const lightness = parseFloat(colors.lightness);
  const hot = (share) => `hsl(${heat} ${saturation} ${lightness + (55 - lightness) * share}%)`;
  return scene.boxes.map((box) => {
    if (box.kind === IN || box.kind === OUT) return colors.edge;
    if (box.open) return colors.frame;
    if (figures) return hot(Math.sqrt(Math.min(1, figures.of(box.reference) / (figures.most || 1))));
    const node = scene.stage.node(box.reference);
    if (overlay === "layout") return node && node.layout ? tint(node.layout) : colors.page;
    return node && !(box.kind === GROUP && !node) ? tint(node.op) : colors.group;
  });
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {import("./scene.js").Scene} scene
 * @param {{x: number, y: number, scale: number}} camera the scene's place at the upper left, and pixels per unit
 * @param {{left?: number, width: number, height: number, ratio: number}} size of the part of the canvas that is painted
 * @param {{fills: string[], colors: any, below: string, selected: number, linked: Set<number>}} look
 */
export function paint(context, scene, camera, size, look) {
  const {scale} = camera, left = size.left || 0;
  context.save();
  context.setTransform(size.ratio, 0, 0, size.ratio, left * size.ratio, 0);
  context.fillStyle = look.colors.page;
  context.fillRect(0, 0, size.width, size.height);
  if (size.left !== undefined) {
    context.beginPath();
    context.rect(0, 0, size.width, size.height);
    context.clip();
  }
  const zoom = scale * size.ratio;
  context.setTransform(zoom, 0, 0, zoom, left * size.ratio - camera.x * zoom, -camera.y * zoom);
  const seen = {
    left: camera.x, top: camera.y, right: camera.x + size.width / scale, bottom: camera.y + size.height / scale,
  };
  frames(context, scene, seen, look, scale);
  edges(context, scene, seen, look, scale);
  boxes(context, scene, seen, look, scale);
  context.restore();
}

const outside = (box, seen) =>
  box.x > seen.right || box.y > seen.bottom || box.x + box.width < seen.left || box.y + box.height < seen.top;

function frames(context, scene, seen, look, scale) {
  context.lineWidth = Math.max(1, 0.8 / scale);
  scene.boxes.forEach((box, k) => {
    if (!box.open || outside(box, seen)) return;
    context.fillStyle = look.colors.frame;
    context.strokeStyle = border(k, look, look.colors["frame-line"]);
    context.fillRect(box.x, box.y, box.width, box.height);
    context.strokeRect(box.x, box.y, box.width, box.height);
    if (scale < PLAIN) return;
    const group = scene.stage.groups[~box.reference];
    const label = group.node ? `${group.node.op}  ${group.name}` : group.name;
    write(context, `\u2212 ${label}`, box.x + 8, box.y + HEADER - 7, box.width - 16, look.colors.quiet, 12);
  });
}

function edges(context, scene, seen, look, scale) {
  const plain = scale < READABLE;
  const chosen = [];
  context.strokeStyle = look.colors.edge;
  context.lineWidth = Math.max(1, 0.6 / scale);
  context.beginPath();
  for (const edge of scene.edges) {
    if (edge.left > seen.right || edge.right < seen.left || edge.top > seen.bottom || edge.bottom < seen.top) continue;
    const near = edge.from === look.selected || edge.to === look.selected;
    if (near) chosen.push(edge);
    else if (edge.drawn) trace(context, edge.points, plain);
    else if (!plain) stubs(context, edge.points);
  }
  context.stroke();
  context.strokeStyle = look.colors.accent;
  context.lineWidth = Math.max(2, 1.6 / scale);
  context.beginPath();
  for (const edge of chosen) trace(context, edge.points, plain);
  context.stroke();
  if (!plain) arrows(context, scene, seen, look);
  if (scale >= DETAILED) types(context, scene, seen, look);
}

/** What a box gives, below it: the text of its first edge. */
function types(context, scene, seen, look) {
  let last = -1;
  for (const {from, points, text} of scene.edges) {
    const [x, y] = points;
    if (from === last || x < seen.left || x > seen.right || y < seen.top || y > seen.bottom) continue;
    last = from;
    write(context, text.split("\n", 1)[0], x + 6, y + 12, 200, look.colors.quiet, 10);
  }
}

function trace(context, points, plain) {
  context.moveTo(points[0], points[1]);
  for (let k = 2; k < points.length; k += 2) {
    const [x, y, u, v] = [points[k - 2], points[k - 1], points[k], points[k + 1]];
    if (plain || x === u) context.lineTo(u, v);
    else context.bezierCurveTo(x, (y + v) / 2, u, (y + v) / 2, u, v);
  }
}

/** Both ends of an edge that is not led through the rows between them. */
function stubs(context, points) {
  const [x, y] = points, u = points[points.length - 2], v = points[points.length - 1];
  context.moveTo(x, y);
  context.lineTo(x + STUB / 2, y + STUB);
  context.moveTo(u, v);
  context.lineTo(u - STUB / 2, v - STUB);
}

function arrows(context, scene, seen, look) {
  context.fillStyle = look.colors.edge;
  context.beginPath();
  for (const {points, bottom, right, left} of scene.edges) {
    const x = points[points.length - 2], y = points[points.length - 1];
    if (x > seen.right || x < seen.left || y > seen.bottom || y < seen.top || bottom < seen.top || right < left) continue;
    context.moveTo(x, y);
    context.lineTo(x - 3.5, y - 7);
    context.lineTo(x + 3.5, y - 7);
  }
  context.fill();
}

function boxes(context, scene, seen, look, scale) {
  context.lineWidth = Math.max(1, 0.5 / scale);
  scene.boxes.forEach((box, k) => {
    if (box.open || outside(box, seen)) return;
    context.fillStyle = look.fills[k];
    if (box.kind === IN || box.kind === OUT) {
      if (scale > PLAIN) context.fillRect(box.x + 3, box.y + 3, box.width - 6, box.height - 6);
      return;
    }
    context.fillRect(box.x, box.y, box.width, box.height);
    if (scale > PLAIN || look.linked.has(k) || look.selected === k) outline(context, box, k, look, scale);
    if (scale >= READABLE) label(context, scene, box, look);
  });
}

function border(k, look, otherwise) {
  return k === look.selected ? look.colors.accent : look.linked.has(k) ? look.colors.linked : otherwise;
}

function outline(context, box, k, look, scale) {
  const marked = k === look.selected || look.linked.has(k);
  context.strokeStyle = border(k, look, look.colors["box-line"]);
  context.lineWidth = marked ? Math.max(2.5, 2 / scale) : Math.max(1, 0.5 / scale);
  if (box.kind === GROUP) context.strokeRect(box.x + 3, box.y + 3, box.width, box.height);
  context.strokeRect(box.x, box.y, box.width, box.height);
}

function label(context, scene, box, look) {
  const {title, below} = words(scene.stage, box);
  write(context, title, box.x + 8, box.y + 16, box.width - 14, look.colors.text, 12.5);
  write(context, below, box.x + 8, box.y + 31, box.width - 14, look.below, 11);
}

/** The two lines of a box. @param {import("./model.js").Stage} stage @param {import("./scene.js").Box} box */
export function words(stage, box) {
  if (box.kind === NODE) {
    const node = stage.nodes[box.reference];
    return {title: node.op, below: node.name.slice(node.name.lastIndexOf("/") + 1)};
  }
  const group = stage.groups[~box.reference];
  const count = stage.inside(~box.reference).length;
  const repeats = group.repeats > 1 ? `${group.repeats} equal, ` : "";
  return {title: `+ ${group.node ? group.node.op : group.name}`, below: `${repeats}${count} ${count === 1 ? "node" : "nodes"}`};
}

const widths = new Map();

/** A text, cut to a width. */
function write(context, text, x, y, width, color, size) {
  context.font = `${size}px system-ui, sans-serif`;
  context.fillStyle = color;
  context.fillText(cut(context, text, width, size), x, y);
}

function cut(context, text, width, size) {
  const key = `${size} ${Math.round(width)} ${text}`;
  let found = widths.get(key);
  if (found === undefined) {
    found = text;
    if (context.measureText(text).width > width) {
      let kept = Math.max(1, Math.floor(width / (size * 0.5)));
      while (kept > 1 && context.measureText(`${text.slice(0, kept)}\u2026`).width > width) kept--;
      found = `${text.slice(0, kept)}\u2026`;
    }
    widths.set(key, found);
  }
  return found;
}
