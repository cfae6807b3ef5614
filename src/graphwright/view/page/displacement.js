// Room for opened groups: a drawing is moved apart, to the sides and down, so that its boxes keep their order.

/** @typedef {{x: number, y: number, width: number, height: number}} Rectangle */

/**
 * How far a place is moved to the right: each box that grows stretches the columns that it covers, and boxes
 * that grow in the same columns share the room.
 * @param {{left: number, right: number, extra: number}[]} grown
 * @returns {(x: number) => number}
 */
export function stretch(grown) {
  const stops = [...new Set(grown.flatMap(({left, right}) => [left, right]))].sort((a, b) => a - b);
  const moved = [0];
  for (let k = 1; k < stops.length; k++) {
    let density = 0;
    for (const {left, right, extra} of grown) {
      if (left < stops[k] && right > stops[k - 1]) density = Math.max(density, extra / (right - left));
    }
    moved.push(moved[k - 1] + density * (stops[k] - stops[k - 1]));
  }
  return (x) => {
    if (!stops.length || x <= stops[0]) return 0;
    if (x >= stops[stops.length - 1]) return moved[moved.length - 1];
    const after = stops.findIndex((stop) => stop >= x);
    const share = (x - stops[after - 1]) / (stops[after] - stops[after - 1]);
    return moved[after - 1] + share * (moved[after] - moved[after - 1]);
  };
}

/**
 * The boxes and routes of a drawing, some of whose boxes have another size.
 * @param {import("./model.js").Drawing} drawing
 * @param {Map<number, {width: number, height: number}>} sizes of the boxes that are opened, by position
 * @returns {{boxes: Rectangle[], routes: number[][], width: number, height: number}}
 */
export function displaced(drawing, sizes) {
  const grown = [];
  const heights = drawing.rows.map(([, height]) => height);
  for (const [position, size] of sizes) {
    const [x, row, width] = drawing.boxes[position];
    if (size.width > width) grown.push({left: x - width / 2, right: x + width / 2, extra: size.width - width});
    heights[row] = Math.max(heights[row], size.height);
  }
  const shift = stretch(grown);
  const tops = [];
  let added = 0;
  drawing.rows.forEach(([top, height], row) => {
    tops.push(top + added);
    added += heights[row] - height;
  });
  const boxes = drawing.boxes.map(([x, row, w, h], position) => {
    const {width, height} = sizes.get(position) || {width: w, height: h};
    const middle = x + (shift(x - w / 2) + shift(x + w / 2)) / 2;
    return {x: middle - width / 2, y: tops[row] + (heights[row] - height) / 2, width, height};
  });
  const routes = drawing.routes.map(([tail, head, bends]) => {
    const from = boxes[tail], to = boxes[head];
    const points = [from.x + from.width / 2, from.y + from.height];
    bends.forEach((x, k) => {
      const row = drawing.boxes[tail][1] + 1 + k, place = x + shift(x);
      points.push(place, tops[row], place, tops[row] + heights[row]);
    });
    points.push(to.x + to.width / 2, to.y);
    return points;
  });
  const right = boxes.reduce((most, box) => Math.max(most, box.x + box.width), drawing.width + shift(Infinity));
  return {boxes, routes, width: right, height: drawing.height + added};
}
