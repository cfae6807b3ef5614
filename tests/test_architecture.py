"""What the source may import and spell: the order of the packages, foreign engines, names of ops."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Set
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from graphwright import ops
from graphwright.ir.op import registered_ops

ops.load()
ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "graphwright"
FILES = sorted(SOURCE.rglob("*.py"))
FOREIGN = ("onnx.reference", "onnxruntime", "openvino", "torch", "scipy", "numba", "jax", "tensorflow")
"""Other engines, and what carries a BLAS of its own."""
IMPORTS_BY_NAME = {
    "__init__.py": "the public names, each imported when it is first used",
    "kernels/candidates/registry.py": "all modules of a package",
    "kernels/library/write.py": "all modules of a package, by the build",
    "onnxruntime/install.py": "the module that takes another's place",
    "onnxruntime/installed.py": "modules of an installed package, under their own names",
    "ops/__init__.py": "all modules of a package",
    "plugin_loading.py": "users' modules",
    "targets/registry.py": "all folders of a package",
    "tools/cli.py": "the module of a command",
}
"""Files that import modules of this package or of users by name, which no contract of pyproject.toml sees."""
BENCHMARKED = {
    "tools/measuring/engines.py": ("onnxruntime", "openvino", "torch"),
    "tools/measuring/one_run.py": ("onnxruntime",),
}
"""Files that run other engines for comparison, on request."""
SERVES_PYTORCH = ("frontends/torch/", "torch/")
"""Folders for those who have PyTorch."""


RULES_BY_OP = {
    "compiler/host_nodes.py": "loops",
    "compiler/host_program.py": "sizes that the host binds",
    "fusion/kernel_cost.py": "matrix multiplications and convolutions",
    "fusion/kernel_nodes.py": "operations that kernels of contractions apply as they store",
    "fusion/region_names.py": "a product and its bias is a linear layer",
    "fusion/siblings.py": "products of one left factor",
    "fusion/splits.py": "contractions whose kernels were measured",
    "layout/channels_last.py": "the Transposes that it makes",
    "layout/channels_last_forms.py": "Transpose, convolutions and products",
    "layout/convolution_costs.py": "what blocked convolutions save",
    "layout/fold_depth.py": "3-D convolutions",
    "layout/pool_costs.py": "what blocked pooling saves",
    "layout/row_stores.py": "what the kernel of convolutions can store",
    "passes/algebraic.py": "identities of arithmetic",
    "passes/buckets.py": "the Case over buckets that it makes",
    "passes/byte_tables.py": "the tables that it makes",
    "passes/canonicalize_gathers.py": "Gather of an order",
    "passes/canonicalize_scatters.py": "ScatterND of a slice",
    "passes/canonicalize_loops.py": "loops",
    "passes/canonicalize_concats.py": "Concat of slices",
    "passes/canonicalize_reshapes.py": "Reshape",
    "passes/canonicalize_sequences.py": "sequences and optionals",
    "passes/canonicalize_transposes.py": "Transpose",
    "passes/carried_values.py": "loops",
    "passes/conv_to_matmul.py": "convolutions of one window",
    "passes/dynamic_sizes.py": "a limit of inference",
    "passes/fold_constants.py": "ConstantOfShape, a constant as it is",
    "passes/fold_conv_bn.py": "convolutions and normalizations",
    "passes/fold_quantize_scale.py": "sums and products of bytes as exporters write them",
    "passes/fold_requantize.py": "conversions between bytes",
    "passes/attention_operands.py": "transposes, scales and repeats around attention",
    "passes/fuse_attention.py": "attention as exporters write it",
    "passes/integer_products.py": "products of bytes as exporters write them",
    "passes/integer_weights.py": "products with integer weights as PyTorch writes them",
    "passes/loop_invariants.py": "loops",
    "passes/merge_conv_branches.py": "sums of convolutions",
    "passes/lower_precision.py": "products, convolutions and attention in bf16",
    "passes/quantize_weights.py": "products whose weights are rounded",
    "passes/scale_weights.py": "convolutions of scaled images",
    "passes/sink_dequantize.py": "pooling of bytes as exporters write it",
    "passes/sink_resizes.py": "resized images that convolutions read",
    "passes/split_products.py": "products whose results are split",
    "passes/swap_operands.py": "products between transposes",
    "passes/tail_duplication.py": "branches of different rank",
    "passes/translate.py": "nodes that the import put off",
    "passes/weight_only_quantization.py": "products of weights of few bits",
    "passes/widen_halves.py": "products, and what has kernels for f32 alone",
}
"""Passes about ops of a name, with what they are about. All others ask traits and interfaces of ``ir``."""
ABOUT_ALL_OPS = (
    "ir",
    "passes",
    "layout",
    "fusion",
    "loop_nests",
    "compiler",
    "low_ir",
    "lower",
    "memory",
    "schedule",
    "targets",
)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(tree: ast.AST) -> Iterator[str]:
    """Names of all modules imported, and of what is taken from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            named = called in ("import_module", "__import__") and node.args
            if named and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)


def texts(tree: ast.AST) -> Iterator[ast.Constant]:
    """String literals that are no docstrings, no names under which classes register, and not in __all__."""
    exempt: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            exempt.add(node.value)
        elif isinstance(node, ast.ClassDef):
            exempt.update(inner for decorator in node.decorator_list for inner in ast.walk(decorator))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            exempt.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in exempt:
            yield node


