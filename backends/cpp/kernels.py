"""A kernel of the loop IR as one C++ function: its parameters, its outer loops, its threads, its accumulators.

Threads share work in pieces whose bounds depend on sizes alone, so results do not depend on how many there are. A reduction with few
results is cut into pieces too; their partial results are combined in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from functx.backends.cpp.accumulators import accumulate_column, accumulate_value, advanced, assignment, declare, initial, result, scan
from functx.backends.cpp.body import Body, Names
from functx.backends.cpp.text import Writer, affine_text, loop, size_text, unravel
from functx.backends.cpp.types import ctype, stored
from functx.backends.loops.affine import ZERO, LoopVar, substitute
from functx.backends.loops.build import elements
from functx.backends.loops.clusters import is_unit, splits
from functx.backends.loops.formulas import sizes_in
from functx.backends.loops.nodes import Accumulate, Carried, Check, Effect, Form, Kernel, Load, Node, Place, Running, Stage, Storage, Store
from functx.backends.loops.sizes import ceil_div, hint, is_at_least
from functx.ir import Var
from functx.shapes import Size, size, size_hint

PIECE = 16384  # elements that a thread takes at a time
COLUMNS = 256, 1024  # columns in a block: few rows, many rows
FOLD = 64  # rows of a column sum that are added up before they join the total
TILE = 32  # the sides of the squares in which a transposed operand is read
MAX_TASKS = 128  # into which a reduction is cut


@dataclass(frozen=True)
class Parameter:
    """A buffer that a kernel gets."""

    storage: Storage
    var: Var


@dataclass(frozen=True)
class Function:
    """A kernel as text: the parameter list and body (which name it by ``{name}``), and what a call passes."""

    text: str
    parameters: tuple[Parameter, ...]
    sizes: tuple[str, ...]  # known at run time only; they come after the parameters
    scratch_bytes: int
    checks: bool


def parallel_for(work: Size, threshold: int) -> str:
    """What stands before a loop that threads share if there is more work than the threshold; "" if there never is."""
    if isinstance(work, int):
        return "#pragma omp parallel for schedule(dynamic)" if work > threshold else ""
    return f"#pragma omp parallel for schedule(dynamic) if ({size_text(work)} > {threshold})"


def emit_kernel(kernel: Kernel, storage: Mapping[Var, Storage], threshold: int) -> Function:
    """The function of a kernel. It runs on several threads above ``threshold`` elements."""
    return _KernelEmitter(kernel, storage, threshold).run()


class _KernelEmitter:
    def __init__(self, kernel: Kernel, storage: Mapping[Var, Storage], threshold: int):
        self.kernel, self.storage = kernel, storage
        self.pragma = "" if kernel.serial else parallel_for(elements(kernel), threshold)
        self.parallel = bool(self.pragma)
        self.w = Writer()
        self.parameters: dict[Storage, Parameter] = {}
        self.written: set[Storage] = set()
        self.rows: dict[Var, str] = {}
        self.local: dict[Var, str] = {}  # results carried to later stages
        self.scratch = 0
        self.is_split = False
        self.accumulators = [e for s in kernel.stages for e in s.effects if isinstance(e, (Accumulate, Running))]
        self.checks = any(isinstance(e, Check) for s in kernel.stages for e in s.effects)
        later = {n.var for s in kernel.stages for n in s.nodes if isinstance(n, Carried)}
        for v in [e.var for s in kernel.stages for e in s.effects if not isinstance(e, Check)]:
            if v in later:
                self.local[v] = f"r{len(self.local)}"
            if storage[v].place is Place.ROW:
                self.rows[v] = f"row{len(self.rows)}"

        self.names = Names(self._access, self._carried, lambda e: e.var in self.local or storage[e.var].place is not Place.REGISTER)

    def run(self) -> Function:
        self.w.depth = 1
        {Form.FLAT: self._flat, Form.ROWS: self._staged, Form.COLUMNS: self._staged}[self.kernel.form]()
        arguments = [
            f"{'' if p.storage in self.written else 'const '}{stored(p.var.aval.dtype)}* __restrict {self._name(p.storage)}"
            for p in self.parameters.values()
        ]
        body = self.w.text()
        sizes = sizes_in(body)
        arguments += [f"int64_t {name}" for name in sizes]
        arguments += ["void* scratch"] if self.scratch else []
        arguments += ["Failure* failure"] if self.checks else []
        text = f"static void {{name}}({', '.join(arguments)}) {{\n{body}}}\n"
        return Function(text, tuple(self.parameters.values()), tuple(sizes), self.scratch, self.checks)

    # --- memory ---------------------------------------------------------------------------------------------------------------------------

    def _name(self, storage: Storage) -> str:
        return f"a{list(self.parameters).index(storage)}"

    def _access(self, item: Node | Effect) -> str:
        """A place in memory; "" for a store that nobody reads back from memory."""
        v, offset = item.var, item.offset
        if v in self.rows:
            outer = set(self.kernel.outer)
            return f"{self.rows[v]}[{affine_text(substitute(offset, lambda x: ZERO if x in outer else None))}]"
        storage = self.storage[v]
        if storage.place is Place.REGISTER:
            return ""
        self.parameters.setdefault(storage, Parameter(storage, v))
        if not isinstance(item, Load):
            self.written.add(storage)
        return f"{self._name(storage)}[{affine_text(offset)}]"

    def _carried(self, node: Carried) -> str:
        name = self.local[node.var]
        reduced = any(e.var is node.var for e in self.accumulators)
        return f"{name}[{self._block_place()}]" if self.kernel.form is Form.COLUMNS and reduced else name

    @property
    def block(self) -> int:
        """How many columns are taken together: many where many rows are read, so that each brings whole pages."""
        kept = size_hint(v.size for v in self.kernel.outer)
        return COLUMNS[self.is_split or kept >= 16 * COLUMNS[1]]

    def _block_place(self) -> str:
        return f"{self.column.key} - column_begin"

    @property
    def column(self) -> LoopVar:
        """The block axis of a column kernel."""
        return self.kernel.outer[-1] if self.kernel.outer else LoopVar("column", 1)

    # --- effects --------------------------------------------------------------------------------------------------------------------------

    def _effect(self, effect: Effect, value: str) -> None:
        if isinstance(effect, Check):
            self._check(effect, value)
        elif isinstance(effect, Store):
            if effect.var in self.local:
                self.w.line(f"{self.local[effect.var]} = {value};")
            if place := self._access(effect):
                self.w.line(assignment(effect, place, value))
        elif isinstance(effect, Running):
            self._run_on(effect, value)
        else:
            self._accumulate(effect, value)

    def _run_on(self, effect: Running, value: str) -> None:
        """One step of a running result."""
        columns = self.kernel.form is Form.COLUMNS
        state = f"{self._total(effect)}[{self._block_place()}]" if columns else self._sum(effect)
        axes = next(s.axes for s in self.kernel.stages if effect in s.effects)
        first = " & ".join(f"({v.key} == 0)" for v in axes)
        self.w.line(f"{state} = {first} ? {value} : {ctype(effect.value.dtype)}({advanced(effect, state, value)});")
        self.w.line(f"{self._access(effect)} = {state};")

    def _check(self, check: Check, value: str) -> None:
        place = affine_text(check.place)
        if check.kind == "index":
            n = size_text(check.size)
            bad, kind, rest = f"({value} < -{n}) | ({value} >= {n})", "INDEX_OUT_OF_BOUNDS", f"{check.axis}, {n}"
        else:
            kind, rest = "OVERFLOW", "0, 0"
            c = ctype(check.dtype)
            bad = f"double({c}({value})) != double({value})" if check.dtype.kind == "f" else f"int64_t({c}({value})) != {value}"
            if check.dtype.name == "uint64":
                bad = f"{value} < 0"
        self.w.line(f"if ({bad}) fail(failure, FUNCTX_{kind}, {check.eqn}, {place}, {value}, {rest});")

    # --- flat kernels ---------------------------------------------------------------------------------------------------------------------

    def _flat(self) -> None:
        stage = self.kernel.stages[0]
        vector = stage.axes[-1] if stage.axes else None
        body = Body(self.w, stage, self.names, vector, self._effect, None)
        outer = stage.axes[:-1]
        if across := self._read_across(stage):
            self._tiled(body, across, vector)
            return
        if not self.parallel:
            with self.w.blocks([loop(v) for v in outer]):
                body.emit("0", size_text(vector.size) if vector else "1")
            return
        rows = size(v.size for v in outer)
        vary = not isinstance(rows, int) and not isinstance(vector.size, int)
        if hint(rows) >= 64 or is_at_least(PIECE, vector.size) or vary:
            with self._row_loop(outer, rows, vector.size):
                body.emit("0", size_text(vector.size))
            return
        count = ceil_div(vector.size, PIECE)
        pieces = size_text(count)
        with self._tasks(rows * count):
            for line in unravel(f"task / {pieces}" if count != 1 else "task", outer) if outer else ():
                self.w.line(line.replace(f"task / {pieces} /", f"(task / {pieces}) /"))
            self.w.line(f"const int64_t begin = task % {pieces} * {PIECE}, end = smaller(begin + {PIECE}, {size_text(vector.size)});")
            body.emit("begin", "end")

    def _read_across(self, stage: Stage) -> LoopVar | None:
        """An outer axis along which a load is contiguous while the innermost one strides through memory."""
        if len(stage.axes) < 2 or hint(stage.axes[-1].size) < TILE or hint(elements(self.kernel)) < 4096 or self.kernel.serial:
            return None
        offsets = [node.offset for node in stage.nodes if isinstance(node, Load)]
        for axis in stage.axes[-2::-1]:
            if hint(axis.size) >= TILE and any(
                is_unit(o.coefficient(axis)) and abs(hint(o.coefficient(stage.axes[-1]))) >= 16 for o in offsets
            ):
                return axis
        return None

    def _tiled(self, body: Body, across: LoopVar, vector: LoopVar) -> None:
        """Squares of the two axes, so that both sides stay in the cache."""
        tiles = LoopVar(f"{across.key}_tile", ceil_div(across.size, TILE))
        outer = (*(v for v in self.kernel.stages[0].axes[:-1] if v != across), tiles)
        begin, end = f"{tiles.key} * {TILE}", f"smaller({tiles.key} * {TILE} + {TILE}, {size_text(across.size)})"
        place = f"{vector.key}_tile"
        with (
            self._row_loop(outer, size(v.size for v in outer), TILE * vector.size),
            self.w.blocks([loop(place, hi=size_text(vector.size), step=TILE), loop(across, begin, end)]),
        ):
            body.emit(place, f"smaller({place} + {TILE}, {size_text(vector.size)})")

    def _tasks(self, count: Size, pieces: str = ""):
        """The loop over tasks, ``count`` of them for each piece."""
        if self.parallel and (pieces or not is_at_least(1, count)):
            self.w.line(self.pragma)
        times = size_text(count) if count != 1 or not pieces else ""
        return self.w.block(loop("task", hi=" * ".join(filter(None, (times, pieces)))))

    def _row_loop(self, outer: tuple[LoopVar, ...], rows: Size, work: Size):
        """Loops over all rows: plain ones, or pieces of about PIECE elements shared by threads."""
        if not self.parallel or is_at_least(1, rows):
            return self.w.blocks([loop(v) for v in outer])
        return self._parallel_rows(outer, rows, work)

    def _parallel_rows(self, outer: tuple[LoopVar, ...], rows: Size, work: Size):
        per_task = max(1, min(PIECE // max(hint(work), 1), ceil_div(hint(rows), 16)))
        return _Rows(self.w, self._tasks(ceil_div(rows, per_task)), outer, per_task, rows)

    # --- rows and columns -----------------------------------------------------------------------------------------------------------------

    def _staged(self) -> None:
        kernel, columns = self.kernel, self.kernel.form is Form.COLUMNS
        kept = size(v.size for v in kernel.outer)
        reduced = max((size(v.size for v in stage.axes) for stage in kernel.stages), key=hint)
        runs = any(isinstance(e, Running) for e in self.accumulators)
        alone = not runs and len(kernel.stages) == 1 and kernel.stages[0].axes and isinstance(kept, int)
        if self.parallel and alone and splits(kernel.form, kept, hint(reduced)):
            self.is_split = True
            if cut := self._cut(kept, reduced):
                self._split(kept, *cut)
                return
            self.is_split = False
        if columns:
            self._columns(kept, reduced)
            return
        with self._row_loop(kernel.outer, kept, sum(size(v.size for v in s.axes) for s in kernel.stages)):
            for v, name in self.rows.items():
                self.w.line(f"alignas(64) {stored(v.aval.dtype)} {name}[{self._row_size(v)}];")
            for k, stage in enumerate(kernel.stages):
                self._row_stage(stage, k, None, {e.var: self._finish_row(e) for e in stage.effects if isinstance(e, Accumulate)})

    def _cut(self, kept: int, reduced: Size) -> tuple[int, str, str] | None:
        """Into how many pieces at most a reduction with few results is cut, how many they are, and their size; None if it is not."""
        cut, most = self.kernel.stages[0].axes[0].size, self._max_pieces(kept)
        if isinstance(reduced, int):
            pieces = min(ceil_div(kept * reduced, PIECE), cut, most)
            piece = ceil_div(cut, pieces)
            return (ceil_div(cut, piece), str(ceil_div(cut, piece)), str(piece)) if pieces > 1 else None
        wanted = f"greater(1, smaller({size_text(ceil_div(kept * reduced, PIECE))}, {most}))"
        self.w.line(f"const int64_t piece_size = greater(1, ceil_div({size_text(cut)}, {wanted}));")
        self.w.line(f"const int64_t pieces = ceil_div({size_text(cut)}, piece_size);")
        return most, "pieces", "piece_size"

    def _max_pieces(self, kept: int) -> int:
        tasks = kept // self.column.size * ceil_div(self.column.size, self.block) if self.kernel.form is Form.COLUMNS else kept
        return max(1, MAX_TASKS // tasks)

    def _row_size(self, v: Var) -> int:
        stage = next(s for s in self.kernel.stages for e in s.effects if isinstance(e, (Store, Running)) and e.var is v)
        return max(size(axis.size for axis in stage.axes), 1)

    def _row_stage(self, stage: Stage, k: int, bounds: tuple[str, str] | None, finish: Mapping[Var, object]) -> None:
        """One stage of a row. ``bounds``: the part of its first axis that is meant."""
        sums = [e for e in stage.effects if isinstance(e, Accumulate)]
        for e in sums:
            self.w.line(declare(e, self._sum(e)))
        for e in stage.effects:
            if isinstance(e, Running):
                self.w.line(f"{ctype(e.value.dtype)} {self._sum(e)};")
            if isinstance(e, Store) and e.var in self.local:
                self.w.line(f"{ctype(e.var.aval.dtype)} {self.local[e.var]};")
        vector = stage.axes[-1] if stage.axes else None
        body = Body(self.w, stage, self.names, vector, self._effect, self._block_effect)
        lo, hi = bounds or ("0", size_text(stage.axes[0].size if stage.axes else 1))
        with self.w.block():
            if len(stage.axes) > 1:
                with self.w.blocks([loop(stage.axes[0], lo, hi), *map(loop, stage.axes[1:-1])]):
                    body.emit("0", size_text(vector.size))
            else:
                body.emit(lo, hi)
        for e in sums:
            finish[e.var](f"{self._sum(e)}{result(e)}")

    def _finish_row(self, e: Accumulate):
        def finish(result: str) -> None:
            if e.var in self.local:
                self.w.line(f"const {ctype(e.var.aval.dtype)} {self.local[e.var]} = {result};")
                result = self.local[e.var]
            if place := self._access(e):
                self.w.line(f"{place} = {result};")

        return finish

    def _sum(self, e: Accumulate) -> str:
        return f"s{self.accumulators.index(e)}"

    def _block_effect(self, e: Accumulate, pointers: list[str], first: str, count: str) -> None:
        self.w.line(f"{scan(e, self._sum(e), pointers, first, count)};")

    def _accumulate(self, e: Accumulate, value: str) -> None:
        if self.kernel.form is Form.COLUMNS:
            k = self._block_place()
            self.w.line(accumulate_column(e, f"{self._part(e)}[{k}]", f"p{self._sum(e)}[{k}]", value))
        else:
            self.w.line(accumulate_value(e, self._sum(e), value))

    # --- columns --------------------------------------------------------------------------------------------------------------------------

    def _columns(self, kept: Size, reduced: Size) -> None:
        with self._column_tasks(""):
            for stage in self.kernel.stages:
                self._column_stage(stage, None)
                for e in stage.effects:
                    if isinstance(e, Accumulate):
                        self._store_column(e, self._access(e))

    def _column_tasks(self, pieces: str):
        """Loops over (pieces,) rows and blocks of columns, with the bounds of the block."""
        outer, blocks = self.kernel.outer[:-1], ceil_div(self.column.size, self.block)
        tasks = self._tasks(size(v.size for v in outer) * blocks, pieces)
        return _Columns(self.w, tasks, outer, blocks, self.block, self.column.size, bool(pieces))

    def _part(self, e: Accumulate) -> str:
        """The array to which values are added; where sums are folded it is not the total."""
        return f"part{self.accumulators.index(e)}" if e.var in self.folded else self._total(e)

    def _total(self, e: Accumulate) -> str:
        return self.local.get(e.var) or f"total{self.accumulators.index(e)}"

    def _column_stage(self, stage: Stage, bounds: tuple[str, str] | None) -> None:
        w, sums = self.w, [e for e in stage.effects if isinstance(e, Accumulate)]
        fold = self._fold(stage, bounds)
        self.folded = {e.var for e in sums if fold is not None and e.op == "sum" and e.value.dtype.kind in "fc"}
        for e in sums:
            self._column_arrays(e)
        for e in stage.effects:
            if isinstance(e, Running):
                w.line(f"alignas(64) {stored(e.value.dtype)} {self._total(e)}[{self.block}];")
        lo, hi = bounds or ("0", size_text(stage.axes[0].size if stage.axes else 1))
        headers = [loop(v, lo, hi) if k == 0 else loop(v) for k, v in enumerate(stage.axes)]
        body = Body(w, stage, self.names, self.column, self._effect, None)
        if not self.folded:
            with w.blocks(headers or [""]):
                body.emit("column_begin", "column_end")
            return
        at, rows = fold
        v = stage.axes[at]
        begin, end = (lo, hi) if at == 0 else ("0", size_text(v.size))
        outside = [*headers[:at], loop(f"{v.key}_fold", begin, end, rows)]
        with w.blocks(outside):
            for e in sums:
                if e.var in self.folded:
                    w.line(f"{ctype(e.value.dtype)} {self._part(e)}[{self.block}] = {{}};")
            with w.blocks([loop(v, f"{v.key}_fold", f"smaller({v.key}_fold + {rows}, {end})"), *headers[at + 1 :]]):
                body.emit("column_begin", "column_end")
            for e in sums:
                if e.var in self.folded:
                    w.line(f"for (int64_t k = 0; k < column_end - column_begin; ++k) {self._total(e)}[k] += {self._part(e)}[k];")

    def _fold(self, stage: Stage, bounds: tuple[str, str] | None) -> tuple[int, int] | None:
        """The axis, and how many of its steps, that make up about FOLD additions; None if there are not more than that anyway."""
        inside, at = 1, len(stage.axes)
        while at and is_at_least(FOLD, inside * stage.axes[at - 1].size):
            at -= 1
            inside *= stage.axes[at].size
        return (at - 1, max(1, FOLD // inside)) if at else None

    def _column_arrays(self, e: Accumulate) -> None:
        dtype = e.value.dtype
        names = [(self._total(e), dtype, initial(e))]
        if e.position is not None:
            names = [(self._total(e), e.var.aval.dtype, "0"), (f"p{self._sum(e)}", dtype, initial(e))]
        for name, d, start in names:
            self.w.line(f"alignas(64) {stored(d)} {name}[{self.block}];")
            self.w.line(f"for (int64_t k = 0; k < {self.block}; ++k) {name}[k] = {start};")

    def _store_column(self, e: Accumulate, place: str) -> None:
        if place:
            with self.w.block(loop(self.column, "column_begin", "column_end")):
                self.w.line(f"{place} = {self._total(e)}[{self._block_place()}];")

    # --- reductions in pieces -------------------------------------------------------------------------------------------------------------

    def _split(self, kept: int, most: int, pieces: str, piece: str) -> None:
        """Partial results of pieces of the first reduced axis, side by side in the scratch memory, then combined in order."""
        w, stage = self.w, self.kernel.stages[0]
        sums = [e for e in stage.effects if isinstance(e, Accumulate)]
        for e in sums:
            w.line(self._scratch_array(f"partial_{self._sum(e)}", e.value.dtype, most * kept))
            if e.position is not None:
                w.line(self._scratch_array(f"place_{self._sum(e)}", np.dtype(np.int64), most * kept))
        bounds = ("begin", "end")
        limits = f"const int64_t begin = piece * {piece}, end = smaller(begin + {piece}, {size_text(stage.axes[0].size)});"
        if self.kernel.form is Form.COLUMNS:
            with self._column_tasks(pieces):
                w.line(limits)
                self._column_stage(stage, bounds)
                for e in sums:
                    at = f"piece * {kept} + {affine_text(e.offset)}"
                    self._store_column(e, f"{'place' if e.position is not None else 'partial'}_{self._sum(e)}[{at}]")
                    if e.position is not None:
                        with w.block(loop(self.column, "column_begin", "column_end")):
                            w.line(f"partial_{self._sum(e)}[{at}] = p{self._sum(e)}[{self._block_place()}];")
        else:
            with self._tasks(kept, pieces):
                w.line(f"const int64_t piece = task / {kept}{', row = task % ' + str(kept) if self.kernel.outer else ''};")
                for line in unravel("row", self.kernel.outer):
                    w.line(line)
                w.line(limits)
                self._row_stage(stage, 0, bounds, {e.var: self._finish_piece(e, kept) for e in sums})
        self._combine(sums, kept, pieces)

    def _finish_piece(self, e: Accumulate, kept: int):
        def finish(result: str) -> None:
            s, at = self._sum(e), f"piece * {kept} + {affine_text(e.offset)}"
            if e.position is not None:
                self.w.line(f"partial_{s}[{at}] = {s}.value;")
                self.w.line(f"place_{s}[{at}] = {s}.place;")
            else:
                self.w.line(f"partial_{s}[{at}] = {result};")

        return finish

    def _combine(self, sums: list[Accumulate], kept: int, pieces: str) -> None:
        for e in sums:
            s, out = self._sum(e), self._access(e)
            if not out:
                continue  # nobody reads it
            with self.w.block(loop("k", hi=str(kept))):
                self.w.line(declare(e, s))
                with self.w.block(loop("piece", hi=pieces)):
                    at = f"[piece * {kept} + k]"
                    value = f"partial_{s}{at}"
                    self.w.line(f"{s}.add({value}, place_{s}{at});" if e.position is not None else accumulate_value(e, s, value))
                self.w.line(f"{out.partition('[')[0]}[k] = {s}{result(e)};")

    def _scratch_array(self, name: str, dtype: np.dtype, count: int) -> str:
        c, start = stored(dtype), self.scratch
        self.scratch += -(-count * dtype.itemsize // 64) * 64
        return f"{c}* const {name} = ({c}*)((char*)scratch + {start});"


class _Rows:
    """Context: rows in pieces over tasks, with the outer loop variables declared."""

    def __init__(self, w: Writer, tasks, outer: tuple[LoopVar, ...], per_task: int, rows: Size):
        self.w, self.tasks, self.outer, self.per_task, self.rows = w, tasks, outer, per_task, rows

    def __enter__(self) -> None:
        self.tasks.__enter__()
        end = f"smaller((task + 1) * {self.per_task}, {size_text(self.rows)})"
        name = self.outer[0].key if len(self.outer) == 1 else "row"
        self.inner = self.w.block(loop(name, f"task * {self.per_task}", end))
        self.inner.__enter__()
        if len(self.outer) > 1:
            for line in unravel("row", self.outer):
                self.w.line(line)

    def __exit__(self, *error: object) -> None:
        self.inner.__exit__(None, None, None)
        self.tasks.__exit__(None, None, None)


class _Columns:
    """Context: tasks over (pieces,) rows and blocks of columns, with everything that they stand for declared."""

    def __init__(self, w: Writer, tasks, outer: tuple[LoopVar, ...], blocks: Size, block: int, columns: Size, pieces: bool):
        self.w, self.tasks, self.outer, self.blocks, self.block, self.columns, self.pieces = w, tasks, outer, blocks, block, columns, pieces

    def __enter__(self) -> None:
        self.tasks.__enter__()
        rows, blocks = size(v.size for v in self.outer), size_text(self.blocks)
        if self.pieces:
            self.w.line(f"const int64_t piece = task / {size_text(rows * self.blocks)};")
        if self.outer:
            self.w.line(f"const int64_t row = task / {blocks}{f' % {size_text(rows)}' if self.pieces else ''};")
            for line in unravel("row", self.outer):
                self.w.line(line)
        self.w.line(f"const int64_t column_begin = task % {blocks} * {self.block};")
        self.w.line(f"const int64_t column_end = smaller(column_begin + {self.block}, {size_text(self.columns)});")

    def __exit__(self, *error: object) -> None:
        self.tasks.__exit__(None, None, None)
