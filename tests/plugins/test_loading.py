"""Loading plugins: by path, name and entry point, once each; one clear error where that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import graphwright as gw
from graphwright.config import Options, to_environment
from graphwright.ir.op import registered_ops, registry
from tests.tools.support import graphwright

from .support import EXAMPLES, PLUGINS, isolated, node, node_model

OP = """
from graphwright.plugins import Op, op

@op("{name}")
class {name}(Op):
    def infer(self, at, x):
        return x.type

    def reference(self, x):
        return x
"""

RULE = """
from graphwright.plugins import P, Op, Rule, always, register
register(Rule("mine", P(Op), always, lambda b, m: None))
"""


def written(file: str, text: str) -> str:
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(text)
    return file


def test_a_file_is_loaded_once() -> None:
    file = written("twice.py", OP.format(name="Twice"))
    (first,) = gw.plugins.load(file)
    assert gw.plugins.load(file, Path(file).resolve()) == (first, first)
    assert "Twice" in registered_ops()


def test_a_file_that_was_changed_within_a_second_is_read_again() -> None:
    """Python's cached bytecode would count as current: the size and the second are the same."""
    for name in ("Before", "Afters"):
        file = written("changed.py", OP.format(name=name))
        os.utime(file, (10, 10))
        with isolated():
            gw.plugins.load(file)
            assert name in registered_ops()


def test_a_module_is_loaded_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    written("folder/named_plugin.py", OP.format(name="Named"))
    monkeypatch.syspath_prepend("folder")
    (module,) = gw.plugins.load("named_plugin")
    assert module is sys.modules["named_plugin"] and "Named" in registered_ops()
    assert gw.plugins.load("folder/named_plugin.py") == (module,)  # the same file


def test_plugin_files_import_others_of_their_folder_in_any_order() -> None:
    written("folder/first.py", OP.format(name="First"))
    written("folder/second.py", "from first import First\n" + OP.format(name="Second"))
    gw.plugins.load("folder/first.py", "folder/second.py")
    written("other/third.py", "import fourth\n" + OP.format(name="Third"))
    written("other/fourth.py", OP.format(name="Fourth"))
    gw.plugins.load("other/third.py", "other/fourth.py")
    assert {"First", "Second", "Third", "Fourth"} <= registered_ops().keys()


def installed(monkeypatch: pytest.MonkeyPatch, module: str, text: str, entry: str = "mine") -> None:
    """A package with an entry point, as pip leaves it."""
    written(f"site/{module}.py", text)
    folder = Path(f"site/{module}-1.0.dist-info")
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[graphwright.plugins]\n{entry} = {module}\n")
    monkeypatch.syspath_prepend("site")


def test_installed_plugins_are_loaded_before_a_model_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "installed_plugin", (EXAMPLES / "snake.py").read_text())
    with pytest.raises(gw.ModelError, match="Snake"):
        gw.compile(node_model(node("Snake")), options=gw.CompileOptions(no_autoload=True))
    assert "Snake" in gw.compile(node_model(node("Snake"))).package.plugins


def test_installed_plugins_are_loaded_for_packages_that_need_them(monkeypatch: pytest.MonkeyPatch) -> None:
    gw.plugins.load(PLUGINS["median"])
    gw.compile(node_model(node("Median"))).save("median.om")
    gw.plugins.autoload.cache_clear()
    del registry._REGISTRY["Median"]
    installed(monkeypatch, "installed_median", (EXAMPLES / "median.py").read_text())
    with pytest.raises(gw.PackageError, match="missing-plugin"):
        gw.load("median.om", options=gw.CompileOptions(no_autoload=True))
    assert gw.load("median.om").outputs[0].shape == ("N",)


def test_installed_plugins_are_loaded_by_the_name_of_their_entry_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch, "some_module", OP.format(name="ByEntry"), entry="short-name")
    gw.plugins.load("short-name")
    assert "ByEntry" in registered_ops()


def test_an_installed_plugin_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "broken_plugin", "x = 1\n1 / 0\n")
    with pytest.raises(gw.PluginError, match=r"broken_plugin\.py:2.*ZeroDivisionError") as caught:
        gw.compile(node_model(onnx.helper.make_node("Relu", ["x"], ["y"])))
    assert "the installed plugin 'mine' of broken_plugin" in str(caught.value)
    assert "--no-autoload" in str(caught.value)


def test_options_and_the_environment_name_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(plugins=(str(PLUGINS["snake"]), str(PLUGINS["median"])))
    assert "Snake" in gw.compile(node_model(node("Snake")), options=options).package.plugins
    monkeypatch.setenv("GRAPHWRIGHT_PLUGINS", to_environment(options)["GRAPHWRIGHT_PLUGINS"])
    assert Options.from_environment().plugins == options.plugins
    assert gw.compile(node_model(node("Median"))).package.plugins == {"Median": "median.py"}


