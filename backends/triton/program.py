"""A program of the loop IR as one Python source: Triton kernels, and ``run``, which launches them in order on buffers of the caller."""

from __future__ import annotations

import hashlib
import keyword
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from functx.backends.loops.control import all_sizes, input_sizes
from functx.backends.loops.formulas import size_name, sizes_in
from functx.backends.loops.nodes import Call, Copy, Kernel, Loop, MatMul, NativeCall, Place, Program, Selection, Step, Storage
from functx.backends.loops.plan import can_fail, writes
from functx.backends.loops.report import sizes_of
from functx.backends.loops.sizes import at_most, ceil_div, hint, symbols
from functx.backends.triton.control import Setting, loop_lines
from functx.backends.triton.frame import Launch, Parameter, Scratch
from functx.backends.triton.kernels import emit_kernel
from functx.backends.triton.launches import warps
from functx.backends.triton.prelude import HEADER, RESERVED, needed_snippets
from functx.backends.triton.text import host_text, shape_text
from functx.backends.triton.types import number, pointer, torch_name
from functx.ir import Literal, Var
from functx.shapes import Size, size

MAX_NAMES = 5  # primitives that the name of a kernel tells
GUARD = "if failed(failures): return"
_ARGUMENTS = "inputs, outputs, constants, workspace, failures, functions"
_SIZES = ", sizes"  # and in programs that are told some, or find some


@dataclass(frozen=True)
class KernelText:
    """A kernel of a program.

    Attributes:
      signature: the types of its parameters, by name, as Triton spells them.
      constants: typical values of those that are known when it is compiled.
    """

    name: str
    signature: dict[str, str]
    constants: dict[str, object]
    warps: int


@dataclass(frozen=True)
class Source:
    """A program as text, and what its caller provides.

    Attributes:
      constants: the arrays that it reads, of the graph and of the bodies of its loops.
      calls: the equations that PyTorch's functions compute, by number.
      checks: whether it can enter failures into their table.
      sizes: the names of sizes, those that the inputs tell first, then those that it finds.
    """

    text: str
    program: Program
    workspace_bytes: Size
    constants: list[object]
    calls: tuple[int, ...]
    checks: bool
    sizes: tuple[str, ...]
    kernels: tuple[KernelText, ...]


def emit(program: Program) -> Source:
    """The source of a program."""
    shared = _Shared(all_sizes(program.graph), frozenset(input_sizes(program.graph)), _has_checks(program))
    return _ProgramEmitter(program, shared).source()


def _has_checks(program: Program) -> bool:
    return any(
        isinstance(step, Kernel) and can_fail(step) or isinstance(step, Loop) and any(map(_has_checks, step.bodies.values()))
        for step in program.steps
    )


