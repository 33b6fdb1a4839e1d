"""What programs decide about a launch when they know their sizes: arithmetic of sizes, blocks, pieces of a reduction, the width of indices.

Generated programs call these functions, and the layout of blocks asks them about typical sizes.
"""

from __future__ import annotations

FLAT = 1024  # elements that a program of the grid takes
LEAST = 16  # elements of a row that a block has at least: there is one compiled kernel for every power of two
FEW = 128  # programs that leave a GPU idle
PIECE = 4096  # elements of a reduction that is cut which one program takes at least
MAX_PIECES = 256


def floor_div(a: int, b: int) -> int:
    """``a // b``; over zero, of which there are no elements to index, as over one."""
    return a // (b or 1)


def floor_mod(a: int, b: int) -> int:
    """``a % b``, likewise."""
    return a % (b or 1)


greater, smaller = max, min


def power_of_two(n: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(n - 1, 0).bit_length()


def fit(count: int, most: int) -> int:
    """How many of so many places a block takes."""
    return max(LEAST, min(power_of_two(count), most))


def together(*blocks: int) -> int:
    """How many rows one program takes whose blocks are so long."""
    return max(1, FLAT // max(blocks))


def warps(elements: int) -> int:
    """How many groups of 32 threads share a block."""
    return 1 if elements <= 128 else 2 if elements <= 512 else 4 if elements <= 2048 else 8 if elements <= 4096 else 16


def length_of(count: int, block: int, across: int, programs: int) -> int:
    """The length of the pieces of a reduction that is cut: whole blocks.

    Args:
      count: how many places it has.
      across: how many results a program has.
      programs: how many programs there are when it is not cut.
    """
    wanted = max(1, PIECE // across)
    pieces = max(1, min(MAX_PIECES, -(-count // max(wanted, block)), -(-4 * FEW // max(programs, 1))))
    blocks = -(-count // block)
    return max(1, -(-blocks // pieces)) * block


def is_wide(*bounds: int) -> bool:
    """Whether an index may not fit 32 bits."""
    return max(bounds) + 2**20 > 2**31
