"""The reasons why nodes are not fused: stable codes, with their meanings and remedies."""

from __future__ import annotations

import enum

from graphwright.records import dataclass

_KEPT_APART = "a hint keeps the nodes in separate kernels", "change or remove the hint graphwright.fuse"


class Code(enum.StrEnum):
    """The outcome of a fusion decision. Codes are stable, so that programs can compare them."""

    means: str
    """The meaning, as one sentence for users."""
    remedy: str
    """The action by which a user can change the outcome; empty if there is none."""

    def __new__(cls, text: str, means: str, remedy: str = "") -> Code:
        code = str.__new__(cls, text)
        code._value_, code.means, code.remedy = text, means, remedy
        return code

    # ---- taken
    MERGED = "FUSE_MERGED", "one kernel computes the nodes"

    REPLACED = "FUSE_REPLACED", "an op with a kernel of its own, or cheaper ops, replace the nodes"

    # ---- measured or predicted
    MEASURED = "FUSE_MEASURED", "measured on this machine: separate kernels are faster than one"

    PREDICTED = (
        "FUSE_PREDICTED",
        "separate kernels are predicted to be faster than one",
        "measure it: see the option tune",
    )

    # ---- nodes that no region may hold
    NO_LOOPS = (
        "FUSE_NO_LOOPS",
        "the node uses a library kernel or runs on the host: it is not a loop over elements",
        "for an op of your own: give it an expression, see docs/plugins.md",
    )
    UNKNOWN_RANK = (
        "FUSE_UNKNOWN_RANK", "the rank of an operand or result is unknown", "give the shapes of the inputs",
    )  # fmt: skip
    NO_CODE = (
        "FUSE_NO_CODE", "the target generates no code for an element type", "cast to a supported type",
    )  # fmt: skip
    TARGET = "FUSE_TARGET", "the target cannot express the node or the region in one kernel"
    NO_EPILOGUE = "FUSE_NO_EPILOGUE", "the target has no library kernels with epilogues"

    # ---- loop analysis
    INTERLEAVED_SIZES = (
        "FUSE_INTERLEAVED_SIZES", "sizes of the two nodes do not divide each other: no loop nest fits both",
    )  # fmt: skip
    REGROUPING_VIEW = (
        "FUSE_REGROUPING_VIEW",
        "a view regroups axes in a way that one loop nest cannot express",
    )
    REDUCED_AXES = "FUSE_REDUCED_AXES", "the nodes reduce over different axes"
    TWO_ORDERS = "FUSE_TWO_ORDERS", "one value would be read in two different axis orders"
    RECOMPUTED_VALUE = (
        "FUSE_RECOMPUTED_VALUE",
        "a smaller value is broadcast: one kernel would compute it again for each element",
    )
    UNKNOWN_AXES = "FUSE_UNKNOWN_AXES", "an operand has axes that the loops of the region do not iterate over"

    # ---- elements that loads and stores move
    MOVED = "FUSE_MOVED", "the data movement cannot be expressed as addresses of loads and stores"
    JOINED = "FUSE_JOINED", "the operands of the Concat are not a few cheap values of equal size"
    SHORT_RUNS = (
        "FUSE_SHORT_RUNS",
        "elements would be loaded or stored in runs shorter than a cache line: a copy is faster",
    )
    PART_STORED = "FUSE_PART_STORED", "the loops compute only a part of a value that other nodes read"
    ONLY_MOVES = "FUSE_ONLY_MOVES", "the nodes only move data: no arithmetic uses it"
    MOVED_EPILOGUE = (
        "FUSE_MOVED_EPILOGUE",
        "an epilogue must read and write elements in the order of the contraction's result",
    )

    # ---- contractions and their epilogues
    TWO_CONTRACTIONS = (
        "FUSE_TWO_CONTRACTIONS",
        "both sides contain a contraction; a kernel computes one, or two with the same left operand",
    )
    SIBLING_WEIGHTS = (
        "FUSE_SIBLING_WEIGHTS",
        "the right operands of the two matrix multiplications are not constant matrices of equal size",
    )
    PROLOGUE = (
        "FUSE_PROLOGUE",
        "prologues are not supported: a matrix multiplication or convolution reads its operands from memory",
    )
    EPILOGUE_IS_OPERAND = (
        "FUSE_EPILOGUE_IS_OPERAND", "the contraction reads a value that its epilogue would compute",
    )  # fmt: skip
    EPILOGUE_DTYPE = "FUSE_EPILOGUE_DTYPE", "contractions of this element type have no epilogue"
    EPILOGUE_REDUCTION = (
        "FUSE_EPILOGUE_REDUCTION", "a reduction needs whole rows; the contraction stores tiles",
    )  # fmt: skip
    EPILOGUE_UNREAD = "FUSE_EPILOGUE_UNREAD", "the epilogue does not read the contraction's result"
    EPILOGUE_SHAPE = (
        "FUSE_EPILOGUE_SHAPE",
        "the epilogue has a larger shape than the contraction's result, or reads it in another order",
    )

    # ---- the graph and limits
    CYCLE = "FUSE_CYCLE", "the fused graph would have a cycle"
    MANY_NODES = "FUSE_MANY_NODES", "the kernel would have more nodes than the target allows"
    MANY_OPERANDS = "FUSE_MANY_OPERANDS", "the kernel would read more operands than the target allows"

    # ---- benefit
    ROW_BEYOND_CACHE = (
        "FUSE_ROW_BEYOND_CACHE",
        "several passes read a row that does not fit in the L2 cache",
    )
    NARROW_OPERAND = (
        "FUSE_NARROW_OPERAND",
        "the operand is stored anyway and has fewer bytes than the result: each reader converts it itself",
    )
    ROUNDED_IMAGE = (
        "FUSE_ROUNDED_IMAGE",
        "the kernels for blocked images store f32, so another kernel rounds the result to 16 bits",
    )
    REDUCTION_OPERAND = (
        "FUSE_FOLDED_OPERAND",
        "the operand is stored anyway, and the only reader, a reduction, computes the result itself",
    )
    ROW_FUNCTION = (
        "FUSE_ROW_FUNCTION",
        "a transcendental function of one value per row would fill one lane of a vector",
    )
    LAST_VIEW = "FUSE_LAST_VIEW", "a view at the end of a kernel is free outside the kernel"

    # ---- rules and switches
    RULE_OFF = (
        "FUSE_RULE_OFF",
        "the merge is legal, but its rule is switched off",
        "see the options fusion_rules and opt_level",
    )
    NO_RULE = "FUSE_NO_RULE", "the merge is legal, but no rule applies to it", "register a rule of your own"
    RULE = "FUSE_RULE", "the merge is legal, but a user's own rule rejects it", "see the rule's file"

    # ---- hints
    HINT = "FUSE_HINT", *_KEPT_APART
    HINT_CONTRADICTION = (
        "FUSE_HINT_CONTRADICTION",
        "simplification combined nodes with different hints into one op",
        "give them the same hint, or remove one",
    )
    NOT_ADJACENT = (
        "FUSE_NOT_ADJACENT",
        "no value passes from one node to the other: only adjacent nodes are merged",
        "add the nodes between them to the group",
    )

    # ---- bands
    BANDED = "FUSE_BANDED", "the kernels of the nodes run on bands of rows"
    BAND_COST = "FUSE_BAND_COST", "bands would save less time than the additional kernel launches cost"
    BAND_READ = "FUSE_BAND_READ", "another node reads the value between the nodes, so all of it must be kept"
    BAND_RESULT = "FUSE_BAND_RESULT", "the kernel cannot store its result as part of an image"
    BAND_SHORT_ROWS = (
        "FUSE_BAND_SHORT_ROWS", "rows are so short that the kernel would sum in another order for a band",
    )  # fmt: skip
    BAND_IMAGE = "FUSE_BAND_IMAGE", "the kernels use different axes for the image between them"

    # ---- attention
    ATTENTION_RANK = (
        "FUSE_ATTENTION_RANK",
        "the rank of the scores or values is unknown",
        "give the shapes of the inputs",
    )
    ATTENTION_DTYPE = "FUSE_ATTENTION_DTYPE", "the attention kernel computes scores in f32 only"
    ATTENTION_AXIS = "FUSE_ATTENTION_AXIS", "the Softmax is not over the last axis"
    ATTENTION_READ = (
        "FUSE_ATTENTION_READ",
        "another node or a graph output reads the probabilities",
        "leave out that output with --outputs",
    )
    ATTENTION_SCORES = (
        "FUSE_ATTENTION_SCORES", "the Softmax does not read a scaled, capped or masked matrix multiplication",
    )  # fmt: skip
    ATTENTION_SHAPES = (
        "FUSE_ATTENTION_SHAPES",
        "the attention kernel does not support operands of these shapes",
    )
    ATTENTION_HINT = "FUSE_ATTENTION_HINT", *_KEPT_APART
    ATTENTION_LAYOUT = (
        "FUSE_ATTENTION_LAYOUT",
        "no operand of the attention has a transpose, scale or repeat that the kernel absorbs",
    )

    # ---- a scale per channel before a convolution
    SCALE_WINDOW = (
        "FUSE_SCALE_WINDOW",
        "only a 1x1 f32 convolution with constant weights can absorb a scale per channel",
    )
    SCALE_PIXELS = "FUSE_SCALE_PIXELS", "the scale is not one factor per channel"
    SCALE_EPILOGUE = (
        "FUSE_SCALE_EPILOGUE", "no other node reads the image: the kernel that computes it applies the scale",
    )  # fmt: skip
    SCALE_COST = "FUSE_SCALE_COST", "the weights are not much smaller than the image"
    SCALE_HINT = "FUSE_SCALE_HINT", *_KEPT_APART

    # ---- a Resize before a convolution
    RESIZE_WINDOW = (
        "FUSE_RESIZE_WINDOW",
        "only a 1x1 convolution can be moved before the Resize of its input",
    )
    RESIZE_READ = "FUSE_RESIZE_READ", "other nodes read the resized image, so all of it is computed anyway"
    RESIZE_KIND = (
        "FUSE_RESIZE_KIND", "the Resize also resizes the batch or channel axis, or extrapolates",
    )  # fmt: skip
    RESIZE_DTYPE = "FUSE_RESIZE_DTYPE", "results of this element type would be rounded one more time"
    RESIZE_COST = (
        "FUSE_RESIZE_COST",
        "resizing and adding the convolution's result costs more than the saved multiplications",
    )
    RESIZE_HINT = "FUSE_RESIZE_HINT", *_KEPT_APART

    # ---- products whose results are split
    SPLIT_COLUMNS = (
        "FUSE_SPLIT_COLUMNS",
        "the result of the matrix multiplication is not split along its columns",
    )
    SPLIT_WEIGHTS = "FUSE_SPLIT_WEIGHTS", "other nodes read the weights, which would then be stored twice"
    SPLIT_APART = "FUSE_SPLIT_APART", "no elementwise op combines the parts of the result"
    SPLIT_HINT = "FUSE_SPLIT_HINT", *_KEPT_APART

    # ---- elementwise ops from bytes to bytes
    TABLE_OPERANDS = "FUSE_TABLE_OPERANDS", "the bytes are not a function of one 8-bit value"
    TABLE_COST = "FUSE_TABLE_COST", "computing the bytes costs less than looking them up in a table"
    TABLE_HINT = "FUSE_TABLE_HINT", *_KEPT_APART

    def __repr__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Refusal:
    """Why nodes are not fused: a code, and a sentence with the actual names and sizes."""

    code: Code
    why: str

    def __str__(self) -> str:
        return f"{self.why} [{self.code.value}]"
