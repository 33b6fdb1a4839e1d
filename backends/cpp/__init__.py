"""Graphs as C++ with OpenMP: generation, compilation, execution."""
