"""A program of the loop IR as one Python source: Triton kernels, and ``run``, which launches them in order on buffers of the caller."""

from __future__ import annotations

import hashlib
import keyword
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from functx.backends.loops.nodes import Call, Copy, Kernel, Loop, MatMul, Place, Program, Step, Storage
from functx.backends.loops.plan import can_fail, writes
from functx.backends.loops.report import sizes_of
from functx.backends.triton.control import loop_lines
from functx.backends.triton.frame import Launch, Parameter, Scratch
from functx.backends.triton.kernels import emit_kernel
from functx.backends.triton.prelude import HEADER, RESERVED, needed_snippets
from functx.backends.triton.types import number, pointer, torch_name
from functx.ir import Literal, Var

MAX_NAMES = 5  # primitives that the name of a kernel tells
GUARD = "if failed(failures): return"
_ARGUMENTS = "inputs, outputs, constants, workspace, failures, functions"


@dataclass(frozen=True)
class KernelText:
    """A kernel of a program.

    Attributes:
      signature: the types of its parameters, by name, as Triton spells them.
    """

    name: str
    signature: dict[str, str]
    warps: int


@dataclass(frozen=True)
class Source:
    """A program as text, and what its caller provides.

    Attributes:
      constants: the arrays that it reads, of the graph and of the bodies of its loops.
      calls: the equations that PyTorch's functions compute, by number.
      checks: whether it can enter failures into their table.
    """

    text: str
    program: Program
    workspace_bytes: int
    constants: list[object]
    calls: tuple[int, ...]
    checks: bool
    kernels: tuple[KernelText, ...]


def emit(program: Program) -> Source:
    """The source of a program."""
    return _ProgramEmitter(program, _Shared()).source()


@dataclass
class _Shared:
    """What the functions of one source have in common."""

    functions: dict[str, str] = field(default_factory=dict)  # kernels by the digest of their text
    kernels: list[KernelText] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    constants: list[object] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    bodies: int = 0
    checks: bool = False


