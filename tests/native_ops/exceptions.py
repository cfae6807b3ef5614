"""Samples that do not run natively, each with its reason. A new native form takes its line away."""

from __future__ import annotations

HOST_CALLS: dict[str, dict[int, str]] = {
    "Col2Im": {5: "bool: no kernel scatters it with a sum", 6: "complex numbers"},
    "DFT": {k: "the length of the transform is symbolic" for k in (17, 18)},
    "Det": {11: "matrices of symbolic size"},
    "Eigh": {k: "factorizations are computed in Python" for k in range(5)},
    "GRU": {3: "f64: the library's recurrent kernels are f32"},
    "GridSample": {27: "integers that are blended", 28: "complex numbers"},
    "GroupedMatMul": {1: "f64", 4: "integers"},
    "Inverse": {4: "matrices of symbolic size"},
    "LSTM": {5: "f64: the library's recurrent kernels are f32"},
    "LU": {k: "factorizations are computed in Python" for k in (0, 1, 2, 3, 4, 5, 7)},
    "MaxRoiPool": {k: "regions are pooled in Python" for k in range(4)},
    "MurmurHash3": {k: "hashes are computed in Python" for k in (0, 1, 2, 3, 4, 5, 6, 8, 9)},
    "Multinomial": {k: "random numbers are drawn by NumPy" for k in range(6)},
    "Probit": {2: "quantiles are found by Newton's method"},
    "QR": {k: "factorizations are computed in Python" for k in range(10)},
    "RandomNormal": {k: "random numbers are drawn by NumPy" for k in range(8)},
    "RandomUniform": {k: "random numbers are drawn by NumPy" for k in range(8)},
    "MelWeightMatrix": {8: "operands that are computed"},
    "RoiAlign": {k: "the largest products of points whose number depends on the region" for k in (2, 3)},
    "SizesHold": {k: "sizes are compared in Python; only exported models have it" for k in (0, 1)},
    "SVD": {k: "factorizations are computed in Python" for k in range(9)},
    "STFT": {9: "the length of the transform is symbolic"},
    "TfIdfVectorizer": {k: "n-grams are looked up in a table" for k in (5, 6)},
}
"""By op: numbers of samples that run as a HostCall on the reference."""

STAGED: dict[str, dict[int, str]] = {
    "ArrayFeatureExtractor": {4: "strings"},
    "Compress": {7: "strings"},
    "GridSample": {26: "strings"},
    "ImageDecoder": {k: "elements decide its size" for k in range(4)},
    "LabelEncoder": {k: "strings" for k in (6, 7, 8)},
    "OneHotEncoder": {5: "strings"},
    "Pad": {10: "strings"},
    "RegexFullMatch": {k: "strings" for k in (6, 7)},
    "StringConcat": {k: "strings" for k in range(3)},
    "StringNormalizer": {k: "strings" for k in range(9)},
    "StringSplit": {k: "strings" for k in range(7)},
    "TensorScatter": {5: "strings"},
    "TfIdfVectorizer": {4: "strings"},
    "Tokenizer": {k: "strings" for k in range(5)},
    "Trilu": {4: "strings"},
    "Unique": {k: "slices, complex numbers, strings" for k in (2, 3, 4, 5, 8, 10, 14)},
    "Where": {5: "strings"},
}
"""By op: numbers of samples that the host runs between programs."""

_CONTAINERS = {
    "CastMap": 7, "ConcatFromSequence": 9, "DictVectorizer": 6, "Optional": 4, "OptionalGetElement": 2,
    "OptionalHasElement": 2, "SequenceAt": 5,
    "SequenceConstruct": 3, "SequenceEmpty": 3, "SequenceErase": 6, "SequenceInsert": 7, "SequenceLength": 1,
    "SplitToSequence": 16, "ZipMap": 4,
}  # fmt: skip
"""How many samples of each take or give sequences, optionals and maps: the first ones."""
STAGED |= {name: {k: "sequences, optionals, maps" for k in range(n)} for name, n in _CONTAINERS.items()}
