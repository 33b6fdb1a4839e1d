"""Selections as C++: places in memory whose number is found on the way, and promises about sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from functx.backends.cpp.text import size_text
from functx.backends.loops.formulas import size_name
from functx.backends.loops.nodes import Selection
from functx.ir import Literal, Var
from functx.shapes import size


def selection_lines(
    step: Selection, pointer: Callable[[Var], str], blocks: Sequence[str], call_back: Sequence[str], slot: int | None
) -> list[str]:
    """The block of a step.

    Args:
      pointer: an operand or result as a typed pointer.
      blocks: the memory of the results.
      call_back: how the reference implementation is called, which raises what is to be raised.
      slot: where the call keeps the size that the step finds.
    """
    (operand,) = step.inputs
    if step.equation.primitive.name == "promise":
        value = str(int(operand.value)) if isinstance(operand, Literal) else f"*{pointer(operand)}"
        return [f"if (!({value} {step.equation.params['kind']} 0)) {{", *(f"  {line}" for line in call_back), "}"]
    (out,) = step.outputs
    (block,) = blocks
    n = size_text(size(operand.aval.shape))
    found = f"{size_name(step.binds.name)} = call->dims[{slot}]"
    if step.equation.primitive.name == "places":
        return [
            f"if (!{block}.reserve({n} * 8)) return out_of_memory(call, {n} * 8);",
            f"{found} = places_of({pointer(operand)}, {n}, {pointer(out)});",
        ]
    return [
        f"const int64_t total = sum_of_counts({pointer(operand)}, {n});",
        "if (total < 0) {",
        *(f"  {line}" for line in call_back),
        "}",
        f"if (!{block}.reserve(total * 8)) return out_of_memory(call, total * 8);",
        f"{found} = total;",
        f"repeat_places({pointer(operand)}, {n}, {pointer(out)});",
    ]


SNIPPETS: dict[str, str] = {
    "places_of": """\
// The places where a mask holds; how many they are.
static int64_t places_of(const uint8_t* mask, int64_t n, int64_t* at) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) at[count] = i, count += mask[i];
  return count;
}
""",
    "sum_of_counts": """\
// -1 if one is negative.
static int64_t sum_of_counts(const int64_t* counts, int64_t n) {
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (counts[i] < 0) return -1;
    total += counts[i];
  }
  return total;
}
""",
    "repeat_places": """\
static void repeat_places(const int64_t* counts, int64_t n, int64_t* at) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < counts[i]; ++k) *at++ = i;
}
""",
}
