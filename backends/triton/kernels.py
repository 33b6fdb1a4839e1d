"""A kernel of the loop IR as Triton: loops become blocks, stages follow each other in one program, values stay in registers.

Values of an earlier stage that are wanted at the same place of the row are taken from registers; others go through memory and a barrier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from functx.backends.loops.affine import Affine, Dynamic, LoopVar, inner_symbols
from functx.backends.loops.nodes import (
    Accumulate,
    Apply,
    Carried,
    Check,
    Constant,
    Effect,
    Inside,
    Kernel,
    Load,
    Node,
    Position,
    Running,
    Stage,
    Storage,
    Store,
)
from functx.backends.loops.sizes import ceil_div, hint, is_at_least
from functx.backends.triton.blocks import ROW, Choice, lengths_that_matter, most_partial_results
from functx.backends.triton.frame import FAILURES, Arena, Frame, Launch, Parameter, Scratch, Writing, bracketed, place_of
from functx.backends.triton.launches import MAX_PIECES, power_of_two
from functx.backends.triton.ops import convert, expression
from functx.backends.triton.reductions import NOWHERE, carrier, identity, lifted, operation, result
from functx.backends.triton.text import Writer, host_text, unravel
from functx.backends.triton.types import literal, part_type
from functx.dtypes import INT64
from functx.ir import Var
from functx.shapes import Size, is_static, size

PARTS = ("_re", "_im")
COMBINED = 4096  # partial results that a program combines at a time


def emit_kernel(
    kernel: Kernel, storage: Mapping[Var, Storage], guarded: bool = False, local: Set[Var] = frozenset()
) -> tuple[list[Launch], Size]:
    """The launches of a kernel, in order, and the scratch memory that they need.

    Args:
      guarded: inputs stay as they are where a check has failed before.
      local: values that nothing outside of the kernel reads.
    """
    arena = Arena()
    if kernel.serial and _last_wins(kernel):
        stage = kernel.stages[0]
        (store,) = (e for e in stage.effects if isinstance(e, Store))
        order = arena.take(size(store.var.aval.shape), INT64)
        first = _KernelEmitter(kernel, storage, arena, guarded, order, "_order").run()
        return [*first, *_KernelEmitter(kernel, storage, arena, guarded, order).run()], arena.bytes
    if lengths := lengths_that_matter(kernel):
        fits = " and ".join(f"{host_text(n)} <= {ROW}" for n in lengths)
        (short,) = _KernelEmitter(kernel, storage, arena, guarded, short=True, local=local).run()
        (long,) = _KernelEmitter(kernel, storage, arena, guarded, suffix="_long").run()
        return [replace(short, when=f"if {fits}:"), replace(long, when="else:")], arena.bytes
    return _KernelEmitter(kernel, storage, arena, guarded).run(), arena.bytes


def _last_wins(kernel: Kernel) -> bool:
    return any(isinstance(e, Store) and e.op is None for s in kernel.stages for e in s.effects)


class _KernelEmitter(Frame):
    """Writes one launch, or two where a reduction is cut."""

    def run(self) -> list[Launch]:
        """The text and what goes with it."""
        self.operands: dict[Var, str] = {}  # of reductions of one block
        self.combine: list[tuple[Accumulate, Scratch, Scratch | None]] = []  # partial results, and their places
        masks = self._outer()
        if self.guarded:
            self.w.line(f"sound = tl.load({self._parameter(FAILURES)}) == 0")
        for k, stage in enumerate(self.kernel.stages):
            if k and self._needs_barrier(k):
                self.w.line("tl.debug_barrier()")
            self._stage(k, stage, dict(masks))
        fill = self.order if self.suffix == "_order" else None
        launch = self._launch(self.w, self.layout.programs, self._elements(), self.suffix, fill, self.layout.chosen)
        return [launch, *([self._combining()] if self.combine else [])]

    def _launch(
        self, w: Writer, grid: Size, elements: Size, suffix: str = "", fill: Scratch | None = None, chosen: tuple[Choice, ...] = ()
    ) -> Launch:
        names = [*map(self._name, self.parameters), *self.arguments, *(f"{name}: tl.constexpr" for name in self.constants)]
        text = f"@kernel\ndef {{name}}({', '.join(names)}):\n{w.text()}"
        return Launch(text, tuple(self.parameters), self.arguments, self.constants, grid, elements, chosen, suffix, fill)

    def _elements(self) -> Size:
        outer = [d.block for d in self.layout.outer.values()]
        return size((*outer, max((d.block if d else 1 for d in self.layout.inner), key=hint)))

    # --- a stage --------------------------------------------------------------------------------------------------------------------------

    def _stage(self, k: int, stage: Stage, masks: dict[int, str]) -> None:
        own, at = self.layout.inner[k], self.layout.inner_at
        s = Writing(k, stage, own, masks)
        if own is None:
            for node in stage.nodes:
                self._node(s, node)
            for e in stage.effects:
                self._effect(s, e)
            return
        for node in stage.nodes:
            if not node.loop_vars & set(stage.axes):
                self._node(s, node)
        self.dims |= dict.fromkeys(own.axes, at)
        for e in stage.effects:
            self._begin(s, e)
        name = own.axes[0].key if len(own.axes) == 1 else f"j{k}"
        count = self._size(own.count)
        if not self._walks(s):
            self._steps(s, name, self._range(at, own.block), count, own.is_exact)
        else:
            low, high = "0", count
            if self.layout.is_cut:
                length = self._size(self.layout.piece)
                self.w.line(f"first = piece * {length}")
                low, high = "first", f"first + {length}"
                if not is_static((own.count, self.layout.piece)) or own.count % self.layout.piece:
                    high = f"tl.minimum({high}, {count})"
                self.w.line(f"last = {high}")
                high = "last"
            start = f"{name}_start"
            with self.w.block(f"for {start} in range({low}, {high}, {self._size(own.block)})"):
                self._steps(s, name, f"{start} + {self._range(at, own.block)}", high, own.is_exact)
        for e in stage.effects:
            if isinstance(e, Accumulate):
                self._finish(s, e)

    def _steps(self, s: Writing, name: str, place: str, end: str, exact: bool) -> None:
        """The values of a block of the stage's own loops, and what is done with them."""
        at = self.layout.inner_at
        self.w.line(f"{name} = {place}")
        if not exact:
            s.masks[at] = f"inside{at}" if self.layout.rank == 2 else "inside"
            if len(self.kernel.stages) > 1:
                s.masks[at] += f"_{s.number}"
            self.w.line(f"{s.masks[at]} = {name} < {end}")
        for line in unravel(name, s.own.axes, self.sizes):
            self.w.line(line)
        for node in s.stage.nodes:
            if node.loop_vars & set(s.stage.axes):
                self._node(s, node)
        for e in s.stage.effects:
            self._effect(s, e)

    # --- values ---------------------------------------------------------------------------------------------------------------------------

    def _node(self, s: Writing, node: Node) -> None:
        if node.dtype.kind == "c":
            self._complex(s, node)
            return
        text = self._text(s, node)
        if text.isidentifier():
            self.alias[s.number, node.id] = text
        else:
            self.w.line(f"{self._variable(s.number)(node)} = {text}")

    def _complex(self, s: Writing, node: Node) -> None:
        """A complex number as its parts, which kernels only move."""
        assert isinstance(node, (Constant, Load)), "complex numbers are computed by functions of PyTorch"
        name = self._variable(s.number)(node)
        for k, part in enumerate(PARTS):
            if isinstance(node, Constant):
                text = literal(node.value.real if k == 0 else node.value.imag)
            else:
                at = Load(node.id, part_type(node.dtype), node.loop_vars, node.var, node.index, node.offset * 2 + k, node.guard)
                text = self._load(s, at)
            self.w.line(f"{name}{part} = {text}")

    def _text(self, s: Writing, node: Node) -> str:
        name = self._variable(s.number)
        if isinstance(node, Load):
            return self._load(s, node)
        if isinstance(node, Constant):
            return literal(node.value)
        if isinstance(node, Position):
            index = self._affine(s, node.index)
            if not node.index.terms and isinstance(node.index.const, int):
                return literal(node.dtype.type(node.index.const))
            if not node.index.terms:
                return convert(INT64, node.dtype, f"tl.full((), {index}, tl.int64)")
            return convert(INT64, node.dtype, f"{bracketed(index)}.to(tl.int64)")
        if isinstance(node, Inside):
            index = self._affine(s, node.index)
            tests = [f"({index} >= {self._size(node.lo)})"] if node.lo is not None else []
            return " & ".join([*tests, f"({index} < {self._size(node.hi)})"] if node.hi is not None else tests)
        if isinstance(node, Carried):
            return self.carried[node.var][0]
        assert isinstance(node, Apply)
        return expression(node, [name(a) for a in node.args])

    def _load(self, s: Writing, node: Load) -> str:
        dims = self._of(node.loop_vars)
        if (s.number, node.id) in self.forward:
            at, source = self.forward[s.number, node.id]
            return self._spread(s, self._held(at, source), self._held_dims(at, source), dims)
        if size(node.var.aval.shape) == 0:
            return literal(np.zeros((), node.dtype)[()])  # no place of it exists, and any value will do
        guard = [self._variable(s.number)(node.guard)] if node.guard is not None else []
        guard += self._inside_of(s, node.var, node.offset, guarded=node.guard is not None)
        mask = self._mask(s, dims, *guard)
        place = place_of(self._buffer(node.var), self._offset(s, node.offset, dims))
        return f"tl.load({place}, mask={mask})" if mask else f"tl.load({place})"

    def _inside_of(self, s: Writing, v: Var, offset: Affine, guarded: bool = False) -> list[str]:
        """Whether a place of an array exists, where that is not so for all sizes: a check that has failed does not end the program, and a
        computed index is kept inside of an array only if that has elements."""
        n = size(v.aval.shape) * (2 if v.aval.dtype.kind == "c" else 1)
        if isinstance(n, int) and is_static((offset.const, *(c for _, c in offset.terms))):
            return []
        place, tests = self._affine(s, offset), []
        low, high = offset.bounds()
        if not guarded and (low is None or not is_at_least(low, 0)):
            tests.append(f"({place} >= 0)")
        if not guarded and (high is None or not is_at_least(n - 1, high)):
            return [*tests, f"({place} < {self._size(n)})"]
        computed = any(isinstance(symbol, Dynamic) for symbol in inner_symbols(offset))
        return [*tests, f"({self._size(n)} > 0)"] if computed and not is_at_least(n, 1) else tests

    def _held(self, k: int, source: Effect | Load) -> str:
        if isinstance(source, Running):
            return self._running(k, source)
        return self._variable(k)(source if isinstance(source, Load) else source.value)

    def _held_dims(self, k: int, source: Effect | Load) -> frozenset[int]:
        if isinstance(source, Running):
            return frozenset(self.layout.outer) | {self.layout.inner_at}
        own = self.layout.inner[k]
        inner = {v: self.layout.inner_at for v in own.axes} if own else {}
        dims = {**{v: at for at, d in self.layout.outer.items() for v in d.axes}, **inner}
        value = source if isinstance(source, Load) else source.value
        return frozenset(dims[v] for v in value.loop_vars if v in dims)

    # --- effects --------------------------------------------------------------------------------------------------------------------------

    def _effect(self, s: Writing, e: Effect) -> None:
        if isinstance(e, Check):
            self._check(s, e)
        elif isinstance(e, Store):
            self._store(s, e)
        elif isinstance(e, Running):
            self._run_on(s, e)
        else:
            self._accumulate(s, e)

    def _store(self, s: Writing, e: Store) -> None:
        value = self._variable(s.number)(e.value)
        has = self._of(e.value.loop_vars)
        if e.value.dtype.kind == "c":
            for k, part in enumerate(PARTS):
                self._put(s, e, e.offset * 2 + k, f"{value}{part}", has)
            return
        if s.own is None:
            self.carried[e.var] = value, has
        self._put(s, e, e.offset, value, has)

    def _put(self, s: Writing, e: Store, at: Affine, value: str, has: frozenset[int]) -> None:
        """Into memory, if anybody reads it there."""
        buffer = self._buffer(e.var)
        if buffer is None or size(e.var.aval.shape) == 0:
            return
        dims = self._of(at.loop_vars()) | has
        if self.kernel.serial:  # every iteration counts, though it may come to the same place with the same value
            dims |= self._of(s.stage.axes) | frozenset(self.layout.outer)
        place = place_of(buffer, self._offset(s, at, dims))
        mask = self._mask(s, dims, *self._soundness(e.var), *self._inside_of(s, e.var, at))
        if self._overtakes(s, e.var):
            self.w.line("tl.debug_barrier()")
        if self.order is not None:
            self._in_order(s, e, place, value, mask)
        elif e.op is not None:
            more = f", mask={mask}" if mask else ""
            self.w.line(f'tl.atomic_add({place}, {self._spread(s, value, has, dims)}{more}, sem="relaxed")')
        else:
            self.w.line(f"tl.store({place}, {value}, mask={mask})" if mask else f"tl.store({place}, {value})")

    def _in_order(self, s: Writing, e: Store, place: str, value: str, mask: str) -> None:
        """Of several values for one place the last is stored: first their numbers compete, then the winners are stored."""
        order = self._parameter(Parameter(scratch=self.order))
        number = self._number(s.stage.axes)
        dims = self._of(s.stage.axes)
        offset = self._offset(s, e.offset, dims)
        if self.suffix == "_order":
            more = f", mask={mask}" if mask else ""
            self.w.line(f'tl.atomic_max({order} + {bracketed(offset)}, ({number}).to(tl.int64){more}, sem="relaxed")')
            return
        masked = f", mask={mask}" if mask else ""
        self.w.line(f"wins = tl.load({order} + {bracketed(offset)}{masked}) == ({number})")
        self.w.line(f"tl.store({place}, {value}, mask={f'{mask} & ' if mask else ''}wins)")

    def _number(self, axes: Sequence[LoopVar]) -> str:
        """The number of an iteration, in order."""
        out = axes[0].key if axes else "0"
        for v in axes[1:]:
            out = f"{bracketed(out)} * {self._size(v.size)} + {v.key}"
        return out

    def _check(self, s: Writing, e: Check) -> None:
        value = self._variable(s.number)(e.value)
        failures = self._parameter(FAILURES)
        n = self._size(e.size)
        if e.kind == "index":
            bad = f"({value} < -{n}) | ({value} >= {n})"
        elif e.dtype.kind == "f":
            bad = f"{convert(INT64, e.dtype, value)}.to(tl.float64) != {value}.to(tl.float64)"
        elif e.dtype.name == "uint64":
            bad = f"{value} < 0"
        else:
            bad = f"{convert(INT64, e.dtype, value)}.to(tl.int64) != {value}"
        dims = self._of(e.value.loop_vars) | self._of(e.place.loop_vars())
        place = self._affine(s, e.place)
        mask = self._mask(s, dims)
        bad = f"{mask} & ({bad})" if mask else bad
        if not dims:
            self.w.line(f"report_one({failures}, {e.eqn}, {e.axis}, {n}, {bad}, {place}, {value})")
            return
        has = self._of(e.place.loop_vars())
        place = self._spread(s, bracketed(place) if has else f"tl.full((), {place}, tl.int64)", has, dims)
        spread = self._spread(s, value, self._of(e.value.loop_vars), dims)
        self.w.line(f"report({failures}, {e.eqn}, {e.axis}, {n}, {bad}, {place}, {spread}, {self.layout.rank})")

    # --- reductions -----------------------------------------------------------------------------------------------------------------------

    def _total(self, s: Writing, e: Accumulate | Running) -> str:
        names = [x for stage in self.kernel.stages for x in stage.effects if isinstance(x, (Accumulate, Running))]
        return f"s{names.index(e)}"

    def _running(self, k: int, e: Running) -> str:
        return f"{self._total(Writing(k, self.kernel.stages[k], None, {}), e)}_all"

    def _operand(self, s: Writing, e: Accumulate | Running, node: Node) -> str:
        """A value over the whole block, in the dtype in which it is combined."""
        text = lifted(e, self._variable(s.number)(node))
        return self._spread(s, text, self._of(node.loop_vars), self._everywhere(s))

    def _kept(self, s: Writing, e: Accumulate) -> str:
        """The operand of a reduction, with the identity where there is no place."""
        mask = self._mask(s, self._everywhere(s))
        text = self._operand(s, e, e.value)
        return f"tl.where({mask}, {text}, {identity(e)})" if mask else text

    def _positions(self, s: Writing, e: Accumulate) -> str:
        place = self._spread(
            s, f"{bracketed(self._affine(s, e.position))}.to(tl.int64)", self._of(e.position.loop_vars()), self._everywhere(s)
        )
        mask = self._mask(s, self._everywhere(s))
        return f"tl.where({mask}, {place}, {NOWHERE})" if mask else place

    def _walks(self, s: Writing) -> bool:
        return not s.own.is_whole or self.layout.is_cut

    def _begin(self, s: Writing, e: Effect) -> None:
        """What a loop over blocks starts from."""
        if isinstance(e, Running) and self._walks(s):
            shape = self._shape(s, frozenset(self.layout.outer)) if self.layout.rank == 2 else "()"
            self.w.line(f"{self._total(s, e)} = {self._filled(shape, e)}")
        if not isinstance(e, Accumulate) or not self._walks(s):
            return
        shape = self._shape(s, self._everywhere(s))
        self.w.line(f"{self._total(s, e)} = {self._filled(shape, e)}")
        if e.position is not None:
            self.w.line(f"{self._total(s, e)}_at = tl.full({shape}, {NOWHERE}, tl.int64)")

    def _filled(self, shape: str, e: Accumulate | Running) -> str:
        return identity(e).replace("tl.full(()", f"tl.full({shape}", 1)

    def _accumulate(self, s: Writing, e: Accumulate) -> None:
        total, value = self._total(s, e), self._kept(s, e)
        if not self._walks(s):
            self.operands[e.var] = value if e.position is None else f"({value}, {self._positions(s, e)})"
        elif e.position is not None:
            self.w.line(f"{total}, {total}_at = {operation(e)}({total}, {total}_at, {value}, {self._positions(s, e)})")
        elif operation(e) == "add_of":
            self.w.line(f"{total} += {value}")
        else:
            self.w.line(f"{total} = {operation(e)}({total}, {value})")

    def _finish(self, s: Writing, e: Accumulate) -> None:
        """The result of a reduction: for later stages, and into memory."""
        total, out = self._total(s, e), f"r{self._total(s, e)[1:]}"
        keep = ", keep_dims=True" if self.layout.rank == 2 else ""
        walked = total if e.position is None else f"({total}, {total}_at)"
        operand = self.operands.pop(e.var) if e.var in self.operands else walked
        reduced = f"tl.reduce({operand}, {self.layout.inner_at}, {operation(e)}{keep})"
        if self.layout.is_cut:
            self.w.line(f"{out} = {reduced}" if e.position is None else f"{out}_best, {out} = {reduced}")
            self._keep_piece(s, e, out)
            return
        self.w.line(f"{out} = {result(e, reduced)}" if e.position is None else f"_, {out} = {reduced}")
        self.carried[e.var] = out, frozenset(self.layout.outer)
        if (buffer := self._buffer(e.var)) is not None:
            self._store_result(s, e, buffer, "", out)

    def _store_result(self, s: Writing, e: Accumulate, buffer: str, more: str, value: str) -> None:
        dims = frozenset(self.layout.outer)
        offset = self._offset(s, e.offset, dims)
        mask = self._mask(s, dims, *self._soundness(e.var))
        place = place_of(buffer, offset, more)
        self.w.line(f"tl.store({place}, {value}, mask={mask})" if mask else f"tl.store({place}, {value})")

    def _run_on(self, s: Writing, e: Running) -> None:
        """The results of a block, after those of the blocks before it."""
        total, at, name = self._total(s, e), self.layout.inner_at, self._running(s.number, e)
        value = self._operand(s, e, e.value)
        keep = ", keep_dims=True" if self.layout.rank == 2 else ""
        place = s.own.axes[0].key if len(s.own.axes) == 1 else f"j{s.number}"
        if e.op == "recurrence":
            factor = self._operand(s, e, e.factor)
            self.w.line(f"{name}_factors, {name} = tl.associative_scan(({factor}, {value}), {at}, {operation(e)})")
            after = f"{name}_factors * {total} + {name}"
        else:
            self.w.line(f"{name} = tl.associative_scan({value}, {at}, {operation(e)})")
            after = f"{operation(e)}({total}, {name})"
        if self._walks(s):
            self.w.line(f"{name} = tl.where({place}_start == 0, {name}, {after})")
            last = f"tl.where({place} == {place}_start + {self._size(s.own.block)} - 1, {name}, 0)"
            self.w.line(f"{total} = tl.reduce({last}, {at}, add_of{keep})")
        self.w.line(f"{name} = {result(e, name)}") if result(e, name) != name else None
        if (buffer := self._buffer(e.var)) is not None:
            dims = self._everywhere(s)
            offset = self._offset(s, e.offset, dims)
            mask = self._mask(s, dims, *self._soundness(e.var))
            more = f", mask={mask}" if mask else ""
            self.w.line(f"tl.store({buffer} + {bracketed(offset)}, {name}{more})")

    # --- reductions in pieces -------------------------------------------------------------------------------------------------------------

    def _keep_piece(self, s: Writing, e: Accumulate, out: str) -> None:
        """Partial results side by side in scratch memory."""
        kept = size(e.var.aval.shape)
        count, start = most_partial_results(self.layout, kept), f"piece * {self._size(kept)} + "
        value = self.arena.take(count, carrier(e.value.dtype))
        place = self.arena.take(count, INT64) if e.position is not None else None
        self._store_result(s, e, self._parameter(Parameter(scratch=value)), start, f"{out}_best" if place else out)
        if place is not None:
            self._store_result(s, e, self._parameter(Parameter(scratch=place)), start, out)
        self.combine.append((e, value, place))

    def _combining(self) -> Launch:
        """The launch that combines partial results."""
        w, self.parameters, self.arguments, self.constants = Writer(), [], {}, {}
        pieces = power_of_two(self.layout.pieces) if isinstance(self.layout.pieces, int) else MAX_PIECES
        results = size(self.combine[0][0].var.aval.shape)
        most = max(1, COMBINED // pieces)
        block = min(power_of_two(results), most) if isinstance(results, int) else most
        kept = self._size(results)
        program = "tl.program_id(0)" if isinstance(results, int) else "tl.program_id(0).to(tl.int64)"
        w.line(f"k = {program} * {block} + tl.arange(0, {block})[None, :]")
        w.line(f"piece = tl.arange(0, {pieces})[:, None]")
        w.line(f"inside = (piece < {self._size(self.layout.pieces)}) & (k < {kept})")
        if self.guarded:
            w.line(f"sound = tl.load({self._parameter(FAILURES)}) == 0")
        for number, (e, value, place) in enumerate(self.combine):
            source = self._parameter(Parameter(scratch=value))
            w.line(f"v{number} = tl.where(inside, tl.load({source} + piece * {kept} + k, mask=inside), {identity(e)})")
            if place is not None:
                places = self._parameter(Parameter(scratch=place))
                w.line(f"p{number} = tl.where(inside, tl.load({places} + piece * {kept} + k, mask=inside), {NOWHERE})")
                w.line(f"_, r{number} = tl.reduce((v{number}, p{number}), 0, {operation(e)}, keep_dims=True)")
            else:
                w.line(f"r{number} = tl.reduce(v{number}, 0, {operation(e)}, keep_dims=True)")
            mask = " & ".join([f"(k < {kept})", *self._soundness(e.var)])
            w.line(f"tl.store({self._buffer(e.var)} + k, {result(e, f'r{number}')}, mask={mask})")
        return self._launch(w, ceil_div(results, block), pieces * block, "_combine")
