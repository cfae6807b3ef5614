"""Why nodes are not fused: one table of stable codes, each with what it means and what a user may do."""

from __future__ import annotations

import enum

from graphwright.records import dataclass

_KEPT_APART = "a hint keeps the nodes apart", "change or drop the hint graphwright.fuse"


class Code(enum.StrEnum):
    """The outcome of a decision about fusion. Codes are stable: programs may compare them."""

    means: str
    """One sentence for users."""
    remedy: str
    """What a user may do about it; empty where nothing is to be done."""

    def __new__(cls, text: str, means: str, remedy: str = "") -> Code:
        made = str.__new__(cls, text)
        made._value_, made.means, made.remedy = text, means, remedy
        return made

    # ---- taken
    MERGED = "FUSE_MERGED", "one kernel computes the nodes"

    REPLACED = "FUSE_REPLACED", "one op with a kernel of its own, or others that take less, replace the nodes"

    # ---- measured
    MEASURED = "FUSE_MEASURED", "measured on this machine, kernels of their own are faster than one"

    # ---- what a region may hold
    NO_LOOPS = (
        "FUSE_NO_LOOPS",
        "the node has a kernel of its own, or runs on the host: it is not a loop over elements",
        "give an op of your own an expression, see docs/plugins.md",
    )
    UNKNOWN_RANK = (
        "FUSE_UNKNOWN_RANK", "the rank of an operand or result is not known", "give shapes of the inputs",
    )  # fmt: skip
    NO_CODE = (
        "FUSE_NO_CODE", "the target generates no code for an element type", "cast to a type that it has",
    )  # fmt: skip
    TARGET = "FUSE_TARGET", "the target cannot express the node or the region in one kernel"
    NO_EPILOGUE = "FUSE_NO_EPILOGUE", "the target has no library whose contractions run an epilogue"

    # ---- loop analysis
    INTERLEAVED_SIZES = (
        "FUSE_INTERLEAVED_SIZES", "sizes of the two nodes do not divide each other, so no loops fit both",
    )  # fmt: skip
    REGROUPING_VIEW = "FUSE_REGROUPING_VIEW", "a view regroups axes in a way that the loops do not follow"
    REDUCED_AXES = "FUSE_REDUCED_AXES", "two reductions run over different axes"
    TWO_ORDERS = "FUSE_TWO_ORDERS", "one value would be read in two orders of its axes"
    RECOMPUTED_VALUE = (
        "FUSE_RECOMPUTED_VALUE",
        "a smaller value is broadcast: in one kernel it would be computed again for each element",
    )
    UNKNOWN_AXES = "FUSE_UNKNOWN_AXES", "an operand has axes over which the region does not iterate"

    # ---- elements that loads and stores move
    MOVED = "FUSE_MOVED", "elements are moved in a way that addresses of loads and stores do not follow"
    JOINED = "FUSE_JOINED", "the operands of a concatenation are not a few cheap values of one size"
    SHORT_RUNS = (
        "FUSE_SHORT_RUNS",
        "moved elements would be loaded or stored in runs shorter than a cache line: a copy is faster",
    )
    PART_STORED = "FUSE_PART_STORED", "the loops walk a part of a value that other nodes read"
    ONLY_MOVES = "FUSE_ONLY_MOVES", "nothing computes with the elements that the nodes move"
    MOVED_EPILOGUE = (
        "FUSE_MOVED_EPILOGUE",
        "an epilogue reads and writes elements in the order of the contraction's result",
    )

    # ---- contractions and their epilogues
    TWO_CONTRACTIONS = (
        "FUSE_TWO_CONTRACTIONS",
        "both sides hold a matrix product or convolution; a kernel computes one, or two of one left factor",
    )
    SIBLING_WEIGHTS = (
        "FUSE_SIBLING_WEIGHTS",
        "right factors of two products of one left factor are not constant matrices of one size",
    )
    PROLOGUE = (
        "FUSE_PROLOGUE",
        "a matrix product or convolution reads operands from memory: it computes none while loading",
    )
    EPILOGUE_IS_OPERAND = (
        "FUSE_EPILOGUE_IS_OPERAND", "the contraction reads what its epilogue would compute",
    )  # fmt: skip
    EPILOGUE_DTYPE = "FUSE_EPILOGUE_DTYPE", "contractions of this element type have no epilogues"
    EPILOGUE_REDUCTION = (
        "FUSE_EPILOGUE_REDUCTION", "a reduction needs whole rows, and the contraction writes tiles",
    )  # fmt: skip
    EPILOGUE_UNREAD = "FUSE_EPILOGUE_UNREAD", "the epilogue does not read the contraction's result"
    EPILOGUE_SHAPE = (
        "FUSE_EPILOGUE_SHAPE",
        "the epilogue is larger than the contraction's output, or reads it in another order",
    )

    # ---- the graph and limits
    CYCLE = "FUSE_CYCLE", "a value would leave the kernel and be read by it again"
    MANY_NODES = "FUSE_MANY_NODES", "the kernel would hold more nodes than the target's limit"
    MANY_OPERANDS = "FUSE_MANY_OPERANDS", "the kernel would read more operands than the target's limit"

    # ---- benefit
    ROW_BEYOND_CACHE = (
        "FUSE_ROW_BEYOND_CACHE",
        "a row is walked several times, and does not stay in the second-level cache between the passes",
    )
    NARROW_OPERAND = (
        "FUSE_NARROW_OPERAND",
        "the operand is stored anyway, and in fewer bytes than the result: each reader widens it itself",
    )
    FOLDED_OPERAND = (
        "FUSE_FOLDED_OPERAND",
        "the operand is stored anyway, and a reduction alone reads the result: it computes it as it reads",
    )
    LAST_VIEW = "FUSE_LAST_VIEW", "a view at the end of a kernel costs nothing outside it"

    # ---- rules and switches
    RULE_OFF = (
        "FUSE_RULE_OFF",
        "the merge is legal, and the rule about it is switched off",
        "see the options fusion_rules and opt_level",
    )
    NO_RULE = "FUSE_NO_RULE", "the merge is legal, and no rule is about it", "register a rule of your own"
    RULE = "FUSE_RULE", "the merge is legal, and a user's own rule refuses it", "see the rule's file"

    # ---- hints
    HINT = "FUSE_HINT", *_KEPT_APART
    HINT_CONTRADICTION = (
        "FUSE_HINT_CONTRADICTION",
        "nodes with different hints became one op",
        "give them the same hint, or drop one",
    )
    NOT_NEIGHBOURS = (
        "FUSE_NOT_NEIGHBOURS",
        "no value passes from one node to the other: only neighbours are merged",
        "put the nodes between them into the group as well",
    )

    # ---- bands
    BANDED = "FUSE_BANDED", "the kernels of the nodes run for some rows at a time"
    BAND_COST = "FUSE_BAND_COST", "bands would save less than the calls of kernels for few rows take"
    BAND_READ = "FUSE_BAND_READ", "what lies between the nodes is read elsewhere, so that all of it is kept"
    BAND_RESULT = "FUSE_BAND_RESULT", "the kernel cannot store its result in a part of an image"
    BAND_SHORT_ROWS = (
        "FUSE_BAND_SHORT_ROWS", "rows are so short that a kernel sums in another order for fewer of them",
    )  # fmt: skip
    BAND_IMAGE = "FUSE_BAND_IMAGE", "the kernels see the image between them with other axes"

    # ---- attention
    ATTENTION_RANK = (
        "FUSE_ATTENTION_RANK",
        "the rank of the scores or values is not known",
        "give shapes of the inputs",
    )
    ATTENTION_DTYPE = "FUSE_ATTENTION_DTYPE", "the attention kernel computes scores in f32 only"
    ATTENTION_AXIS = "FUSE_ATTENTION_AXIS", "the Softmax does not run along the last axis"
    ATTENTION_READ = (
        "FUSE_ATTENTION_READ",
        "other nodes, or an output of the graph, read the probabilities",
        "drop that output, as with --outputs",
    )
    ATTENTION_SCORES = (
        "FUSE_ATTENTION_SCORES", "the Softmax's input is not a product that is scaled, capped or masked",
    )  # fmt: skip
    ATTENTION_SHAPES = "FUSE_ATTENTION_SHAPES", "the attention kernel does not take operands of these shapes"
    ATTENTION_HINT = "FUSE_ATTENTION_HINT", *_KEPT_APART
    ATTENTION_LAYOUT = (
        "FUSE_ATTENTION_LAYOUT", "no operand of the attention kernel can be read in its own layout",
    )  # fmt: skip

    # ---- a scale of the channels in front of a convolution
    SCALE_WINDOW = (
        "FUSE_SCALE_WINDOW",
        "only a convolution of f32 of single pixels, with constant weights, takes a scale of its channels",
    )
    SCALE_PIXELS = "FUSE_SCALE_PIXELS", "the factors are not one for each channel"
    SCALE_EPILOGUE = (
        "FUSE_SCALE_EPILOGUE", "nothing else reads the image: it is scaled where it is computed",
    )  # fmt: skip
    SCALE_COST = "FUSE_SCALE_COST", "the weights are not much fewer than the elements of the image"
    SCALE_HINT = "FUSE_SCALE_HINT", *_KEPT_APART

    # ---- a Resize and the convolution behind it
    RESIZE_WINDOW = (
        "FUSE_RESIZE_WINDOW",
        "only a convolution of single pixels changes places with the Resize of its image",
    )
    RESIZE_READ = "FUSE_RESIZE_READ", "other nodes read the resized image, so that all of it is computed"
    RESIZE_KIND = (
        "FUSE_RESIZE_KIND", "the Resize also changes images or channels, or fills in a number outside",
    )  # fmt: skip
    RESIZE_DTYPE = "FUSE_RESIZE_DTYPE", "sums of this element type would be rounded once more"
    RESIZE_COST = (
        "FUSE_RESIZE_COST",
        "fewer products are saved than resizing and adding the convolution's result takes",
    )
    RESIZE_HINT = "FUSE_RESIZE_HINT", *_KEPT_APART

    # ---- products whose results are split
    SPLIT_COLUMNS = "FUSE_SPLIT_COLUMNS", "the result of a product is not split between its columns"
    SPLIT_WEIGHTS = "FUSE_SPLIT_WEIGHTS", "other nodes read the weights, which would be stored twice"
    SPLIT_APART = "FUSE_SPLIT_APART", "nothing combines the parts of a product element by element"
    SPLIT_HINT = "FUSE_SPLIT_HINT", *_KEPT_APART

    def __repr__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Refusal:
    """Why nodes are not fused: a code of the table, and the sentence with the sizes at hand."""

    code: Code
    why: str

    def __str__(self) -> str:
        return f"{self.why} [{self.code.value}]"
