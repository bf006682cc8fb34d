"""The engine for grids of tasks: what a task is, its results file, who runs it, and the grid."""