class _ProgramEmitter:
    """Writes ``run``, or the function of a body, which shares kernels with all others."""

    def __init__(self, program: Program, shared: _Shared, name: str = "run"):
        self.program, self.shared, self.name = program, shared, name
        self.arena = -(-program.workspace_bytes // 64) * 64
        self.scratch = 0
        self.body: list[str] = []
        self.names: dict[str, str] = {}  # views of memory, by the expression that makes them
        self.first_constant = len(shared.constants)
        shared.constants += [array for _, array in program.graph.consts]

    @property
    def workspace_bytes(self) -> int:
        """What the function needs: values, then scratch memory of kernels and bodies."""
        return self.arena + self.scratch

    def source(self) -> Source:
        """The whole source."""
        self.function()
        shared = self.shared
        code = "\n\n".join(shared.definitions)
        text = f"{HEADER}\n\n{needed_snippets(code)}{code}"
        return Source(text, self.program, self.workspace_bytes, shared.constants, tuple(shared.calls), shared.checks, tuple(shared.kernels))

    def function(self) -> None:
        """Write the function of the program, after all that it calls."""
        emitters = {Kernel: self._kernel, MatMul: self._matmul, Loop: self._loop, Call: self._call, Copy: self._copy}
        for step in self.program.steps:
            emitters[type(step)](step)
        views = [f"    {name} = {text}" for text, name in self.names.items()]
        lines = [f"def {self.name}({_ARGUMENTS}):", *self._unpacked(), *views, *(f"    {line}" for line in self.body)]
        self.shared.definitions.append("\n".join(lines if len(lines) > 1 else [*lines, "    pass"]) + "\n")

    def _unpacked(self) -> list[str]:
        used = set(re.findall(r"\b[xyc]\d+\b", "\n".join([*self.body, *self.names])))
        lines = []
        for letter, source, first in (("x", "inputs", 0), ("y", "outputs", 0), ("c", "constants", self.first_constant)):
            numbers = sorted(int(name[1:]) for name in used if name[0] == letter)
            lines += [f"    {letter}{k} = {source}[{first + k}]" for k in numbers]
        return lines

    # --- memory ---------------------------------------------------------------------------------------------------------------------------

    def _buffer(self, v: Var) -> str:
        """The name of a buffer, a tensor with all elements of a variable."""
        return self._at(self.program.storage[v], v)

    def _at(self, storage: Storage, v: Var) -> str:
        if storage.place is Place.WORKSPACE:
            count = math.prod(v.aval.shape)
            return self._view(f"part(workspace, {storage.index}, {count}, torch.{torch_name(v.aval.dtype)})")
        return f"{ {Place.INPUT: 'x', Place.OUTPUT: 'y', Place.CONSTANT: 'c'}[storage.place] }{storage.index}"

    def _view(self, text: str) -> str:
        return self.names.setdefault(text, f"w{len(self.names)}")

    def _scratch(self, s: Scratch) -> str:
        return self._view(f"part(workspace, {self.arena + s.offset}, {s.count}, torch.{torch_name(s.dtype)})")

    def _shaped(self, atom: Var | Literal) -> str:
        """An operand in its shape."""
        if isinstance(atom, Literal):
            return f"number(workspace, {number(atom.value)}, torch.{torch_name(atom.aval.dtype)})"
        return f"shaped({self._buffer(atom)}, {tuple(atom.aval.shape)})"

    # --- steps ----------------------------------------------------------------------------------------------------------------------------

    def _primitives(self, eqns: Sequence[int]) -> list[str]:
        graph = self.program.graph
        return list(dict.fromkeys(graph.eqns[i].primitive.name for i in eqns if i >= 0))

    def _describe(self, step: Step) -> str:
        """Which equations a step computes, where they come from, and what it updates."""
        graph = self.program.graph
        names = self._primitives(step.eqns)
        lines = list(dict.fromkeys(graph.eqns[i].source.short for i in step.eqns if i >= 0 and graph.eqns[i].source))
        text = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        places = dict.fromkeys(self.program.storage.get(v) for v in writes(step))
        updated = [f"x{s.index}" for s in places if s is not None and s.place is Place.INPUT]
        text = f"{text or 'copy'}{' (' + ', '.join(lines[:6]) + ')' if lines else ''}"
        return f"{text}: updates {', '.join(updated)} in place" if updated else text

    def _kernel(self, kernel: Kernel) -> None:
        guarded = self._in_arguments(kernel)
        launches, scratch = emit_kernel(kernel, self.program.storage, guarded=guarded)
        self.scratch = max(self.scratch, scratch)
        self.shared.checks |= can_fail(kernel)
        comment = self._describe(kernel)
        self.body.append(f"# {comment}")
        for launch in launches:
            if launch.fill is not None:
                self.body.append(f"{self._scratch(launch.fill)}.fill_(-1)")
            name = self._named(kernel, launch, comment)
            arguments = [self._argument(p) for p in launch.parameters]
            self.body.append(f"{name}[({launch.grid},)]({', '.join(arguments)}, num_warps={launch.warps})")

    def _in_arguments(self, step: Step) -> bool:
        """Whether a step writes into what the caller has, which must stay as it is where a check has failed."""
        places = (self.program.storage.get(v) for v in writes(step))
        return self.name == "run" and self.shared.checks and any(s is not None and s.place is Place.INPUT for s in places)

    def _guard(self, step: Step) -> None:
        """Before a step that knows no table of failures: wait, and go no further where a check has failed."""
        if self._in_arguments(step) and GUARD not in self.body:
            self.body.append(GUARD)

    def _argument(self, p: Parameter) -> str:
        if p.scratch is not None:
            return self._scratch(p.scratch)
        if p.storage is None:
            return "failures"
        name = self._at(p.storage, p.var)
        return f"torch.view_as_real({name})" if p.var.aval.dtype.kind == "c" else name

    def _named(self, kernel: Kernel, launch: Launch, comment: str) -> str:
        """The name of a kernel that is written out, now or before."""
        types = [pointer(p.dtype) for p in launch.parameters]
        digest = hashlib.sha256(f"{launch.text}{types}{launch.warps}".encode()).hexdigest()
        functions = self.shared.functions
        if digest not in functions:
            names = [name.rstrip("_").removeprefix("reduce_") for name in self._primitives(kernel.eqns)] or ["copy"]
            base = "_".join(names[:MAX_NAMES]) + ("_more" if len(names) > MAX_NAMES else "") + launch.suffix
            taken = functions.values()
            free = base not in taken and not keyword.iskeyword(base) and base not in RESERVED
            functions[digest] = name = base if free else f"{base}_{len(functions)}"
            parameters = re.search(r"\((.*)\)", launch.text.splitlines()[1])
            signature = dict(zip(parameters[1].split(", "), types, strict=True)) if types else {}
            self.shared.kernels.append(KernelText(name, signature, launch.warps))
            head = f"# {comment}: {kernel.form.value}, {sizes_of(kernel)}\n"
            self.shared.definitions.append(head + launch.text.replace("{name}", name))
        return functions[digest]

    def _matmul(self, step: MatMul) -> None:
        self._guard(step)
        batch, m, n, k = step.sizes
        self.body.append(f"# {self._describe(step)}: {sizes_of(step)}")
        operands = []
        for operand, (rows, columns) in ((step.x, (m, k)), (step.y, (k, n))):
            b, r, c = operand.strides
            sizes, strides = ((batch, rows, columns), (b, r, c)) if batch != 1 else ((rows, columns), (r, c))
            operands.append(f"matrix({self._buffer(operand.var)}, {sizes}, {strides}, {operand.offset})")
        out = f"shaped({self._buffer(step.out)}, {(batch, m, n) if batch != 1 else (m, n)})"
        self.body.append(f"torch.{'bmm' if batch != 1 else 'mm'}({', '.join(operands)}, out={out})")

    def _loop(self, step: Loop) -> None:
        """A loop or choice on the host; its bodies are functions like ``run``."""
        self._guard(step)
        names = {}
        for parameter, program in step.bodies.items():
            self.shared.bodies += 1
            emitter = _ProgramEmitter(program, self.shared, f"body{self.shared.bodies}")
            emitter.function()
            names[parameter] = emitter.name
            self.scratch = max(self.scratch, emitter.workspace_bytes)
        rest = f"workspace[{self.arena}:]"
        self.body += [f"# {self._describe(step)}", *loop_lines(step, names, self._buffer, rest)]

    def _call(self, step: Call) -> None:
        self._guard(step)
        self.shared.calls.append(step.number)
        inputs, outputs = ", ".join(map(self._shaped, step.inputs)), ", ".join(map(self._buffer, step.outputs))
        self.body.append(f"# {self._describe(step)}: PyTorch's")
        self.body.append(f"apply(functions[{step.number}], [{inputs}], [{outputs}])")

    def _copy(self, step: Copy) -> None:
        self._guard(step)
        if math.prod(step.out.aval.shape):
            self.body.append(f"copy({self._buffer(step.out)}, {self._buffer(step.source)})  # {self._describe(step)}")
