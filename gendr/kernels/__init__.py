"""The room for kernels: the operator layer, the choice of a backend, and what compiles."""
