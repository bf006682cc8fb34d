"""Training by two processes on the CPU: the same weights as by one, to rounding."""

import copy
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from lab.reconstruction import ShapeNetRenderings, Training, TrainingSettings
from lab.reconstruction.commands import train_main as main
from lab.reconstruction.ranks import GlobalBatchNorm2d, Ranks, joined, with_global_batch_norm
from support.processes import Python

STEPS = 2
TRAINED = "published", "none"
SMALL = {"batch": 4, "scale": "1px", "steps": 10}
# Processes that train each encoder from a checkpoint of one process, and write one on the way.
PAIR = f"""
import sys, warnings, torch
from torch import distributed
from lab.reconstruction import ShapeNetRenderings, Training, TrainingSettings
from lab.reconstruction.ranks import Ranks

warnings.simplefilter("error")
rank, store, folder, out = int(sys.argv[1]), *sys.argv[2:5]
torch.set_num_threads(1)
distributed.init_process_group("gloo", init_method=f"file://{{store}}", rank=rank, world_size=2)
ranks, data = Ranks(), ShapeNetRenderings(folder)
for encoder in sys.argv[5:]:
    training = Training(data, TrainingSettings(encoder=encoder, **{SMALL}), ranks=ranks)
    training.restore(f"{{out}}/begin-{{encoder}}.pt")
    losses = [training.advance() for _ in range({STEPS})]
    assert all(one == ranks.from_first(one) for one in losses)
    torch.save(training.model.state_dict(), f"{{out}}/weights-{{encoder}}-{{rank}}.pt")
    if ranks.is_first:
        training.save(f"{{out}}/end-{{encoder}}.pt")
        torch.save([list(one) for one in losses], f"{{out}}/losses-{{encoder}}.pt")
    ranks.wait_for_all()
distributed.destroy_process_group()
"""


def weights(training):
    return {name: value.clone() for name, value in training.model.state_dict().items()}


@pytest.mark.every
@pytest.mark.slow
def test_two_processes_train_as_one_does(folder, tmp_path):
    data, alone = ShapeNetRenderings(folder), {}
    for encoder in TRAINED:
        training = Training(data, TrainingSettings(encoder=encoder, **SMALL))
        # With the usual eps, Adam takes whole steps along gradients that are nothing but rounding.
        training.optimizer.param_groups[0]["eps"] = 1e-3
        training.save(tmp_path / f"begin-{encoder}.pt")
        begin = weights(training)
        losses = [list(training.advance()) for _ in range(STEPS)]
        alone[encoder] = training, begin, losses
    words = [str(tmp_path / "store"), str(folder), str(tmp_path), *TRAINED]
    pair = [Python(PAIR, rank, *words) for rank in range(2)]
    assert [process.wait() for process in pair] == [0, 0], [p.output() for p in pair]
    for encoder, (training, begin, losses) in alone.items():
        told = torch.load(tmp_path / f"losses-{encoder}.pt")
        assert torch.allclose(torch.tensor(told), torch.tensor(losses), rtol=1e-5), encoder
        wanted = weights(training)
        found, other = (torch.load(tmp_path / f"weights-{encoder}-{rank}.pt") for rank in range(2))
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[name], other[name]) for name in found), encoder
        moved = torch.cat([(wanted[n] - begin[n]).double().flatten() for n in wanted])
        apart = torch.cat([(wanted[n] - found[n]).double().flatten() for n in wanted])
        assert moved.norm() > 0
        assert apart.norm() < 1e-5 * moved.norm(), encoder
        # One process goes on from what two wrote.
        again = Training(data, TrainingSettings(encoder=encoder, **SMALL))
        again.restore(tmp_path / f"end-{encoder}.pt")
        assert torch.equal(again.generator.get_state(), training.generator.get_state())
        assert list(again.advance()) == pytest.approx(list(training.advance()), rel=1e-4)