def test_packages_import_in_the_order_of_the_path() -> None:
    """These are the contracts of pyproject.toml."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_other_engine_is_imported() -> None:
    found = []
    for path in FILES:
        where = path.relative_to(SOURCE).as_posix()
        allowed = ("torch",) if where.startswith(SERVES_PYTORCH) else BENCHMARKED.get(where, ())
        refused = tuple(f"{name}." for name in FOREIGN if name not in allowed)
        found += [
            f"{where} imports {name}" for name in imported(parsed(path)) if f"{name}.".startswith(refused)
        ]
    assert found == []


def imports_own_by_name(tree: ast.AST) -> bool:
    """Whether modules are imported by a name that is made up, or begins with this package's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if called in ("import_module", "__import__"):
                name = node.args[0]
                if not isinstance(name, ast.Constant) or str(name.value).startswith("graphwright"):
                    return True
    return False


def test_only_listed_places_import_modules_by_name() -> None:
    """The contracts see all other edges, including imports inside functions."""
    found = {path.relative_to(SOURCE).as_posix() for path in FILES if imports_own_by_name(parsed(path))}
    assert found == IMPORTS_BY_NAME.keys()


def runtime_edges(path: Path, known: Set[str]) -> set[str]:
    """The modules of ``known`` that a module imports at run time, also inside functions."""
    tree = parsed(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    names = set(imported(tree))
    return {name if name in known else name.rpartition(".")[0] for name in names} & known


def test_there_are_no_import_cycles() -> None:
    """There is no import cycle of any length; an import inside a function would hide one."""
    named = {module_name(path): path for path in FILES}
    edges = {name: runtime_edges(path, named.keys() - {name}) for name, path in named.items()}
    order = list(TopologicalSorter(edges).static_order())
    assert len(order) == len(FILES) and sum(map(len, edges.values())) > 2000


def module_name(path: Path) -> str:
    """The module name of a file, as imports spell it."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_passes_about_all_ops_import_none() -> None:
    """A new op then needs no change of these passes: its own file has all that they ask for."""
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in FILES
        if path.relative_to(SOURCE).parts[0] in ABOUT_ALL_OPS
        and any(name.startswith("graphwright.ops.") for name in imported(parsed(path)))
    }
    assert found == RULES_BY_OP.keys()


def test_every_module_and_package_says_what_it_is_for() -> None:
    silent = [file for file in FILES if ast.get_docstring(ast.parse(file.read_text())) is None]
    assert silent == []


def test_names_of_ops_are_spelled_in_ops_alone() -> None:
    """All other code uses classes and traits; ``export`` spells the ops of ONNX that it writes."""
    names = set(registered_ops())
    found = [
        f"{path.relative_to(SOURCE)}:{text.lineno}: {text.value}"
        for path in FILES
        if path.relative_to(SOURCE).parts[0] not in ("ops", "export")
        for text in texts(parsed(path))
        if text.value in names
    ]
    assert found == []


def test_classes_use_the_lazy_dataclass_decorator() -> None:
    """The decorator of the standard library takes 0.5 ms per class, in every import and compilation."""
    costly = {"dataclasses.dataclass", "dataclasses.field", "dataclasses.replace"}
    found = {path.name for path in FILES if costly & set(imported(parsed(path)))}
    assert found <= {"records.py"}


RATES = re.compile(
    r"GFLOP|GOPS|GBPS|GB_?S\b|(BYTES|ELEMENTS)_PER_NS|_NS(_PER\w*)?$|L[123]_BYTES|CAPACITY|CLOCK", re.I
)
"""Names of speeds, times and sizes of caches."""
COMPILER = {
    *("compiler", "fusion", "kernels", "layout", "loop_nests", "low_ir", "lower", "memory", "schedule"),
    "targets",
}


def is_number(value: ast.expr) -> bool:
    """Whether numbers are written in ``value``."""
    return any(isinstance(n, ast.Constant) and isinstance(n.value, int | float) for n in ast.walk(value))


def constants(tree: ast.Module) -> Iterator[str]:
    """Names that a module gives to numbers."""
    for statement in tree.body:
        match statement:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
                if is_number(value):
                    yield name


def test_rates_of_the_machine_stand_in_one_table() -> None:
    """Kernels state their work; :mod:`graphwright.cost.machine` states how long it takes."""
    assert list(constants(ast.parse("A_NS = 3\nB_GBPS: Final = {'v3': 10}"))) == ["A_NS", "B_GBPS"]
    found = {
        f"{path.relative_to(SOURCE)}: {name}"
        for path in FILES
        if path.relative_to(SOURCE).parts[0] in COMPILER
        for name in constants(parsed(path))
        if RATES.search(name)
    }
    assert found == set()


@pytest.mark.parametrize("name", ["benchmarks.report", "docs.make_path"])
def test_installed_packages_do_not_hide_folders_of_the_tree(name: str, tmp_path: Path) -> None:
    """A package of the same name anywhere on the path would hide a folder without ``__init__.py``."""
    folder, module = name.split(".")
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "__init__.py").touch()
    find = f"import sys; sys.path.append({str(tmp_path)!r}); from importlib.util import find_spec; "
    found = subprocess.run(
        [sys.executable, "-c", f"{find}print(find_spec({name!r}).origin)"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(found.stdout.strip()) == ROOT / folder / f"{module}.py"
