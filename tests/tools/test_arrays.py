"""Arrays in files, feeds from texts, and distances."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.errors import FeedError
from graphwright.executable.specs import TensorSpec
from graphwright.frontends.onnx.values import read_value
from graphwright.ir.sizes import SizeRange
from graphwright.ir.types import BF16, F32, I64, STRING, DType, map_of, optional_of, sequence_of
from graphwright.tools.arguments import parse_constants, parse_shapes
from graphwright.tools.arrays import read_feeds, read_npy, read_npz, write_feeds, write_json, write_npz
from graphwright.tools.check import distance
from graphwright.tools.feeds import input_sizes, make_feeds

NAMES = st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=12), max_size=6, unique=True)


@settings(deadline=None, max_examples=60)
@given(NAMES)
def test_any_names_make_a_safe_archive(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    file = tmp_path_factory.mktemp("npz") / "all.npz"
    kept = write_npz(file, {name: np.full(2, i) for i, name in enumerate(names)})
    loaded = read_npz(file)
    assert [loaded[kept[name]].tolist() for name in names] == [[i, i] for i in range(len(names))]
    for name in kept.values():
        path = Path(f"{name}.npy")
        assert not path.is_absolute() and ".." not in path.parts and name.isprintable()


@pytest.mark.parametrize(
    "content", [b"", b"text", b"PK\x03\x04junk", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x09\x00\xff\xff{"]
)
def test_damaged_files_are_faults(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    for read in (read_npy, read_npz):
        with pytest.raises(FeedError, match="cannot be read as arrays"):
            read(file)


def test_pickles_are_not_loaded(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (tmp_path.joinpath("evil").touch, ())

    (tmp_path / "x.npy").write_bytes(pickle.dumps(Evil()))
    np.save(tmp_path / "y.npy", np.array([Evil()], object), allow_pickle=True)
    for name in ("x.npy", "y.npy"):
        with pytest.raises(FeedError):
            read_npy(tmp_path / name)
    assert not (tmp_path / "evil").exists()


def test_shapes_and_constants_as_users_type_them() -> None:
    assert parse_shapes(["x:1,3,H,?", "a:b:2", "s:"]) == {"x": [1, 3, "H", None], "a:b": [2], "s": []}
    assert parse_shapes(["x:N=1..16,3,64..2048%32,H%8"]) == {
        "x": [SizeRange("N", 1, 16), 3, SizeRange("", 64, 2048, 32), SizeRange("H", multiple=8)]
    }
    assert parse_constants(["sr=16000", "p=[1.5, 2]", "on=true"]) == {"sr": 16000, "p": [1.5, 2], "on": True}
    for bad in ("x", ":1", "x:1;2", "x:1,,2", "x:é", "x:2..1", "x:N=", "x:%4", "x:1..9%x"):
        with pytest.raises(typer.BadParameter):
            parse_shapes([bad])
    for bad in ("x", "=1", "x=one", 'x={"a": 1}', "x=" + "[" * 100_000):
        with pytest.raises(typer.BadParameter):
            parse_constants([bad])


def test_random_feeds_agree_on_named_sizes() -> None:
    specs = [
        TensorSpec("x", F32, ("N", 3)),
        TensorSpec("y", F32, ("N", "2*N + 1")),
        TensorSpec("z", F32, None),
    ]
    ranges = {"x": [SizeRange("", 0, 8), 3], "z": [SizeRange("", 5, 64, 4), SizeRange("K", 0, 0)]}
    assert input_sizes(specs, ranges) == {"x": (1, 3), "y": (1, 3), "z": (8, 0)}, "the smallest of ranges"
    assert input_sizes(specs, {"x": [4, 3], "z": [7]}) == {"x": (4, 3), "y": (4, 9), "z": (7,)}
    with pytest.raises(FeedError) as caught:
        input_sizes(specs, {"x": [4, 5], "y": [3, 7]})
    assert [d.code for d in caught.value.diagnostics] == ["feed-size", "feed-size", "unknown-size"]


def test_given_feeds_decide_the_sizes_of_random_ones() -> None:
    specs = [TensorSpec("a", F32, ("N",)), TensorSpec("a=b", I64, ("N",)), TensorSpec("c", BF16, ("N",))]
    feeds = make_feeds(specs, ["a=b=[1, 2, 3]"], {}, seed=3)
    assert [(array.dtype.name, array.shape) for array in feeds.values()] == [
        ("float32", (3,)),
        ("int64", (3,)),
        ("bfloat16", (3,)),
    ]
    assert feeds["a=b"].tolist() == [1, 2, 3]
    with pytest.raises(FeedError, match="too large"):
        make_feeds(specs, [], {"a": [2**40]})


def test_bfloat16_survives_a_file(tmp_path: Path) -> None:
    values = np.array([1.5, -2], BF16.numpy)
    write_npz(tmp_path / "x.npz", {"x": values})
    feeds = make_feeds([TensorSpec("x", BF16, (2,))], [str(tmp_path / "x.npz")], {})
    assert feeds["x"].dtype == values.dtype and feeds["x"].tolist() == [1.5, -2]


@pytest.mark.parametrize(
    ("got", "wanted", "most"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 3.0], [1.0, 4.0], 0.25),
        ([np.nan, np.inf, 1.0], [np.nan, np.inf, 1.0], 0.0),
        ([np.nan], [1.0], np.inf),
        ([np.inf], [-np.inf], np.inf),
        ([1e-3], [0.0], 1e-3),
        ([], [], 0.0),
        ([1.0], [1.0, 1.0], np.inf),
    ],
)
def test_distance_is_relative_to_the_greatest_magnitude(
    got: list[float], wanted: list[float], most: float
) -> None:
    assert distance(np.array(got, np.float32), np.array(wanted)).most == pytest.approx(most)


def test_sequences_get_no_random_values() -> None:
    specs = [TensorSpec("s", sequence_of(F32), ()), TensorSpec("x", F32, (2,))]
    with pytest.raises(FeedError, match=r"input 's' is seq\(f32\), for which no random value can be made"):
        make_feeds(specs, [], {})


SEQUENCE, MAP, MAYBE = sequence_of(F32), map_of(I64, F32), optional_of(sequence_of(I64))


@pytest.mark.parametrize(
    ("dtype", "text", "wanted"),
    [
        (SEQUENCE, "[[1, 2], [3.5]]", [[1.0, 2.0], [3.5]]),
        (SEQUENCE, "[]", []),
        (MAP, '{"3": 0.5, "-1": 2}', {3: 0.5, -1: 2}),
        (map_of(STRING, F32), '{"a": 1}', {"a": 1}),
        (sequence_of(MAP), '[{"3": 0.5}, {}]', [{3: 0.5}, {}]),
        (MAYBE, "null", None),
        (MAYBE, "[[4, 5]]", [[4, 5]]),
        (optional_of(F32), "7", 7.0),
    ],
)
def test_containers_in_json(dtype: DType, text: str, wanted: object) -> None:
    (made,) = make_feeds([TensorSpec("s", dtype, ())], [f"s={text}"], {}).values()
    assert plain(made) == wanted


@pytest.mark.parametrize(
    ("dtype", "text", "fault"),
    [
        (SEQUENCE, "3", "give a list, not 3"),
        (SEQUENCE, '["a"]', "input 's' is float32"),
        (MAP, "[1]", "an object, as in"),
        (MAP, '{"a": 1}', "key 'a' is not an integer"),
        (SEQUENCE, "missing.pb", "cannot be read"),
        (SEQUENCE, "missing.npz", "cannot be read"),
    ],
)
def test_invalid_sequences_and_maps_are_rejected(dtype: DType, text: str, fault: str) -> None:
    with pytest.raises(FeedError, match=fault):
        make_feeds([TensorSpec("s", dtype, ())], [f"s={text}"], {})


@pytest.mark.parametrize("text", ["[", "word", ""])
def test_invalid_json_is_rejected(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="nor JSON"):
        make_feeds([TensorSpec("s", SEQUENCE, ())], [f"s={text}"], {})


def plain(value: object) -> object:
    """Arrays as lists."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_an_archive_is_a_sequence(tmp_path: Path) -> None:
    arrays = [np.full(k, k, np.float32) for k in range(12)]
    np.savez(tmp_path / "s.npz", *arrays)
    made = make_feeds([TensorSpec("s", SEQUENCE, ())], [f"s={tmp_path / 's.npz'}"], {})["s"]
    assert plain(made) == plain(arrays)


