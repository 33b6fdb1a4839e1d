"""The triton backend: programs of the loop IR as Triton kernels on PyTorch's tensors."""