FAULTS = {
    "there is no file 'absent.py'": ("absent.py", None),
    "there is no module 'absent_module'": ("absent_module", None),
    "broken.py:2: cannot be loaded: ZeroDivisionError: division by zero": ("broken.py", "x = 1\n1 / 0\n"),
    "syntax.py:2: cannot be read": ("syntax.py", "x = 1\nthis is no Python at all\n"),
    "leaves.py:2: cannot be loaded: SystemExit": ("leaves.py", "import sys\nsys.exit(3)\n"),
    "lacks.py:1: cannot be loaded: ModuleNotFoundError: No module named 'missing_dep'": (
        "lacks.py",
        "import missing_dep\n",
    ),
    "empty.py: it registers no op, kernel, rule or pass": ("empty.py", "x = 1\n"),
    "op 'Softmax' of clash.py has the same name as an op of graphwright": (
        "clash.py",
        OP.format(name="Softmax"),
    ),
    "op 'Odd': 'Odd' is not a subclass of Op": ("odd.py", OP.format(name="Odd").replace("(Op)", "")),
    "op 'my op': a name consists of letters": ("named.py", OP.format(name="Odd").replace('"Odd"', '"my op"')),
    "plugin-class": ("number.py", "from graphwright.plugins import register\nregister(3)\n"),
    "there is no pipeline point 'nowhere'": (
        "point.py",
        RULE.replace("None))", "None), at='nowhere')"),
    ),
    "needs a pattern P(...) and two functions": (
        "rule.py",
        "from graphwright.plugins import *\nregister(Rule('r', Op, None, None))\n",
    ),
    "kernel k: <class 'int'> is not a registered op": (
        "kernel.py",
        "from graphwright.plugins import candidate\n@candidate(int)\ndef k(node, context):\n    return ''\n",
    ),
    "Relu has an expression, so this kernel would never be used": (
        "relu.py",
        "from graphwright.plugins import candidate\nfrom graphwright.ops.core.unary import Relu\n"
        "@candidate(Relu)\ndef k(node, context):\n    return ''\n",
    ),
    "nofile.py:2: cannot be loaded: FileNotFoundError": (
        "nofile.py",
        "from graphwright.plugins import CSource\nCSource.read('absent.c')\n",
    ),
}


@pytest.mark.parametrize("message", FAULTS)
def test_a_plugin_that_fails_is_one_error(message: str) -> None:
    plugin, text = FAULTS[message]
    if text is not None:
        written(plugin, text)
    with pytest.raises(gw.PluginError) as caught:
        gw.plugins.load(plugin)
    assert message in str(caught.value)
    assert len(caught.value.diagnostics) == 1
    assert plugin not in sys.modules


def test_the_command_shows_the_error_and_ends() -> None:
    written("broken.py", "1 / 0\n")
    onnx.save(node_model(node("Snake")), "model.onnx")
    for verb in ("compile", "run", "check", "inspect", "bench"):
        done = graphwright(verb, "model.onnx", "--plugin", "broken.py")
        assert done.exit_code == 1
        assert "broken.py:1: cannot be loaded: ZeroDivisionError" in done.stderr
        assert "Traceback" not in done.stderr
    assert not Path("model.om").exists()


def test_a_plugin_can_be_mended_and_loaded_again() -> None:
    written("mended.py", OP.format(name="Mended") + "1 / 0\n")
    with pytest.raises(gw.PluginError, match="ZeroDivisionError"):
        gw.plugins.load("mended.py")
    written("mended.py", OP.format(name="Mended") + "# all is well\n")
    gw.plugins.load("mended.py")


def test_two_plugins_clash() -> None:
    gw.plugins.load(written("one.py", OP.format(name="Same")))
    with pytest.raises(gw.PluginError, match=r"op 'Same' of two\.py has .* of the plugin one\.py"):
        gw.plugins.load(written("two.py", OP.format(name="Same")))
    with pytest.raises(gw.PluginError, match=r"has the same name.*\n.*rename one of them"):
        gw.plugins.load(written("folder/one.py", OP.format(name="Other")))


def test_a_plugin_that_is_imported_before_the_built_in_ops_clashes_as_well() -> None:
    """The plugin is at fault in both orders of import."""
    written("early.py", OP.format(name="Softmax"))
    code = "import early, graphwright as gw; gw.plugins.load()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "op 'Softmax' of early has the same name as an op of graphwright" in done.stderr


def test_rules_and_mappings_clash() -> None:
    gw.plugins.load(written("one_rule.py", RULE))
    with pytest.raises(gw.PluginError, match=r"'rule mine' of two_rule\.py .* of one_rule\.py"):
        gw.plugins.load(written("two_rule.py", RULE))


def test_two_ops_that_map_one_node_clash() -> None:
    mapping = '    onnx = {("Relu", 6): lambda i: i.emit(Mapped(), i.input(0))}\n'
    gw.plugins.load(written("mapped.py", OP.format(name="Mapped") + mapping))
    with pytest.raises(gw.PluginError, match=r"Mapped maps \('Relu', 6\), which Relu already maps"):
        gw.compile(node_model(onnx.helper.make_node("Relu", ["x"], ["y"])))
