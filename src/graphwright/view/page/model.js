// The document as objects: texts in place of their numbers, and what comes from the same nodes of the model.

/** @typedef {{op: string, name: string, sources: number[], facts: [string, string][], figures: Object<string, number>, layout: string, kernels: string[], group: number}} GraphNode */
/** @typedef {{kind: number, number: number, text: string}} Item */
/** @typedef {{width: number, height: number, rows: number[][], boxes: number[][], routes: [number, number, number[], number][]}} Drawing */
/** @typedef {{name: string, parent: number, node: GraphNode | null, repeats: number, equal: number, items: Item[], texts: string[], drawing: Drawing}} Group */
/** @typedef {{kind: string, verdict: string, code: string, why: string, bytes: number, nodes: string[], sources: number[][]}} Decision */

export const NODE = 0, GROUP = 1, IN = 2, OUT = 3;
export const ROOT = 0;

/** @typedef {{title: string, decisions: Decision[], kernels: Map<string, [string, string]>}} Compilation */

/** One stage. A reference is the number of a node, or ~number of a group. */
export class Stage {
  /** @param {any} data @param {string[]} texts @param {Drawing[]} drawings */
  constructor(data, texts, drawings) {
    /** @type {string} */
    this.name = data.name;
    /** @type {number} Which compilation it is of. */
    this.compilation = data.compilation;
    /** @type {GraphNode[]} */
    this.nodes = data.nodes.map((row) => read_node(row, texts));
    /** @type {Group[]} */
    this.groups = data.groups.map((group) => read_group(group, texts, drawings));
    this.groups.forEach((group, number) => {
      for (const item of group.items) if (item.kind === NODE) this.nodes[item.number].group = number;
    });
    this.bySource = this.index_sources();
    this.equals = count_equal(this.groups);
  }

  /** @returns {Map<number, number[]>} */
  index_sources() {
    const found = new Map();
    const keep = (node, reference) => {
      for (const source of node ? node.sources : []) {
        if (!found.has(source)) found.set(source, []);
        found.get(source).push(reference);
      }
    };
    this.groups.forEach((group, number) => keep(group.node, ~number));
    this.nodes.forEach((node, number) => keep(node, number));
    return found;
  }

  /** What is known of a node, or of a region as a node. @param {number} reference @returns {GraphNode | null} */
  node(reference) {
    return reference >= 0 ? this.nodes[reference] : this.groups[~reference].node;
  }

  /** @param {number} reference */
  title(reference) {
    const node = this.node(reference);
    return node ? node.op : this.groups[~reference].name || this.name;
  }

  /** @param {number} reference */
  name_of(reference) {
    const node = this.node(reference);
    return node ? node.name : this.groups[~reference].name;
  }

  /** Groups around it, outermost first. @param {number} reference @returns {number[]} */
  path(reference) {
    const path = [];
    let group = reference >= 0 ? this.nodes[reference].group : this.groups[~reference].parent;
    for (; group !== ROOT; group = this.groups[group].parent) path.unshift(group);
    return path;
  }

  /** Source nodes of all that it holds. @param {number} reference @returns {Set<number>} */
  sources(reference) {
    const node = this.node(reference);
    if (node) return new Set(node.sources);
    return new Set(this.inside(~reference).flatMap((number) => this.nodes[number].sources));
  }

  /** Nodes in a group and its groups. @param {number} group @returns {number[]} */
  inside(group) {
    return this.groups[group].items.flatMap((item) =>
      item.kind === NODE ? [item.number] : item.kind === GROUP ? this.inside(item.number) : []);
  }

  /** What comes from some of `sources`; of a region the region alone. @param {Set<number>} sources @returns {number[]} */
  from(sources) {
    const found = new Set();
    for (const source of sources) for (const reference of this.bySource.get(source) || []) found.add(reference);
    return [...found].filter((reference) => !this.path(reference).some((group) => found.has(~group)));
  }
}

/** @param {Group[]} groups @returns {Map<number, number>} */
function count_equal(groups) {
  const found = new Map();
  for (const group of groups) found.set(group.equal, (found.get(group.equal) || 0) + 1);
  return found;
}

/** @param {any[]} row @param {string[]} texts @returns {GraphNode} */
function read_node([op, name, sources, facts, figures, layout, kernels], texts) {
  return {
    op: texts[op], name: texts[name], sources, figures, layout: texts[layout], group: ROOT,
    facts: facts.map(([key, value]) => [texts[key], texts[value]]), kernels: kernels.map((k) => texts[k]),
  };
}

/** @param {any} data @param {string[]} texts @param {Drawing[]} drawings @returns {Group} */
function read_group(data, texts, drawings) {
  return {
    name: texts[data.name], parent: data.parent, node: data.node && read_node(data.node, texts),
    repeats: data.repeats, equal: data.equal, drawing: drawings[data.drawing],
    items: data.items.map(([kind, number, text]) => ({kind, number, text: texts[text]})),
    texts: data.texts.map((text) => texts[text]),
  };
}

/** All that the page shows. */
export class Model {
  /** @param {any} data */
  constructor(data) {
    /** @type {string[]} */
    this.sources = data.sources;
    /** @type {Stage[]} */
    this.stages = data.stages.map((stage) => new Stage(stage, data.texts, data.drawings));
    /** @type {Compilation[]} */
    this.compilations = data.compilations.map((each) => read_compilation(each, data.texts));
    /** @type {Object<string, [string, string]>} */
    this.codes = data.codes;
    /** @type {number[]} Stages that are shown first: one, or two side by side. */
    this.starts = data.starts;
    this.decided = this.compilations.map(({decisions}) => index_decisions(decisions));
  }

  /** What a stage is called. @param {number} index */
  label(index) {
    const {name, compilation} = this.stages[index];
    return this.compilations.length > 1 ? `${this.compilations[compilation].title}: ${name}` : name;
  }

  /** Decisions of a compilation about what comes from `sources`. @param {number} compilation @param {Set<number>} sources @returns {Decision[]} */
  decisions_about(compilation, sources) {
    return [...new Set([...sources].flatMap((source) => this.decided[compilation].get(source) || []))];
  }

  /** The tasks of the compilation that a stage is of. @param {Stage} stage @returns {Stage | undefined} */
  tasks_of(stage) {
    return this.stages.find((each) => each.name === "tasks" && each.compilation === stage.compilation);
  }
}

/** @param {any} data @param {string[]} texts @returns {Compilation} */
function read_compilation(data, texts) {
  return {
    title: data.title, kernels: new Map(Object.entries(data.kernels)),
    decisions: data.decisions.map((each) => ({...each, why: texts[each.why], nodes: each.nodes.map((name) => texts[name])})),
  };
}

/** @param {Decision[]} decisions @returns {Map<number, Decision[]>} */
function index_decisions(decisions) {
  const found = new Map();
  for (const decision of decisions) {
    for (const source of new Set(decision.sources.flat())) {
      if (!found.has(source)) found.set(source, []);
      found.get(source).push(decision);
    }
  }
  return found;
}
