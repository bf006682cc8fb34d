"""Inner parts of other libraries that we change or rely on: a file for each of them.

Each says of which versions it was tried (`TRIED`), and what it touches (`SEAMS`: module, name);
`tests/kernels/test_numba.py` fails where one has moved.
"""