@dataclass
class _Shared:
    """What the functions of one source have in common.

    ``told``: the sizes that are known before the call. ``has_checks``: whether a kernel can fail; ``checks``: whether one can so far.
    """

    sizes: tuple[str, ...]
    told: frozenset[str]
    has_checks: bool
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
        self.arena = ceil_div(program.workspace_bytes, 64) * 64
        self.scratch: Size = 0
        self.scratch_of_kernel: str | None = None  # where that has a size which is found on the way
        self.body: list[str] = []
        self.names: dict[str, str] = {}  # views of memory, by the expression that makes them
        self.late: set[str] = set()  # those made on the way
        self.reserved: set[Storage] = set()
        self.first_constant = len(shared.constants)
        shared.constants += [array for _, array in program.graph.consts]

    @property
    def workspace_bytes(self) -> Size:
        """What the function needs: values, then scratch memory of kernels and bodies."""
        return self.arena + self.scratch

    def source(self) -> Source:
        """The whole source."""
        self.function()
        shared = self.shared
        code = "\n\n".join(shared.definitions)
        text = f"{HEADER}\n\n{needed_snippets(code)}{code}"
        facts = shared.constants, tuple(shared.calls), shared.checks, shared.sizes
        return Source(text, self.program, self.workspace_bytes, *facts, tuple(shared.kernels))

    def function(self) -> None:
        """Write the function of the program, after all that it calls."""
        emitters = {
            Kernel: self._kernel,
            MatMul: self._matmul,
            Loop: self._loop,
            Selection: self._selection,
            Call: self._call,
            Copy: self._copy,
        }
        for step in self.program.steps:
            self._reserve(step)
            emitters[type(step)](step)
        if self.name == "run":
            self._leave()
        views = [f"{name} = {text}" for text, name in self.names.items() if name not in self.late]
        head = f"def {self.name}({_ARGUMENTS}{_SIZES if self.shared.sizes else ''}):"
        lines = [*self._told([*views, *self.body]), *self._unpacked(), *views, *self.body]
        self.shared.definitions.append("\n".join([head, *(f"    {line}" for line in lines or ["pass"])]) + "\n")
        if self.name == "run" and self.shared.sizes:
            self._memory()

    def _told(self, lines: Sequence[str]) -> list[str]:
        """The sizes that the function uses and does not find itself."""
        numbers = {size_name(name): k for k, name in enumerate(self.shared.sizes) if name not in self.program.bound}
        return [f"{name} = sizes[{numbers[name]}]" for name in sizes_in("\n".join(lines)) if name in numbers]

    def _memory(self) -> None:
        """Functions that tell what a call needs, the bytes of its workspace and the shapes of results, and then those that it found."""
        told = [(v.aval.shape, self._is_told(v.aval.shape)) for v in self.program.results]
        before = ", ".join(shape_text(shape) if known else "None" for shape, known in told)
        after = ", ".join("None" if known else shape_text(shape) for shape, known in told)
        for name, text in (("memory", f"{host_text(self.workspace_bytes)}, [{before}]"), ("found", f"[{after}]")):
            numbers = {size_name(n): k for k, n in enumerate(self.shared.sizes)}
            lines = [*(f"{n} = sizes[{numbers[n]}]" for n in sizes_in(text)), f"return {text}"]
            self.shared.definitions.append("\n".join([f"def {name}(sizes):", *(f"    {line}" for line in lines)]) + "\n")

    def _unpacked(self) -> list[str]:
        used = set(re.findall(r"\b[xyc]\d+\b", "\n".join([*self.body, *self.names])))
        lines = []
        for letter, source, first in (("x", "inputs", 0), ("y", "outputs", 0), ("c", "constants", self.first_constant)):
            numbers = sorted(int(name[1:]) for name in used if name[0] == letter)
            lines += [f"{letter}{k} = {source}[{first + k}]" for k in numbers]
        return lines

    def _is_told(self, sizes: Iterable[Size]) -> bool:
        return symbols(sizes) <= self.shared.told

    # --- memory ---------------------------------------------------------------------------------------------------------------------------

    def _buffer(self, v: Var) -> str:
        """The name of a buffer, a tensor with all elements of a variable."""
        return self._at(self.program.storage[v], v)

    def _at(self, storage: Storage, v: Var) -> str:
        if storage.place is Place.WORKSPACE:
            return self._part("workspace", storage.index, size(v.aval.shape), v.aval.dtype)
        if storage.place is Place.HEAP:
            self._take_block(storage, v)
        return f"{ {Place.INPUT: 'x', Place.OUTPUT: 'y', Place.CONSTANT: 'c', Place.HEAP: 'h'}[storage.place] }{storage.index}"

    def _part(self, memory: str, start: Size, count: Size, dtype: np.dtype) -> str:
        """A view of memory; one of a size that is found on the way is made there."""
        text = f"part({memory}, {host_text(start)}, {host_text(count)}, torch.{torch_name(dtype)})"
        if text not in self.names:
            self.names[text] = name = f"w{len(self.names)}"
            if memory != "workspace" or not self._is_told((start, count)):
                self.late.add(name)
                self.body.append(f"{name} = {text}")
        return self.names[text]

    def _scratch(self, s: Scratch) -> str:
        if self.scratch_of_kernel is not None:
            return self._part(self.scratch_of_kernel, s.offset, s.count, s.dtype)
        return self._part("workspace", self.arena + s.offset, s.count, s.dtype)

    def _take_scratch(self, nbytes: Size) -> None:
        """Scratch memory for a kernel: in the workspace, or, where its size is found on the way, a block of its own."""
        self.scratch_of_kernel = None
        if self._is_told((nbytes,)):
            self.scratch = at_most(self.scratch, nbytes)
            return
        self.scratch_of_kernel = f"scratch{len(self.body)}"
        self.body.append(f"{self.scratch_of_kernel} = fresh(workspace, {host_text(nbytes)}, torch.uint8)")

    def _reserve(self, step: Step) -> None:
        """Memory for what a step is the first to write, where that is not in the workspace."""
        for v in writes(step):
            storage = self.program.storage[v]
            if isinstance(step, NativeCall) and v in step.grown:
                self.reserved.add(storage)  # it takes it by itself
            elif storage.place is Place.HEAP:
                self._take_block(storage, v)

    def _take_block(self, storage: Storage, v: Var) -> None:
        """A block of a size that is found on the way. What has no elements is written by no step."""
        if storage not in self.reserved:
            self.reserved.add(storage)
            self.body.append(f"h{storage.index} = fresh(workspace, {host_text(size(v.aval.shape))}, torch.{torch_name(v.aval.dtype)})")

    def _leave(self) -> None:
        """Results of a size that was found on the way are handed to the caller."""
        for k, v in enumerate(self.program.results):
            if not self._is_told(v.aval.shape):
                self.body.append(f"outputs[{k}] = {self._buffer(v)}")

    def _shaped(self, atom: Var | Literal) -> str:
        """An operand in its shape."""
        if isinstance(atom, Literal):
            return f"number(workspace, {number(atom.value)}, torch.{torch_name(atom.aval.dtype)})"
        return f"shaped({self._buffer(atom)}, {shape_text(atom.aval.shape)})"

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
        lives = self.program.lives.items()
        local = {v for v, (first, last) in lives if first == last and self.program.steps[first] is kernel}
        launches, scratch = emit_kernel(kernel, self.program.storage, guarded, local)
        self._take_scratch(scratch)
        self.shared.checks |= can_fail(kernel)
        comment = self._describe(kernel)
        self.body.append(f"# {comment}")
        for launch in launches:
            lines = self._launch_lines(launch, self._named(kernel, launch, comment))
            self.body += [launch.when, *(f"    {line}" for line in lines)] if launch.when else lines

    def _launch_lines(self, launch: Launch, name: str) -> list[str]:
        lines = [f"{self._scratch(launch.fill)}.fill_(-1)"] if launch.fill is not None else []
        lines += [f"{host_text(c.size)} = {c.function}({', '.join(map(host_text, c.arguments))})" for c in launch.chosen]
        constants = (text for text, _ in launch.constants.values())
        arguments = ", ".join([*map(self._argument, launch.parameters), *launch.arguments.values(), *constants])
        count = launch.elements
        groups = warps(count) if isinstance(count, int) else f"warps({host_text(count)})"
        return [*lines, f"{name}[({host_text(launch.grid)},)]({arguments}, num_warps={groups})"]

    def _in_arguments(self, step: Step) -> bool:
        """Whether a step writes into what the caller has, which must stay as it is where a check has failed."""
        places = (self.program.storage.get(v) for v in writes(step))
        return self.name == "run" and self.shared.checks and any(s is not None and s.place is Place.INPUT for s in places)

    def _guard(self, step: Step) -> None:
        """Before a step that knows no table of failures: wait, and go no further where a check has failed."""
        if self.shared.has_checks and isinstance(step, Call) and self.program.graph.eqns[step.eqn].effect:
            self.body.append("stop(failures)")  # also in a loop, which a failed check does not end
        elif self._in_arguments(step) and GUARD not in self.body:
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
        types += ["i32"] * len(launch.arguments) + ["constexpr"] * len(launch.constants)
        groups = warps(hint(launch.elements))
        digest = hashlib.sha256(f"{launch.text}{types}{groups}".encode()).hexdigest()
        functions = self.shared.functions
        if digest not in functions:
            names = [name.rstrip("_").removeprefix("reduce_") for name in self._primitives(kernel.eqns)] or ["copy"]
            base = "_".join(names[:MAX_NAMES]) + ("_more" if len(names) > MAX_NAMES else "") + launch.suffix
            taken = functions.values()
            free = base not in taken and not keyword.iskeyword(base) and base not in RESERVED
            functions[digest] = name = base if free else f"{base}_{len(functions)}"
            parameters = re.search(r"\((.*)\)", launch.text.splitlines()[1])[1].replace(": tl.constexpr", "").split(", ")
            signature = dict(zip(parameters, types, strict=True)) if types else {}
            constants = {constant: typical for constant, (_, typical) in launch.constants.items()}
            self.shared.kernels.append(KernelText(name, signature, constants, groups))
            head = f"# {comment}: {kernel.form.value}, {sizes_of(kernel)}\n"
            self.shared.definitions.append(head + launch.text.replace("{name}", name))
        return functions[digest]

    def _matmul(self, step: MatMul) -> None:
        self._guard(step)
        batch, m, n, k = step.sizes
        self.body.append(f"# {self._describe(step)}: {sizes_of(step)}")
        one = isinstance(batch, int) and batch == 1
        operands = []
        for operand, (rows, columns) in ((step.x, (m, k)), (step.y, (k, n))):
            b, r, c = operand.strides
            sizes, strides = ((rows, columns), (r, c)) if one else ((batch, rows, columns), (b, r, c))
            place = f"{shape_text(sizes)}, {shape_text(strides)}, {host_text(operand.offset)}"
            operands.append(f"matrix({self._buffer(operand.var)}, {place})")
        out = f"shaped({self._buffer(step.out)}, {shape_text((m, n) if one else (batch, m, n))})"
        self.body.append(f"torch.{'mm' if one else 'bmm'}({', '.join(operands)}, out={out})")

    def _loop(self, step: Loop) -> None:
        """A loop or choice on the host; its bodies are functions like ``run``."""
        self._guard(step)
        names = {}
        for parameter, program in step.bodies.items():
            self.shared.bodies += 1
            emitter = _ProgramEmitter(program, self.shared, f"body{self.shared.bodies}")
            emitter.function()
            names[parameter] = emitter.name
            self.scratch = at_most(self.scratch, emitter.workspace_bytes)
        slots = {name: k for k, name in enumerate(self.shared.sizes)}
        setting = Setting(names, self._buffer, f"workspace[{host_text(self.arena)}:]", slots, self.shared.has_checks)
        lines = loop_lines(step, setting)
        self.body += [f"# {self._describe(step)}", *lines]

    def _call(self, step: Call) -> None:
        self._guard(step)
        inputs, outputs = ", ".join(map(self._shaped, step.inputs)), ", ".join(map(self._buffer, step.outputs))
        whose = "Python" if self.program.graph.eqns[step.eqn].primitive.family == "callback" else "PyTorch"
        self.body.append(f"# {self._describe(step)}: {whose}'s")
        self.body.append(f"apply({self._function(step)}, [{inputs}], [{outputs}])")

    def _function(self, step: Call) -> str:
        """PyTorch's function for an equation; where sizes are parameters of it, at those that are known by now."""
        self.shared.calls.append(step.number)
        return f"functions[{step.number}]{'(sizes)' if self.program.graph.eqns[step.eqn].symbolic else ''}"

    def _selection(self, step: Selection) -> None:
        """Places that data selects: their number is looked at, which waits for the device; and promises about sizes."""
        self._guard(step)
        self.shared.calls.append(step.number)
        call = f"functions[{step.number}]({', '.join(map(self._shaped, step.inputs))})"
        self.body.append(f"# {self._describe(step)}")
        if step.binds is None:
            self.body.append(call)
            return
        (out,) = map(self._buffer, step.outputs)
        slot = self.shared.sizes.index(step.binds.name)
        self.body += [f"({out},) = {call}", f"{size_name(step.binds.name)} = sizes[{slot}] = {out}.numel()"]

    def _copy(self, step: Copy) -> None:
        self._guard(step)
        if size(step.out.aval.shape) != 0:
            self.body.append(f"copy({self._buffer(step.out)}, {self._buffer(step.source)})  # {self._describe(step)}")
