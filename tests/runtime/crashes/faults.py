"""Kernels that crash, in a process of their own."""

from __future__ import annotations

from pathlib import Path

FAULTS = {
    "SIGSEGV": "*(volatile int *)16 = 1;",
    "SIGFPE": "volatile int zero = 0; zero = (int)end / zero;",
    "SIGILL": "__builtin_trap();",
}


PLUGIN = '''
import graphwright.plugins as gp

SOURCE = gp.CSource(r"""
int32_t planted(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    for (int64_t i = begin * arg[0]; i < end * arg[0]; ++i) {
        ((float *)buf[1])[i] = ((const float *)buf[0])[i];
        if (((float *)buf[1])[i] == 7) {
            FAULT
        }
    }
    return 0;
}
""")


@gp.op("Planted")
class Planted(gp.Op):
    """Its operand, without a seven in it."""

    def infer(self, at, x):
        return x.type

    def reference(self, x):
        return x.copy()

    onnx = gp.FromNode("Planted", 1, "test")


@gp.candidate(Planted)
def planted(node, context):
    x = node.operand(0)
    rows, columns = x.type.dims
    function = context.c_function(SOURCE, "planted")
    return gp.Launch(function, (x, node.output), (1,), args=(columns,), grid=rows)
'''


def environment(folder: Path) -> dict[str, str]:
    """Variables of a process that keeps what it writes in ``folder``."""
    return {
        "GRAPHWRIGHT_CACHE_DIR": str(folder),
        "GRAPHWRIGHT_KEY_DIR": str(folder),
        "PATH": "/usr/bin:/bin",
    }
