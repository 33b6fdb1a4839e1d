"""A program of the loop IR as one C++ source: kernels as functions, and ``run``, which calls them in order."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from functx.backends.cpp.control import TASKS, Setting, loop_lines
from functx.backends.cpp.executable import Interface
from functx.backends.cpp.functions import math_snippet
from functx.backends.cpp.kernels import Function, emit_kernel, parallel_for
from functx.backends.cpp.prelude import HEADER, needed_snippets
from functx.backends.cpp.selections import selection_lines
from functx.backends.cpp.sorting import sort_function
from functx.backends.cpp.text import size_text
from functx.backends.cpp.types import ctype, literal, stored
from functx.backends.loops.control import all_sizes, has_lanes
from functx.backends.loops.formulas import size_name, sizes_in
from functx.backends.loops.nodes import (
    Call,
    Copy,
    Kernel,
    Loop,
    MatMul,
    Matrix,
    NativeCall,
    Place,
    Program,
    Selection,
    Sort,
    Step,
    Storage,
)
from functx.backends.loops.plan import writes
from functx.backends.loops.report import sizes_of
from functx.backends.loops.sizes import at_most, ceil_div, hint, nbytes
from functx.ir import Literal, Var
from functx.shapes import Size

EMBEDDED_BYTES = 4096  # larger constants are passed as inputs
LANES_BYTES = 1 << 22  # threads share the steps of a loop if their memory, side by side, takes no more


@dataclass(frozen=True)
class Source:
    """C++ and what is known of it."""

    text: str
    interface: Interface
    blas: bool
    kernels: int  # functions; several steps may call one
    program: Program


def emit(program: Program, threshold: int, vector_math: frozenset[str]) -> Source:
    """The source of a program. ``vector_math``: functions such as ``expf`` of which the platform has vector versions."""
    return _ProgramEmitter(program, threshold, vector_math).run()


class _ProgramEmitter:
    """Writes ``run``, or, below another emitter, the function of a body, which shares kernels with all others."""

    def __init__(self, program: Program, threshold: int, vector_math: frozenset[str], above: _ProgramEmitter | None = None):
        self.program, self.threshold, self.vector_math = program, threshold, vector_math
        self.functions: dict[str, str] = above.functions if above else {}
        self.calls: list[int] = above.calls if above else []
        self.names: list[str] = above.names if above else []
        self.name = f"body{len(self.names)}" if above else "run"
        self.names.append(self.name)
        self.body: list[str] = []
        self.scratch: Size = 0
        self.arena = ceil_div(program.workspace_bytes, 64) * 64
        self.sizes = above.sizes if above else all_sizes(program.graph)
        self.reserved: set[Storage] = set()
        inputs = len(program.graph.inputs)
        big = [k for k, (_, array) in enumerate(program.graph.consts) if array.nbytes > EMBEDDED_BYTES]
        self.passed = {k: inputs + i for i, k in enumerate(big)}

    def run(self) -> Source:
        """The whole source."""
        code = "\n".join(self.function())
        routines = self._math(code)
        text = "\n".join([HEADER, *needed_snippets("\n".join([*routines, code])), *routines, code])
        interface = Interface(self.workspace_bytes, tuple(self.passed), tuple(self.calls))
        return Source(text, interface, "matmul<" in code, len(self.functions), self.program)

    @property
    def workspace_bytes(self) -> Size:
        """What the function needs: values, then scratch memory of kernels and bodies, one after the other."""
        return self.arena + self.scratch

    def function(self) -> list[str]:
        """The function of the program, after all that it calls."""
        definitions = []
        for step in self.program.steps:
            self._reserve(step)
            if isinstance(step, Kernel):
                definitions += self._kernel(step)
            elif isinstance(step, MatMul):
                self._matmul(step)
            elif isinstance(step, Sort):
                definitions += self._sort(step)
            elif isinstance(step, Loop):
                definitions += self._loop(step)
            elif isinstance(step, Selection):
                self._selection(step)
            elif isinstance(step, Call):
                self._call(step)
            else:
                self._copy(step)
        kind = 'extern "C" int' if self.name == "run" else "static int"
        if self.name == "run":
            self._leave()
        lines = [*self._sizes(), *self.body]
        body = [f"{kind} {self.name}(FunctxCall* call) {{", *("  " + line for line in lines), "  return FUNCTX_OK;", "}", ""]
        return [*self._constants(), *definitions, *body]

    def _sizes(self) -> list[str]:
        """Declarations of the sizes that the function uses, and of memory for values whose size it finds on the way."""
        names = {size_name(name): (k, name in self.program.bound) for k, name in enumerate(self.sizes)}
        used = [(name, *names[name]) for name in sizes_in("\n".join(self.body))]
        out = [f"int64_t {name} = 0;" if bound else f"const int64_t {name} = call->dims[{k}];" for name, k, bound in used]
        return out + [f"Block block{s.index};" for s in self.reserved]

    def _reserve(self, step: Step) -> None:
        """Memory for what a step is the first to write, where that is not in the workspace. A loop lets its stacks grow by itself."""
        for v in writes(step):
            storage = self.program.storage[v]
            if storage.place is Place.HEAP and storage not in self.reserved:
                self.reserved.add(storage)
                if not (isinstance(step, NativeCall) and v in step.grown):
                    n = size_text(nbytes(v))
                    self.body.append(f"if (!block{storage.index}.reserve({n})) return out_of_memory(call, {n});")

    def _math(self, code: str) -> list[str]:
        called = dict.fromkeys(re.findall(r"\bmath_(\w+)\(", code))
        return [math_snippet(function, function in self.vector_math) for function in called]

    # --- memory ---------------------------------------------------------------------------------------------------------------------------

    def _address(self, v: Var) -> str:
        storage = self.program.storage[v]
        if storage.place is Place.INPUT:
            return f"call->inputs[{storage.index}]"
        if storage.place is Place.OUTPUT:
            return f"call->outputs[{storage.index}]"
        if storage.place is Place.WORKSPACE:
            return f"((char*)call->workspace + {size_text(storage.index)})"
        if storage.place is Place.HEAP:
            return f"block{storage.index}.data"
        at = self.passed.get(storage.index)
        return f"call->inputs[{at}]" if at is not None else self._constant(storage.index)

    def _constant(self, k: int) -> str:
        return f"constant{k}" if self.name == "run" else f"{self.name}_constant{k}"

    def _pointer(self, v: Var) -> str:
        return f"({stored(v.aval.dtype)}*){self._address(v)}"

    def _constants(self) -> list[str]:
        out = []
        for k, (v, array) in enumerate(self.program.graph.consts):
            if k not in self.passed and array.size:
                values = ", ".join(literal(x) for x in array.ravel())
                out.append(f"alignas(64) static const {stored(v.aval.dtype)} {self._constant(k)}[] = {{{values}}};")
            elif k not in self.passed:
                out.append(f"static const {stored(v.aval.dtype)} {self._constant(k)}[1] = {{}};")
        return out

    # --- steps ----------------------------------------------------------------------------------------------------------------------------

    def _describe(self, eqns: tuple[int, ...]) -> str:
        """Which equations a step computes and where they come from."""
        graph = self.program.graph
        known = [graph.eqns[i] for i in eqns if i >= 0]
        names = list(dict.fromkeys(eqn.primitive.name for eqn in known))
        lines = list(dict.fromkeys(eqn.source.short for eqn in known if eqn.source))
        text = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        return f"{text or 'copy'}{' (' + ', '.join(lines[:6]) + ')' if lines else ''}"

    def _in_place(self, step: Step) -> str:
        """Which inputs a step updates, as the end of a comment."""
        places = dict.fromkeys(self.program.storage.get(v) for v in writes(step))
        names = [f"inputs[{s.index}]" for s in places if s is not None and s.place is Place.INPUT]
        return f": updates {', '.join(names)} in place" if names else ""

    def _kernel(self, kernel: Kernel) -> list[str]:
        function = emit_kernel(kernel, self.program.storage, self.threshold)
        self.scratch = at_most(self.scratch, function.scratch_bytes)
        comment, out = self._describe(kernel.eqns), []
        digest = hashlib.sha256(function.text.encode()).hexdigest()
        if digest not in self.functions:
            self.functions[digest] = f"kernel{len(self.functions)}"
            out.append(f"// {comment}: {kernel.form.value}, {sizes_of(kernel)}\n" + function.text.replace("{name}", self.functions[digest]))
        self._call_kernel(self.functions[digest], function, comment + self._in_place(kernel))
        return out

    def _call_kernel(self, name: str, function: Function, comment: str) -> None:
        arguments = [self._pointer(p.var) for p in function.parameters] + [*function.sizes]
        if function.scratch_bytes:
            arguments.append(f"(char*)call->workspace + {size_text(self.arena)}")
        call = f"{name}({', '.join([*arguments, '&failure'] if function.checks else arguments)});"
        self.body.append(f"// {comment}")
        if function.checks:
            self.body.append(f"{{ Failure failure; {call} if (failure.kind) return report(call, failure); }}")
        else:
            self.body.append(call)

    def _matmul(self, step: MatMul) -> None:
        c = ctype(step.out.aval.dtype)
        x, y = (self._matrix(a, c) for a in (step.x, step.y))
        self.body.append(f"// {self._describe(step.eqns)}: {sizes_of(step)}{self._in_place(step)}")
        self.body.append(f"matmul<{c}>({x}, {y}, {self._pointer(step.out)}, {', '.join(map(size_text, step.sizes))});")

    def _matrix(self, a: Matrix, c: str) -> str:
        return f"Matrix<{c}>{{{self._pointer(a.var)} + {size_text(a.offset)}, {', '.join(map(size_text, a.strides))}}}"

    def _sort(self, step: Sort) -> list[str]:
        if step.rows * step.n == 0 or step.top == 0:
            return []
        name, comment = f"sort{len(self.functions)}", self._describe(step.eqns)
        self.functions[name] = name
        text, sizes = sort_function(step, name, parallel_for(step.rows * step.n, self.threshold))
        arguments = [*(self._pointer(v) for v in (*step.inputs, *step.outputs, step.order)), *sizes]
        self.body += [f"// {comment}{self._in_place(step)}", f"{name}({', '.join(arguments)});"]
        return [f"// {comment}: {sizes_of(step)}\n" + text]

    def _loop(self, step: Loop) -> list[str]:
        """A loop or choice: the functions of its bodies, and the block that calls them."""
        definitions, names = [], {}
        needed: Size = 0
        for parameter, program in step.bodies.items():
            emitter = _ProgramEmitter(program, self.threshold, self.vector_math, self)
            definitions += emitter.function()
            names[parameter] = emitter.name
            needed = at_most(needed, emitter.workspace_bytes)
        shared = has_lanes(step, self.threshold) and hint(needed) * TASKS <= LANES_BYTES
        needed = ceil_div(needed, 64) * 64 if shared else needed
        self.scratch = at_most(self.scratch, needed * TASKS if shared else needed)
        workspace = f"(char*)call->workspace + {size_text(self.arena)}"
        slots = {name: k for k, name in enumerate(self.sizes)}
        lines = loop_lines(step, Setting(names, self._address, workspace, slots, needed if shared else None))
        self.body += [f"// {self._describe(step.eqns)}", "{", *(f"  {line}" for line in lines), "}"]
        return definitions

    def _leave(self) -> None:
        """Results of a size that was found on the way: their memory passes to the caller."""
        for k, v in enumerate(self.program.results):
            storage = self.program.storage[v]
            if storage.place is Place.HEAP:
                if storage not in self.reserved:  # known to have no elements: nothing is computed
                    self.reserved.add(storage)
                    self.body.append(f"if (!block{storage.index}.reserve(0)) return out_of_memory(call, 0);")
                self.body.append(f"call->outputs[{k}] = block{storage.index}.release();")

    def _selection(self, step: Selection) -> None:
        blocks = [f"block{self.program.storage[v].index}" for v in step.outputs]
        slot = None if step.binds is None else self.sizes.index(step.binds.name)
        lines = selection_lines(step, self._pointer, blocks, self._call_back(step), slot)
        self.body += [f"// {self._describe(step.eqns)}", "{", *(f"  {line}" for line in lines), "}"]

    def _call(self, step: Call) -> None:
        self.calls.append(step.number)
        self.body += [f"// {self._describe(step.eqns)}: the reference implementation", *self._call_back(step)]

    def _call_back(self, step: Call) -> list[str]:
        inputs = ", ".join([*(f"(void*){self._address(a)}" for a in step.inputs if not isinstance(a, Literal)), "nullptr"])
        outputs = ", ".join([*(f"(void*){self._address(v)}" for v in step.outputs), "nullptr"])
        return [
            "{",
            f"  void* inputs[] = {{{inputs}}};",
            f"  void* outputs[] = {{{outputs}}};",
            f"  if (int status = call_back(call, {step.number}, inputs, outputs)) return status;",
            "}",
        ]

    def _copy(self, step: Copy) -> None:
        n = nbytes(step.out)
        if n != 0:
            comment = self._in_place(step)
            self.body += [f"// copy{comment}"] if comment else []
            self.body.append(f"__builtin_memcpy({self._pointer(step.out)}, {self._pointer(step.source)}, {size_text(n)});")
