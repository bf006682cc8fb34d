"""Programs written for CUDA, run as they are: in the style of code against the documentation."""

import sys

import pytest
import torch

from gendr import primitives
from gendr._runtime.numba.compilation import available
from support.cases import for_each

pytestmark = pytest.mark.skipif(available() is not None, reason="needs Numba")

COMMON = """
import numpy as np
import torch
import nvdiffrast.torch as dr

device = torch.device("cuda")
glctx = dr.RasterizeCudaContext(device=device)

def projection(x=0.4, n=1.0, f=10.0):
    return np.array([[n/x, 0, 0, 0], [0, n/x, 0, 0],
                     [0, 0, -(f+n)/(f-n), -(2*f*n)/(f-n)], [0, 0, -1, 0]], dtype=np.float32)

def rotation(a, b):
    ca, sa, cb, sb = np.cos(a), np.sin(a), np.cos(b), np.sin(b)
    ry = np.array([[ca, 0, sa, 0], [0, 1, 0, 0], [-sa, 0, ca, 0], [0, 0, 0, 1]])
    rx = np.array([[1, 0, 0, 0], [0, cb, -sb, 0], [0, sb, cb, 0], [0, 0, 0, 1]])
    move = np.eye(4)
    move[2, 3] = -3.5
    return (projection() @ move @ rx @ ry).astype(np.float32)

def transform_pos(mtx, pos):
    t_mtx = torch.from_numpy(mtx).cuda() if isinstance(mtx, np.ndarray) else mtx
    posw = torch.cat([pos, torch.ones([pos.shape[0], 1]).cuda()], axis=1)
    return torch.matmul(posw, t_mtx.permute(0, 2, 1) if t_mtx.ndim == 3 else t_mtx.t())

def sphere(n):
    v = torch.tensor([[1,0,0],[-1,0,0],[0,1,0],[0,-1,0],[0,0,1],[0,0,-1]],
                     dtype=torch.float32, device="cuda")
    f = torch.tensor([[0,2,4],[2,1,4],[1,3,4],[3,0,4],[2,0,5],[1,2,5],[3,1,5],[0,3,5]],
                     dtype=torch.int32, device="cuda")
    for _ in range(n):
        v, f = subdivide(v, f)
        v = torch.nn.functional.normalize(v, dim=1)
    return v, f

def subdivide(v, f):
    f = f.long()
    e = torch.cat([f[:, [0, 1]], f[:, [1, 2]], f[:, [2, 0]]]).sort(dim=1)[0]
    e, inverse = torch.unique(e, dim=0, return_inverse=True)
    a, b, c = (inverse + len(v)).reshape(3, -1)
    v = torch.cat([v, v[e].mean(dim=1)])
    faces = (f[:, 0], a, c), (a, f[:, 1], b), (c, b, f[:, 2]), (a, b, c)
    f = torch.cat([torch.stack(x, 1) for x in faces])
    return v, f.int().contiguous()

angles = (0, 0), (1.5, .3), (3., -.4), (4.5, .2), (.7, 1.4), (2., -1.3)
views = torch.tensor(np.stack([rotation(a, b) for a, b in angles]), device=device)

def masks(v, f, res=40):
    clip = transform_pos(views, v).contiguous()
    rast_out, _ = dr.rasterize(glctx, clip, f, resolution=[res, res])
    color, _ = dr.interpolate(torch.ones_like(v[None, :, :1]), rast_out, f)
    return dr.antialias(color, rast_out, clip, f)
"""

LARGE_STEPS = """
v, f = sphere(3)
target = masks(v * torch.tensor([1.0, .55, .75], device="cuda"), f)
n, e = len(v), torch.cat([f[:, [0, 1]], f[:, [1, 2]], f[:, [2, 0]]]).long()
adjacent = torch.zeros(n, n, device="cuda")
adjacent[e[:, 0], e[:, 1]] = adjacent[e[:, 1], e[:, 0]] = 1
M = torch.eye(n, device="cuda") + 19. * (torch.diag(adjacent.sum(1)) - adjacent)
L = torch.linalg.cholesky(M)
u = (M @ v).clone().detach().requires_grad_(True)
opt = torch.optim.Adam([u], lr=0.3)
losses = []
for it in range(25):
    vertices = torch.cholesky_solve(u, L)
    loss = (masks(vertices, f) - target).abs().mean()
    opt.zero_grad(); loss.backward(); opt.step()
    torch.cuda.synchronize()
    losses.append(loss.item())
"""