def values_of_all_kinds() -> list[tuple[DType, onnx.TensorProto, object]]:
    """Dtypes, messages as ONNX's test data has them, and what they mean."""
    tensor = onnx.numpy_helper.from_array
    floats, numbers = np.array([1, 2], np.float32), np.array([[3]])
    half = tensor(np.asarray(0.5, np.float32))
    mapped = onnx.MapProto(key_type=7, keys=[4, 2], values=onnx.SequenceProto(tensor_values=[half, half]))
    listed = onnx.SequenceProto(elem_type=1, tensor_values=[tensor(floats), tensor(floats[:1])])
    return [
        (F32, tensor(floats), [1.0, 2.0]),
        (SEQUENCE, listed, [[1.0, 2.0], [1.0]]),
        (optional_of(I64), onnx.OptionalProto(elem_type=1, tensor_value=tensor(numbers)), [[3]]),
        (optional_of(I64), onnx.OptionalProto(), None),
        (optional_of(SEQUENCE), onnx.OptionalProto(elem_type=3, sequence_value=listed), [[1.0, 2.0], [1.0]]),
        (MAP, mapped, {4: 0.5, 2: 0.5}),
        (sequence_of(MAP), onnx.SequenceProto(elem_type=4, map_values=[mapped]), [{4: 0.5, 2: 0.5}]),
        (
            map_of(STRING, F32),
            onnx.MapProto(string_keys=[b"a"], values=onnx.SequenceProto(tensor_values=[half])),
            {"a": 0.5},
        ),
    ]


