"""Circuits: networks of gates as bits. Nothing here but `hardening` needs torch.

`netlist` is the intermediate representation, `passes` make it smaller, `circuit` is what users
have, `packed` and `kernels` run it, `files` and `exports` write it.
"""
