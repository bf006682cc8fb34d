"""Circuits as source code: C, Verilog, Python with NumPy, and graphs for Graphviz."""

from gendr.logic.circuit.exports import c, dot, numpy, verilog

__all__ = ["c", "dot", "numpy", "verilog"]