# The second of two processes gets a signal, the first does not.
SIGNALLED = """
import os, signal, sys
from lab.reconstruction.commands import train_main as main
from lab.reconstruction import Training

losses = Training.losses

def signalled(self, pairs):
    if self.ranks.rank == 1 and self.step == 2:
        signal.raise_signal(signal.SIGTERM)
    return losses(self, pairs)

Training.losses = signalled
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.every
@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_two_processes_of_torchrun_stop_at_one_step_and_one_goes_on(folder, tmp_path):
    out, script = tmp_path / "out", tmp_path / "signalled.py"
    command = ["--data", str(folder), "-o", str(out), "--steps", "5",
               "--batch", "4", "--scale", "1px", "--threads", "1", "--quiet"]  # fmt: skip
    script.write_text(SIGNALLED)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    ended = subprocess.run(
        [*torchrun, "2", script, *command], capture_output=True, text=True, timeout=200, check=False
    )
    assert ended.returncode == 1
    # When one has ended, after all was written, torchrun need not wait for the other.
    assert "exitcode  : 130" in ended.stderr
    assert ended.stderr.count("goes on after step 3 of 5") == 1
    assert torch.load(out / "checkpoint.pt")["state"]["step"] == 3
    assert main([*command, "--resume"]) == 0
    assert torch.load(out / "checkpoint.pt")["state"]["step"] == 5


def test_batch_norm_of_one_process_is_that_of_torch():
    """Values, gradients, running statistics; and the other way round through the state dict."""
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Sequential(nn.BatchNorm2d(5)))
    ours = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Sequential(nn.BatchNorm2d(5)))
    ours.load_state_dict(plain.state_dict())
    with_global_batch_norm(ours, Ranks())
    assert sum(isinstance(module, GlobalBatchNorm2d) for module in ours.modules()) == 2
    for _ in range(3):
        images, slope = torch.randn(4, 3, 6, 6) * 3 + 1, torch.randn(4, 5, 4, 4)
        for network in (plain, ours):
            network.zero_grad()
            (network(images) * slope).sum().backward()
        for a, b in zip(plain.parameters(), ours.parameters(), strict=True):
            assert torch.allclose(a.grad, b.grad, rtol=1e-3, atol=1e-4)
    for name, value in plain.state_dict().items():
        assert torch.allclose(value, ours.state_dict()[name], rtol=1e-4, atol=1e-6), name
    images = torch.randn(2, 3, 6, 6)
    assert torch.allclose(plain.eval()(images), ours.eval()(images), rtol=1e-4, atol=1e-5)
    plain.load_state_dict(ours.state_dict())
    assert torch.equal(plain(images), ours(images))


class Paired(Ranks):
    """One of two processes, here threads, which add up their values."""

    def __init__(self, rank, values, barrier):
        super().__init__()
        self.rank, self.size, self.values, self.barrier = rank, 2, values, barrier

    def sum(self, values):
        self.values[self.rank] = values.detach()
        self.barrier.wait(20)
        total = self.values[0] + self.values[1]
        self.barrier.wait(20)
        return total


def test_batch_norm_of_two_is_that_of_the_whole_batch():
    torch.manual_seed(0)
    images, slope = torch.randn(8, 3, 6, 6).double(), torch.randn(8, 5, 4, 4).double()
    whole = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)).double()
    barrier, values = threading.Barrier(2), [0, 0]
    ranks = [Paired(rank, values, barrier) for rank in range(2)]
    pair = [copy.deepcopy(whole) for _ in ranks]
    for network, each in zip(pair, ranks, strict=True):
        with_global_batch_norm(network, each)

    def learn(network, part):
        (network(images[part]) * slope[part]).flatten(1).sum(1).mean().backward()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(learn, pair, [each.share(8) for each in ranks]))
    learn(whole, slice(None))
    for name, value in whole.state_dict().items():
        assert all(torch.allclose(each.state_dict()[name], value) for each in pair), name
    for wanted, *found in zip(*(each.parameters() for each in (whole, *pair)), strict=True):
        assert torch.allclose((found[0].grad + found[1].grad) / 2, wanted.grad, atol=1e-12)
    with pytest.raises(ValueError, match=r"batch of 9 .* by 2 processes; .* multiple of 2"):
        ranks[0].share(9)


def test_one_gpu_is_not_for_several_processes(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="one GPU for all processes; give --device cuda"):
        joined("cuda:0").__enter__()
    monkeypatch.setenv("WORLD_SIZE", "1")  # torchrun with one process
    with joined("cpu") as ranks:
        assert (ranks.rank, ranks.size, ranks.is_first) == (0, 1, True)
