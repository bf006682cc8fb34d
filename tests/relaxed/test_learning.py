"""Numbers in hard programs are found from what the hard programs return."""

import torch

from gendr.relaxed import Sampled
from lab.studies.hard_programs import TASKS, learn
from support.cases import for_each

# The ways that are quick; the page has all of them.
WAYS = [
    ("union-find", Sampled(16)),
    ("list scheduling", Sampled(16)),
    ("bounce", Sampled(8)),
    ("insertion sort", "merged"),
]


@for_each("name, execution", WAYS, rotating=4)
def test_numbers_are_learnt_from_the_hard_program(name, execution):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are small
    try:
        found = learn(TASKS[name], execution, steps=40, batch=16)
    finally:
        torch.set_num_threads(threads)
    assert found.error < 0.5 * found.before