def test_a_folder_of_onnx_test_data_gives_all_inputs(tmp_path: Path) -> None:
    cases = values_of_all_kinds()
    for k, (_, message, _) in enumerate(cases):
        (tmp_path / f"input_{k}.pb").write_bytes(message.SerializeToString())
    specs = [TensorSpec(f"x{k}", dtype, (2,) if k == 0 else ()) for k, (dtype, _, _) in enumerate(cases)]
    made = make_feeds(specs, [str(tmp_path)], {})
    assert [plain(value) for value in made.values()] == [wanted for _, _, wanted in cases]
    alone = make_feeds(specs[1:2], [f"x1={tmp_path / 'input_1.pb'}"], {})
    assert plain(alone["x1"]) == cases[1][2]
    with pytest.raises(FeedError, match=r"8 files input_K.pb; the model has 2 inputs"):
        make_feeds(specs[:2], [str(tmp_path)], {})


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=40), st.sampled_from([F32, SEQUENCE, MAP, MAYBE, sequence_of(MAP)]))
def test_damaged_messages_are_rejected_or_read(data: bytes, dtype: DType) -> None:
    try:
        read_value(data, dtype, "a file")
    except FeedError:
        return


@pytest.mark.parametrize("name", ["some.json", "inf.json"])
def test_results_in_json(tmp_path: Path, name: str) -> None:
    values = {"y": np.array([[1, 2]]), "z": [{0: 0.5, 7: np.inf}], "t": np.array(["a"], object)}
    write_json(tmp_path / name, values)
    assert json.loads((tmp_path / name).read_text()) == {
        "y": [[1, 2]],
        "z": [{"0": 0.5, "7": np.inf}],
        "t": ["a"],
    }


def test_json_has_no_complex_numbers(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="JSON has no complex64"):
        write_json(tmp_path / "a.json", {"y": np.zeros(2, np.complex64)})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("got", "wanted", "most"),
    [
        ([np.ones(2), np.ones(1)], [np.ones(2), np.array([2.0])], 0.5),
        ([{1: 1.0, 2: 3.0}], [{1: 1.0, 2: 4.0}], 0.25),
        ([{1: 1.0}], [{2: 1.0}], np.inf),
        ([np.ones(2)], [], np.inf),
        (None, None, 0.0),
        ([], [], 0.0),
    ],
)
def test_distances_of_containers(got: object, wanted: object, most: float) -> None:
    assert distance(got, wanted).most == pytest.approx(most)


def test_feeds_keep_names_and_dtypes_that_the_format_lacks(tmp_path: Path) -> None:
    bf16 = BF16.numpy
    feeds = {
        "a/b c": np.array([[1.5, -2]], bf16),
        "x": np.arange(3, dtype=np.int8),
        "texts": np.array(["é", ""], object),
    }
    write_feeds(tmp_path / "feeds.npz", feeds)
    found = read_feeds(tmp_path / "feeds.npz")
    assert list(found) == list(feeds) and found["a/b c"].dtype == bf16 and found["x"].dtype == np.int8
    for name, array in feeds.items():
        np.testing.assert_array_equal(found[name], array)
    write_feeds(tmp_path / "none.npz", {})
    assert read_feeds(tmp_path / "none.npz") == {}