REMESHING = """
target = masks(sphere(3)[0] * torch.tensor([.9, .5, .7]).cuda(), sphere(3)[1])
v, f = sphere(0)
losses = []
for level in range(3):                      # the topology changes, and with it the hash
    v, f = subdivide(v.detach(), f)
    v = v.clone().requires_grad_(True)
    opt = torch.optim.Adam([v], lr=0.04 / (level + 1))
    topology = dr.antialias_construct_topology_hash(f)
    for it in range(10):
        clip = transform_pos(views, v)
        rast, rast_db = dr.rasterize(glctx, clip, f, (40, 40), grad_db=False)
        color, _ = dr.interpolate(torch.ones(1, len(v), 1, device="cuda"), rast, f)
        color = dr.antialias(color, rast, clip, f, topology_hash=topology)
        e = v[f.long()]
        loss = (color - target).pow(2).mean() + 1e-3 * (e - e.roll(1, 1)).pow(2).mean()
        opt.zero_grad(set_to_none=True); loss.backward(); opt.step()
        losses.append(loss.item())
"""

POSE_AND_DEPTH = """
v, f = sphere(2)
v = (v * torch.tensor([1., .5, .3]).cuda() + .2 * v ** 2).contiguous()
goal = torch.as_tensor(rotation(.4, .3)).cuda()

def picture(mtx):
    clip = transform_pos(mtx, v)[None]
    with dr.DepthPeeler(glctx, clip, f, (48, 48)) as peeler:
        rast, db = peeler.rasterize_next_layer()
        back, _ = peeler.rasterize_next_layer()
    color, da = dr.interpolate(v[None], rast, f, rast_db=db, diff_attrs="all")
    both = torch.cat([color, da, 1 - rast[..., 2:3], back[..., 2:3]], -1)
    return dr.antialias(both, rast, clip, f, pos_gradient_boost=2.)

ref = picture(goal)
turn = torch.zeros(3, device="cuda", requires_grad=True)
opt = torch.optim.Adam([turn], lr=.02)
start = torch.as_tensor(rotation(.6, .1)).cuda()
losses, event = [], torch.cuda.Event(enable_timing=True)
event.record()
for it in range(30):
    x, y, z = turn
    o = torch.zeros_like(x)
    rows = (o, -z, y, o), (z, o, -x, o), (-y, x, o, o), (o, o, o, o)
    k = torch.stack([torch.stack(r) for r in rows])
    loss = (picture(start @ torch.matrix_exp(k)) - ref)[..., :3].square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
    losses.append(loss.item())
assert torch.cuda.is_available() and torch.cuda.device_count() == 1
"""


@for_each("program, factor", [(LARGE_STEPS, 0.5), (REMESHING, 0.5), (POSE_AND_DEPTH, 0.4)])
def test_programs_run_unchanged(program, factor, monkeypatch):
    monkeypatch.setitem(sys.modules, "nvdiffrast.torch", primitives)
    names = {}
    with primitives.on_cpu():
        exec(COMMON + program, names)
    assert "nvdiffrast" not in sys.modules
    losses = names["losses"]
    assert losses[-1] < factor * losses[0], losses


CUDA = '''
import torch
g = torch.Generator(device="cuda").manual_seed(0)
net = torch.nn.Linear(3, 2, device="cuda").cuda().to("cuda:0")
x = torch.rand(4, 3, device="cuda", generator=g).to(0)
for y in (torch.zeros(3).cuda(non_blocking=True), torch.eye(2).pin_memory(),
          torch.ones(2).to(device="cuda", dtype=torch.int32), torch.cuda.FloatTensor([1.0]),
          torch.arange(3, device=torch.device("cuda", 0)), torch.tensor([1.], device="cuda:0"),
          torch.rand_like(x, device="cuda"), x.new_zeros(3, device="cuda"),
          x.type("torch.cuda.DoubleTensor"), torch.empty(2, pin_memory=True)):
    assert y.device.type == "cpu"
torch.cuda.empty_cache(); torch.cuda.synchronize(); torch.cuda.manual_seed_all(3)
torch.manual_seed(1)
torch.cuda.set_device(0); torch.cuda.reset_peak_memory_stats()
with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
    net(x).sum().backward()
with torch.device("cuda"):
    assert torch.zeros(2).device.type == "cpu"
torch.set_default_device("cuda")
assert torch.zeros(2).device.type == "cpu"
assert isinstance(torch.Generator(), torch.Generator)
assert torch.cuda.max_memory_allocated() == 0 and torch.cuda.get_device_name(0)
'''  # fmt: skip


def test_on_cpu_is_undone_exactly():
    owners = (torch, torch.cuda, torch.Tensor, torch.nn.Module)
    before = [dict(vars(owner)) for owner in owners]
    with primitives.on_cpu():
        exec(CUDA, {})
    with pytest.raises(ZeroDivisionError), primitives.on_cpu():
        _ = 1 / 0
    for owner, names in zip(owners, before, strict=True):
        assert {k: v for k, v in vars(owner).items() if k in names} == names
        new = {*vars(owner)} - {*names}
        assert not new, new
    if not torch.cuda.is_available():
        with pytest.raises((RuntimeError, AssertionError)):
            torch.zeros(1).cuda()
