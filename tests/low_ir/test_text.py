"""The text of task lists: expressions, branches, loops, and names with control characters."""

from __future__ import annotations

from graphwright.ir.types import F32
from graphwright.kernels.ref import KernelRef
from graphwright.low_ir.tasks import (
    Binding,
    Block,
    Buffer,
    Code,
    FunctionOperand,
    HostFunction,
    Instruction,
    Operand,
    Storage,
    Task,
    TaskGraph,
    TaskKind,
)
from graphwright.low_ir.text import print_program

PROGRAM = TaskGraph(
    inputs=(Binding("x\x1b", F32, (0, 2)),),
    outputs=(Binding("y", F32, (0, 2)),),
    shape=(
        Instruction(Code.DIM, 0, 0),
        Instruction(Code.CONST, 4),
        Instruction(Code.CONST, 3),
        Instruction(Code.DIM, 0, 1),
        Instruction(Code.CHECK_EQ, 3, 2, "axis 1 is 3\n(node a)"),
        Instruction(Code.MUL, 0, 1),  # 5: d0*4
        Instruction(Code.CONST, -1),
        Instruction(Code.ADD, 5, 6),  # 7: d0*4 - 1
        Instruction(Code.MUL, 7, 7),  # 8
        Instruction(Code.FLOORDIV, 8, 2),  # 9
        Instruction(Code.SUB, 1, 7),  # 10: 4 - (d0*4 - 1)
    ),
    buffers=(
        Buffer(Storage.INPUT, 5),
        Buffer(Storage.OUTPUT, 5, 0, (), "y"),
        Buffer(Storage.WEIGHT, 1, 128, (), "w"),
        Buffer(Storage.ARENA, 9, 0, (), "h"),
        Buffer(Storage.SCRATCH, 10),
    ),
    tasks=(
        Task(
            TaskKind.LAUNCH,
            (Operand(0, 6), None, FunctionOperand(1), Operand(3, 1)),
            (3,),
            kernel=0,
            args=(0, 8),
            grid=5,
            scratch=4,
            work=1,
            name="first\n",
        ),
        Task(TaskKind.IF, (Operand(2, 6),), blocks=(1, 2), after=(0,), stream=1),
        Task(TaskKind.LAUNCH, (Operand(3, 6), Operand(1, 6)), (1,), kernel=1, grid=1),
        Task(TaskKind.HOSTCALL, (Operand(3, 6), Operand(1, 6)), (1,), kernel=0),
    ),
    blocks=(Block(0, 2), Block(2, 1), Block(3, 1)),
    kernels=(KernelRef("gw_gemm"), KernelRef("relu_0", "generated")),
    hosts=(HostFunction("Odd[axis=1]", (), ()),),
)

LOOPS = """\
kernel relu_0(x: f32[n0]) sizes(n0) {
  vector i < n0 { x[i] = 0 }
}

kernel other_1() sizes() {
}
"""

EXPECTED = """\
program {
  input "x\\u{1b}": f32[d0, 3]
  output y: f32[d0, 3]
  size d0 = axis 0 of input "x\\u{1b}"
  size d1 = axis 1 of input "x\\u{1b}"
  check d1 == 3  // axis 1 is 3\N{REPLACEMENT CHARACTER}(node a)
  b0 input 0: d0*4 bytes
  b1 output 0 "y": d0*4 bytes
  b2 weight "w": 4 bytes at 128
  b3 arena "h": floordiv((d0*4 - 1)*(d0*4 - 1), 3) bytes
  b4 scratch: 4 - (d0*4 - 1) bytes
  entry {
    t0 launch gw_gemm(b0 + -1, _, function relu_0, out b3 + 4) args(m=d0, n0=(d0*4 - 1)*(d0*4 - 1)) \
grid d0*4 work 4 ns scratch b4  // first\N{REPLACEMENT CHARACTER}
      kernel relu_0(x: f32[n0]) sizes(n0) {
        vector i < n0 { x[i] = 0 }
      }
    t1 if(b2 + -1) stream 1 after t0
    then {
      t2 launch relu_0 in generated(b3 + -1, out b1 + -1) grid 4
        // loops of relu_0: see t0
    }
    else {
      t3 hostcall Odd[axis=1](b3 + -1, out b1 + -1)
    }
  }
}
"""


def test_programs_print_as_what_they_hold() -> None:
    assert print_program(PROGRAM, LOOPS, {"gw_gemm": ("m",)}) == EXPECTED


def test_long_expressions_are_named_once() -> None:
    doubled = [Instruction(Code.DIM, 0, 0)]
    doubled += [Instruction(Code.MUL, i, i) for i in range(60)]
    program = TaskGraph(
        (Binding("x", F32, (0,)),), (), tuple(doubled), (Buffer(Storage.ARENA, 60),), (), (Block(0, 0),), ()
    )
    text = print_program(program)
    assert "size r" in text and len(text) < 10_000
