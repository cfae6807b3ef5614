// The panel beside the graph: all that is known of what is selected. Texts of the model are set as text alone.

import {bytes_text, figure_text} from "./overlay.js";

const MOST = 30;

/**
 * An element with children, of which texts are only that.
 * @param {string} tag @param {Object<string, any>} properties @param {(Node | string)[]} children
 */
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export class Details {
  /**
   * @param {HTMLElement} panel @param {import("./model.js").Model} model
   * @param {(stage: number, reference: number) => void} show called to show a node or group of a stage
   */
  constructor(panel, model, show) {
    this.panel = panel;
    this.model = model;
    this.show = show;
  }

  /** What is said while nothing is selected. @param {number} index */
  overview(index) {
    const stage = this.model.stages[index];
    const {decisions} = this.model.compilations[stage.compilation];
    const taken = decisions.filter((each) => each.verdict === "taken").length;
    const rows = [["nodes", String(stage.nodes.length)], ["groups", String(stage.groups.length - 1)]];
    if (decisions.length) rows.push(["merges", `${taken} taken, ${decisions.length - taken} refused`]);
    this.panel.replaceChildren(
      element("h2", {}, `Stage: ${this.model.label(index)}`), table(rows),
      element("p", {}, "Select a box to see its details and the corresponding nodes at other stages. Open a group with a double click or Enter. Press ? for all keys."),
    );
  }

  /** @param {number} index of the stage @param {number} reference */
  select(index, reference) {
    const stage = this.model.stages[index], node = stage.node(reference);
    const sources = stage.sources(reference);
    this.panel.replaceChildren(
      element("h2", {}, stage.title(reference)),
      ...(node ? this.facts(node) : this.group(stage, ~reference)),
      ...this.stages(index, sources),
      ...this.origins(sources),
      ...(node ? this.decisions(index, sources) : []),
      ...this.kernels(index, reference, sources),
    );
  }

  facts(node) {
    const figures = Object.entries(node.figures).filter(([, value]) => value)
      .map(([name, value]) => [name.replace("_ns", " time").replace("_", " "), figure_text(name, value)]);
    const layout = node.layout ? [["layout", node.layout]] : [];
    return [table([["name", node.name], ...node.facts, ...layout, ...figures])];
  }

  group(stage, number) {
    const group = stage.groups[number], equal = stage.equals.get(group.equal) || 1;
    const rows = [["nodes", String(stage.inside(number).length)]];
    if (group.repeats > 1) rows.push(["holds", `${group.repeats} equal groups`]);
    if (equal > 1) rows.push(["equal to", `${equal - 1} other groups`]);
    return [table(rows)];
  }

  /** What comes from the same source nodes. */
  stages(index, sources) {
    const found = [];
    this.model.stages.forEach((stage, other) => {
      const references = other === index ? [] : stage.from(sources);
      if (!references.length) return;
      found.push(element("h3", {}, `${this.model.label(other)} (${references.length})`));
      found.push(...references.slice(0, MOST).map((reference) => this.link(other, reference)));
    });
    return found;
  }

  origins(sources) {
    if (sources.size < 2) return [];
    const names = [...sources].slice(0, MOST).map((source) => this.model.sources[source]);
    return [element("h3", {}, `Nodes of the model (${sources.size})`), element("div", {className: "why"}, names.join(", "))];
  }

  link(stage, reference) {
    const of = this.model.stages[stage], name = of.name_of(reference);
    return element("button", {className: "link", onclick: () => this.show(stage, reference)}, `${of.title(reference)}  ${name}`);
  }

  decisions(index, sources) {
    const {compilation} = this.model.stages[index];
    const found = this.model.decisions_about(compilation, sources).sort((a, b) => b.bytes - a.bytes);
    if (!found.length) return [];
    const list = found.slice(0, MOST).map((each) => this.decision(index, each));
    return [element("h3", {}, `Decisions about fusion (${found.length})`), ...list];
  }

  /** A node of a decision, which leads to what computes it at the stage at hand. */
  side(index, name, sources) {
    const [found] = this.model.stages[index].from(sources);
    if (found === undefined) return element("div", {}, name);
    return element("button", {className: "link", onclick: () => this.show(index, found)}, name);
  }

  decision(index, each) {
    const [means, remedy] = this.model.codes[each.code] || ["", ""];
    const saved = each.bytes ? `, ${bytes_text(each.bytes)}` : "";
    const sides = each.nodes.map((name, side) => this.side(index, name, new Set(each.sources[side])));
    return element("div", {className: `why ${each.verdict}`},
      `${each.verdict}${saved}`, ...sides, each.why, element("br"),
      element("span", {className: "code"}, `${each.code}: ${means}${remedy ? `. ${remedy}` : ""}`));
  }

  /** Kernels of the tasks that come from it, with their C. */
  kernels(index, reference, sources) {
    const stage = this.model.stages[index], own = stage.node(reference), tasks = this.model.tasks_of(stage);
    const linked = own && own.kernels.length ? [own] : tasks ? tasks.from(sources).map((task) => tasks.node(task)) : [];
    const names = [...new Set(linked.flatMap((task) => task ? task.kernels : []))].slice(0, MOST);
    if (!names.length) return [];
    return [element("h3", {}, "Kernels"), ...names.map((name) => this.kernel(stage.compilation, name))];
  }

  kernel(compilation, name) {
    const code = this.model.compilations[compilation].kernels.get(name);
    if (!code) return element("div", {className: "why"}, `${name}: of the library`);
    return element("details", {}, element("summary", {}, name),
      element("h3", {}, "C"), element("pre", {}, code[0]), element("h3", {}, "Loops"), element("pre", {}, code[1]));
  }
}

/** @param {string[][]} rows */
function table(rows) {
  return element("table", {}, ...rows.map(([name, text]) => element("tr", {}, element("td", {}, name), element("td", {}, text))));
}

