"""Ops of ``ai.onnx.ml`` on a value whose rank only a run decides, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import graphwright as gw
from tests.ops.ml.support import assert_same, rows, runtime

TREE = (
    "nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [2, 0, 0],"
    " nodes_values = [0.1, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0],"
    ' nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],'
)
LINEAR = "coefficients = [0.5, -1.0, 2.0, 1.5, 0.25, -0.5], intercepts = [0.1, 0.2]"
VECTORS = (
    "coefficients = [0.5, -1.0], rho = [0.3], kernel_params = [0.5, 0.0, 3.0],"
    " support_vectors = [0.5, 1.0, 2.0, -1.0, 0.25, -0.5],"
)
NODES = {
    "Normalizer": 'y = ai.onnx.ml.Normalizer<norm = "L2">(v)',
    "Imputer": "y = ai.onnx.ml.Imputer<imputed_value_floats = [1.0, 2.0, 3.0],"
    " replaced_value_float = 0.0>(v)",
    "Scaler": "y = ai.onnx.ml.Scaler<offset = [1.0, 2.0, 3.0], scale = [0.5, 1.0, 2.0]>(v)",
    "FeatureVectorizer": "y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [3]>(v)",
    "LinearRegressor": f"y = ai.onnx.ml.LinearRegressor<targets = 2, {LINEAR}>(v)",
    "LinearClassifier": f"label, y = ai.onnx.ml.LinearClassifier<classlabels_ints = [3, 4], {LINEAR}>(v)",
    "SVMRegressor": f'y = ai.onnx.ml.SVMRegressor<{VECTORS} n_supports = 2, kernel_type = "RBF">(v)',
    "SVMRegressor of lines": f"y = ai.onnx.ml.SVMRegressor<{VECTORS} n_supports = 2,"
    ' kernel_type = "LINEAR">(v)',
    "SVMClassifier": f"label, y = ai.onnx.ml.SVMClassifier<{VECTORS} classlabels_ints = [3, 4],"
    ' vectors_per_class = [1, 1], kernel_type = "POLY">(v)',
    "TreeEnsembleRegressor": f"y = ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1, {TREE}"
    " target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0],"
    " target_weights = [1.5, -0.5]>(v)",
    "TreeEnsembleClassifier": f"label, y = ai.onnx.ml.TreeEnsembleClassifier<{TREE}"
    " classlabels_int64s = [3, 4, 5], class_treeids = [0, 0], class_nodeids = [1, 2], class_ids = [0, 2],"
    " class_weights = [1.5, 2.5], base_values = [0.5, 0.0, -0.5]>(v)",
}


@pytest.mark.parametrize("op", NODES)
def test_a_matrix_or_a_vector(op: str) -> None:
    outputs = "int64[A] label, float[B, C] y" if "label" in NODES[op] else "float[B, C] y"
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]>
        main (float[N, 3] x, bool whole) => ({outputs}) {{
            v = If(whole) <
                then_branch = a () => (float[P, 3] p) {{ p = Identity(x) }},
                else_branch = b () => (float[3] q) {{
                    zero = Constant<value = int64 {{0}}>()
                    q = Gather(x, zero)
                }}
            >
            {NODES[op]}
        }}"""
    )
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    made = gw.compile(model.SerializeToString())
    for whole in (True, "Tree" in op):  # ONNX Runtime takes a vector for rows of one feature in trees
        feeds = {"x": rows(4, 3), "whole": np.array(whole)}
        assert_same(list(made.run(feeds).values()), runtime(model.SerializeToString(), feeds))
