"""The loop IR: how graphs become fused loop nests over buffers. Shared by the code generators; it knows none of them."""
