"""What every part of a kernel's text is written with: parameters and their names, blocks and masks, values that pass between stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from functx.backends.loops.affine import Affine, LoopVar
from functx.backends.loops.nodes import Check, Effect, Form, Kernel, Load, Node, Place, Running, Stage, Storage, Store
from functx.backends.loops.plan import own_place
from functx.backends.loops.sizes import ceil_div, is_at_least
from functx.backends.triton.blocks import Choice, Dim, index_bounds, layout
from functx.backends.triton.launches import is_wide
from functx.backends.triton.text import LAUNCH, SizeText, Writer, affine_text, digits, host_text, unravel
from functx.backends.triton.types import part_type
from functx.dtypes import INT64
from functx.ir import Var
from functx.shapes import Size, is_static, size


@dataclass(frozen=True)
class Scratch:
    """Memory that launches of one kernel share: so many elements from a byte of the scratch memory on."""

    offset: Size
    count: Size
    dtype: np.dtype


@dataclass(frozen=True)
class Parameter:
    """A buffer that a kernel gets: a variable in some place, or scratch memory; neither: the table of failed checks."""

    storage: Storage | None = None
    var: Var | None = None
    scratch: Scratch | None = None

    @property
    def dtype(self) -> np.dtype:
        """Of its elements."""
        if self.scratch is not None:
            return self.scratch.dtype
        return INT64 if self.var is None else part_type(self.var.aval.dtype)


FAILURES = Parameter()


@dataclass(frozen=True)
class Launch:
    """A kernel as text that names it by ``{name}``, and what a call passes.

    Attributes:
      arguments: sizes that come after the buffers, by name, as text of the program.
      constants: blocks, and the type of indices, that come after these: Triton compiles a kernel for each of their values. With typical
        ones.
      elements: of a block, which groups of threads share.
      chosen: what must be chosen before.
      when: the line that says in which case it is launched.
      fill: scratch memory to be filled with -1 before.
    """

    text: str
    parameters: tuple[Parameter, ...]
    arguments: dict[str, str]
    constants: dict[str, tuple[str, object]]
    grid: Size
    elements: Size
    chosen: tuple[Choice, ...] = ()
    suffix: str = ""
    fill: Scratch | None = None
    when: str = ""


@dataclass
class Arena:
    """Scratch memory of one kernel, given out in pieces."""

    bytes: Size = 0

    def take(self, count: Size, dtype: np.dtype) -> Scratch:
        """A piece of it."""
        start = self.bytes
        self.bytes = start + ceil_div(count * dtype.itemsize, 64) * 64
        return Scratch(start, count, dtype)


@dataclass
class Writing:
    """What is known while a stage is written.

    Attributes:
      own: its dimension of the block, None if it has no loops.
      masks: by dimension, the variable that tells which places exist.
    """

    number: int
    stage: Stage
    own: Dim | None
    masks: dict[int, str]


class Frame:
    """The surroundings of a kernel's stages.

    Args:
      order: of a store to places that may come twice: per place, the number of the last value that is stored there.
      short: the kernel is launched only for rows that are held in registers.
      local: values that nothing outside of the kernel reads.
    """

    def __init__(
        self,
        kernel: Kernel,
        storage: Mapping[Var, Storage],
        arena: Arena,
        guarded: bool = False,
        order: Scratch | None = None,
        suffix: str = "",
        short: bool = False,
        local: Set[Var] = frozenset(),
    ):
        self.kernel, self.storage, self.arena, self.order, self.suffix = kernel, storage, arena, order, suffix
        self.guarded = guarded
        self.layout = layout(kernel, short)
        self.w = Writer()
        self.parameters: list[Parameter] = []
        self.arguments: dict[str, str] = {}  # sizes, by name
        self.constants: dict[str, tuple[str, object]] = {}
        self.sizes = SizeText(self._size, self._divisor)
        self.scratch: dict[Var, Scratch] = {}
        self.alias: dict[tuple[int, int], str] = {}  # values, by stage and node, that have a name already
        self.carried: dict[Var, tuple[str, frozenset[int]]] = {}  # results for later stages, with the dimensions that they have
        self.dims = {v: at for at, d in self.layout.outer.items() for v in d.axes}
        self.integer = self._index_type()
        self.forward = self._forwarded()
        loads = [(k, node) for k, stage in enumerate(kernel.stages) for node in stage.nodes if isinstance(node, Load)]
        self.unread = local - {node.var for k, node in loads if (k, node.id) not in self.forward}

    # --- sizes ----------------------------------------------------------------------------------------------------------------------------

    def _size(self, n: Size) -> str:
        """A size: a number, one of the kernel's arguments, or one of its constants."""
        if isinstance(n, int):
            return str(n)
        text = host_text(n)
        if n.name is not None and n.name.startswith(f"{LAUNCH}block") or n.name == f"{LAUNCH}rows":
            self.constants[text] = text, n.hint
            return text
        return self._argument(text)

    def _divisor(self, n: Size) -> str:
        return self._size(n) if is_at_least(n, 1) else self._argument(f"greater({host_text(n)}, 1)")

    def _argument(self, text: str) -> str:
        """The name of an argument whose value is this expression of the program."""
        found = next((name for name, value in self.arguments.items() if value == text), None)
        if found is None:
            found = text if text.isidentifier() else f"size{len(self.arguments)}"
            self.arguments[found] = text
        return found

    def _index_type(self) -> str:
        """The integers that indices are: decided at a launch where that depends on sizes."""
        bounds = index_bounds(self.kernel)
        if bounds is None or is_static(bounds):
            return "tl.int64" if bounds is None or is_wide(*bounds) else "tl.int32"
        self.constants["index"] = f"tl.int64 if is_wide({', '.join(map(host_text, bounds))}) else tl.int32", "int32"
        return "index"

    # --- names ----------------------------------------------------------------------------------------------------------------------------

    def _name(self, p: Parameter) -> str:
        return "failures" if p == FAILURES else f"a{self.parameters.index(p)}"

    def _parameter(self, p: Parameter) -> str:
        if p.storage is not None:  # values that share memory are one parameter
            p = next((q for q in self.parameters if q.storage == p.storage and q.dtype == p.dtype), p)
        if p not in self.parameters:
            self.parameters.append(p)
        return self._name(p)

    def _variable(self, k: int) -> Callable[[Node], str]:
        prefix = "v" if len(self.kernel.stages) == 1 else f"v{k}_"
        return lambda node: self.alias.get((k, node.id)) or f"{prefix}{node.id}"

    def _affine(self, s: Writing, x: Affine) -> str:
        return affine_text(x, self._variable(s.number), self.sizes)

    def _buffer(self, v: Var) -> str | None:
        """The parameter in which a variable lies; None where it lies nowhere."""
        place = self.storage[v].place
        if v in self.unread:
            return None
        if place is Place.ROW:
            return self._parameter(Parameter(scratch=self.scratch[v])) if v in self.scratch else None
        return None if place is Place.REGISTER else self._parameter(Parameter(self.storage[v], v))

    # --- dimensions -----------------------------------------------------------------------------------------------------------------------

    def _of(self, loop_vars: Iterable[LoopVar]) -> frozenset[int]:
        return frozenset(self.dims[v] for v in loop_vars if v in self.dims)

    def _everywhere(self, s: Writing) -> frozenset[int]:
        return frozenset(self.layout.outer) | (frozenset((self.layout.inner_at,)) if s.own else frozenset())

    def _spread(self, s: Writing, text: str, has: frozenset[int], wanted: frozenset[int]) -> str:
        """A value over all dimensions that are wanted."""
        if wanted <= has:
            return text
        shape = self._shape(s, wanted | has)
        is_size = text.isdigit() or text in self.arguments
        return f"tl.full({shape}, {text}, {self.integer})" if is_size else f"tl.broadcast_to({text}, {shape})"

    def _shape(self, s: Writing, dims: frozenset[int]) -> str:
        blocks = {at: d.block for at, d in self.layout.outer.items()}
        if s.own:
            blocks[self.layout.inner_at] = s.own.block
        return f"[{', '.join(self._size(blocks[at]) if at in dims else '1' for at in range(self.layout.rank))}]"

    def _offset(self, s: Writing, x: Affine, dims: frozenset[int]) -> str:
        """A place in memory for every place of the dimensions."""
        return self._spread(s, self._affine(s, x), self._of(x.loop_vars()), dims)

    def _range(self, at: int, block: Size) -> str:
        """The places of a block along one of its dimensions."""
        text = f"tl.arange(0, {self._size(block)})"
        if self.layout.rank == 2:
            text += "[:, None]" if at == 0 else "[None, :]"
        return self._as_index(text)

    def _as_index(self, text: str) -> str:
        return text if self.integer == "tl.int32" else f"{text}.to({self.integer})"

    def _mask(self, s: Writing, dims: Iterable[int], *more: str) -> str:
        parts = [*(s.masks[at] for at in sorted(dims) if at in s.masks), *more]
        return " & ".join(parts)

    def _soundness(self, v: Var) -> list[str]:
        return ["sound"] if self.guarded and self.storage[v].place is Place.INPUT else []

    def _outer(self) -> dict[int, str]:
        """Definitions of the outer loop variables; the masks of their dimensions."""
        found, masks = self.layout, {}
        blocks = {at: ceil_div(d.count, d.block) for at, d in found.outer.items()}
        counts = [*((v.key, v.size) for v in found.scalar), *blocks.items(), ("piece", found.pieces)]
        numbers = self._numbers([(part, count) for part, count in counts if not isinstance(count, int) or count > 1])
        for v in found.scalar:
            self.w.line(f"{v.key} = {numbers[v.key]}")
        if found.is_cut:
            self.w.line(f"piece = {numbers['piece']}")
        for at, d in found.outer.items():
            name = d.axes[0].key if len(d.axes) == 1 else f"row{at}" if found.rank == 2 else "i"
            start = f"{bracketed(numbers[at])} * {self._size(d.block)} + " if at in numbers else ""
            self.w.line(f"{name} = {start}{self._range(at, d.block)}")
            if not d.is_exact:
                masks[at] = f"inside{at}" if found.rank == 2 else "inside"
                self.w.line(f"{masks[at]} = {name} < {self._size(d.count)}")
            for line in unravel(name, d.axes, self.sizes):
                self.w.line(line)
        return masks

    def _numbers(self, parts: Sequence[tuple[object, Size]]) -> dict[object, str]:
        """Which of its counts a program has of each part of the grid, the last of them running fastest."""
        if not parts:
            return {}
        program = self._as_index("tl.program_id(0)")
        if len(parts) > 1:
            self.w.line(f"program = {program}")
            program = "program"
        return dict(zip([part for part, _ in parts], digits(program, [count for _, count in parts], self.sizes), strict=True))

    # --- what passes from stage to stage --------------------------------------------------------------------------------------------------

    def _forwarded(self) -> dict[tuple[int, int], tuple[int, Effect | Load]]:
        """Loads, by stage and node, of what an earlier stage has in registers at the same place; rows that others read get memory."""
        known: dict[Var, tuple[int, Effect | Load]] = {}
        found: dict[tuple[int, int], tuple[int, Effect | Load]] = {}
        for k, stage in enumerate(self.kernel.stages):
            for node in stage.nodes:
                if not isinstance(node, Load) or node.guard is not None:
                    continue
                at, source = known.get(node.var, (k, node))
                if at < k and self._stays(at, source, k, node):
                    found[k, node.id] = at, source
                else:
                    known.setdefault(node.var, (k, node))
            for e in stage.effects:
                if isinstance(e, Running) or isinstance(e, Store) and e.op is None:
                    known[e.var] = k, e
        self._give_memory(found)
        return found

    def _give_memory(self, forwarded: Mapping[tuple[int, int], object]) -> None:
        """Rows of which a stage reads other places than those that it has in registers lie in scratch memory."""
        for k, stage in enumerate(self.kernel.stages):
            for node in stage.nodes:
                if not isinstance(node, Load) or (k, node.id) in forwarded or node.var in self.scratch:
                    continue
                if self.storage[node.var].place is Place.ROW:
                    self.scratch[node.var] = self.arena.take(size(node.var.aval.shape), node.var.aval.dtype)

    def _stays(self, at: int, source: Effect | Load, k: int, node: Load) -> bool:
        """Whether what a stage has at a place of its own is there when a later one wants that place."""
        first, second = self.layout.inner[at], self.layout.inner[k]
        if first is not None and second is not None:
            if not first.is_whole or [v.size for v in first.axes] != [v.size for v in second.axes]:
                return False
        elif first is not second:
            return False
        return own_place(source.offset, self.kernel.stages[at]) == own_place(node.offset, self.kernel.stages[k])

    def _needs_barrier(self, k: int) -> bool:
        """Whether a stage reads from memory what an earlier one wrote there, or overwrites what an earlier one read."""
        here, before = self.kernel.stages[k], self.kernel.stages[:k]
        written = {self._memory(e.var) for s in before for e in s.effects if not isinstance(e, Check)} - {None}
        read = {self._memory(n.var) for s in before for n in s.nodes if isinstance(n, Load)} - {None}
        reads = {self._memory(n.var) for n in here.nodes if isinstance(n, Load) and (k, n.id) not in self.forward}
        writes = {self._memory(e.var) for e in here.effects if not isinstance(e, Check)}
        return bool(written & reads or read & writes or written & writes)

    def _overtakes(self, s: Writing, v: Var) -> bool:
        """Whether a thread may overwrite what others have still to read at the same place.

        Of a stage with fewer places than the block has threads several threads hold one place: they all read it, and one of them writes.
        """
        widest = s.own is not None and all(d is None or d.block == s.own.block for d in self.layout.inner)
        if self.kernel.form is Form.FLAT or widest:
            return False
        reads = {self._memory(n.var) for n in s.stage.nodes if isinstance(n, Load) and (s.number, n.id) not in self.forward}
        return self._memory(v) in reads - {None}

    def _memory(self, v: Var) -> object:
        place = self.storage[v].place
        if place is Place.REGISTER or v in self.unread or place is Place.ROW and v not in self.scratch:
            return None
        return v if place is Place.ROW else self.storage[v]


def place_of(buffer: str, offset: str, more: str = "") -> str:
    """A pointer to a place of a buffer."""
    return buffer if not more and offset == "0" else f"{buffer} + {more}{bracketed(offset)}"


def bracketed(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() or text.startswith("tl.") else f"({text})"
