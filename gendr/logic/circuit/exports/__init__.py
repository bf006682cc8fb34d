"""Circuits as source code: C, Verilog and its test benches, NumPy, and graphs for Graphviz."""

from gendr.logic.circuit.exports import bench, c, dot, numpy, verilog

__all__ = ["bench", "c", "dot", "numpy", "verilog"]
