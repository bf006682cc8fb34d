"""Programs written for CUDA, run as they are: in the style of code against the documentation."""

import sys
import warnings

import pytest
import torch

import gendr
from gendr import primitives
from support.cases import for_each

pytestmark = pytest.mark.skipif(gendr.backends()["cpu"] is not None, reason="needs Numba")

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


ENVIRONMENT = """
from torch.utils.data import DataLoader, TensorDataset
torch.cuda.manual_seed_all(0); torch.manual_seed(0)
v, f = sphere(2)
v = v * (1 + .15 * torch.sin(4 * v[:, [1, 2, 0]]).prod(1, keepdim=True))
e = v[f.long()]
n = torch.zeros_like(v)
n.index_add_(0, f.long().flatten(),
             torch.cross(e[:, 1] - e[:, 0], e[:, 2] - e[:, 0], dim=1).repeat_interleave(3, 0))
n = torch.nn.functional.normalize(n, dim=1)
uv = torch.stack([torch.atan2(v[:, 0], v[:, 2]) / 6.2832 + .5, v[:, 1] / 2 + .5], -1)
ramp = (torch.arange(32, device="cuda") + .5) / 16 - 1
y, x = torch.meshgrid(ramp, ramp, indexing="ij")
one = torch.ones_like(x)
sides = [(one, -y, -x), (-one, -y, x), (x, one, y), (x, -one, -y), (x, -y, one), (-x, -y, -one)]
d = torch.nn.functional.normalize(torch.stack([torch.stack(s, -1) for s in sides]), dim=-1)
truth = .5 + .5 * torch.sin(6 * d + torch.tensor([0., 1., 2.], device="cuda"))

def render(env, mtx, res=48):
    pos = transform_pos(mtx, v)
    rast_out, rast_out_db = dr.rasterize(glctx, pos, f, resolution=[res, res])
    eye = torch.linalg.inv(mtx)[:, :, 2]
    view = v - (eye[:, :3] / eye[:, 3:])[:, None]
    refl = view - 2 * n * (n * view).sum(-1, keepdim=True)
    refl, refld = dr.interpolate(refl.contiguous(), rast_out, f, rast_db=rast_out_db,
                                 diff_attrs="all")
    refl = refl / (refl ** 2).sum(-1, keepdim=True).clamp(min=1e-8).sqrt()
    img = dr.texture(env[np.newaxis, ...], refl, uv_da=refld,
                     filter_mode="linear-mipmap-linear", boundary_mode="cube", max_mip_level=4)
    soft, _ = dr.interpolate(uv[None], rast_out, f)
    img = img * (.8 + .2 * dr.texture(stripes, soft, filter_mode="linear", boundary_mode="wrap"))
    img = torch.where(rast_out[..., -1:] > 0, img, torch.ones_like(img[:1, :1, :1]))
    return dr.antialias(img, rast_out, pos, f)

stripes = torch.rand(1, 8, 8, 3, device="cuda", generator=torch.Generator(device).manual_seed(3))
poses = views.repeat_interleave(2, 0)
with torch.no_grad():
    goals = torch.cat([render(truth, m[None]) for m in poses])
env_var = torch.full((6, 32, 32, 3), .5, device="cuda", requires_grad=True)
optimizer = torch.optim.Adam([env_var], lr=.03, betas=(.9, .99))
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda x: max(.1, 10 ** (-x * .01)))
scaler = torch.cuda.amp.GradScaler()
losses = []
for epoch in range(6):
    for m, goal in DataLoader(TensorDataset(poses, goals), batch_size=4, pin_memory=True):
        with torch.cuda.amp.autocast(enabled=False):
            loss = (render(env_var, m.cuda(non_blocking=True)) - goal.cuda()).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer); scaler.update(); scheduler.step()
    losses.append(torch.mean((env_var.detach() - truth) ** 2).cpu().numpy())
    if epoch == 0:
        first = env_var.detach().cpu().numpy()
torch.cuda.synchronize(); torch.cuda.empty_cache()
assert first.std() < env_var.detach().cpu().numpy().std()
"""


@pytest.mark.rotating(4, group="long")
@for_each(
    "program, factor",
    [(REMESHING, 0.5), (POSE_AND_DEPTH, 0.4), (ENVIRONMENT, 0.5)],
)
def test_programs_run_unchanged(program, factor, monkeypatch):
    monkeypatch.delitem(sys.modules, "nvdiffrast", raising=False)  # of the tests of neighbours
    monkeypatch.setitem(sys.modules, "nvdiffrast.torch", primitives)
    names = {}
    with primitives.on_cpu(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about torch.cuda.amp and pinned memory
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

HABITS = """
import io, sys, threading
import numpy as np
import torch
sys.modules["nvdiffrast.torch"] = sys.modules["gendr.primitives"]
import nvdiffrast.torch as dr
from nvdiffrast import torch as again
assert dr is again

class Double(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, g):                     # the engine of torch calls it
        return torch.full((1,), 2., device="cuda") * g

net = torch.nn.Linear(3, 1).to(0)
opt, scaler = torch.optim.Adam(net.parameters(), lr=.1), torch.amp.GradScaler("cuda")
before = net.weight.detach().cpu().numpy(), net.weight.detach().to("cpu")
with torch.autocast("cuda", dtype=torch.float16):
    loss = Double.apply(net(torch.ones(2, 3).to(device=0))).sum()
scaler.scale(loss).backward()
scaler.unscale_(opt)
torch.nn.utils.clip_grad_norm_(net.parameters(), 1.)
scaler.step(opt)
scaler.update()
assert (torch.tensor(before[0]) == before[1]).all() and (net.weight != before[1]).all()

file = io.BytesIO()
torch.save(opt.state_dict(), file)
for where in ({}, {"map_location": "cuda:0"}, {"map_location": lambda s, _: s.cuda(0)}):
    file.seek(0)
    opt.load_state_dict(torch.load(file, **where))
for state in opt.state.values():
    for name, value in state.items():
        state[name] = value.cuda() if torch.is_tensor(value) else value

with torch.random.fork_rng():
    torch.rand(1, device="cuda")
properties = torch.cuda.get_device_properties("cuda:0")
assert torch.cuda.is_initialized() and properties.total_memory > 0 and properties.major >= 0
stream, done = torch.cuda.Stream(), []
with torch.cuda.stream(stream):
    torch.zeros(2, device="cuda").record_stream(stream)
assert torch.nn.DataParallel(net).cuda()(torch.ones(2, 3).cuda()).shape == (2, 1)
index, values = torch.cuda.LongTensor([[0, 1], [1, 0]]), torch.ones(2, device="cuda")
assert torch.cuda.sparse.FloatTensor(index, values, torch.Size([2, 2])).to_dense().sum() == 2
thread = threading.Thread(target=lambda: done.append(torch.zeros(2, device="cuda").cuda()))
thread.start(); thread.join()
assert done[0].device.type == "cpu"
torch.set_default_tensor_type("torch.cuda.FloatTensor")
assert isinstance(torch.zeros(1), torch.cuda.FloatTensor)
torch.cuda.BFloat16Tensor(2)

pos = torch.tensor([[[-1, -1, 0, 1], [1, -1, 0, 1], [0, 1, .5, 1]]], dtype=torch.float32).cuda()
tri = torch.from_numpy(np.array([[0, 1, 2]], np.int32)).cuda()
part = torch.tensor([[0, 1]], dtype=torch.int32)
dr.set_log_level(0); dr.get_log_level()
for ctx in (dr.RasterizeCudaContext(), dr.RasterizeCudaContext("cuda:0"), None,
            dr.RasterizeGLContext(True, "automatic", None),
            dr.RasterizeGLContext(output_db=False, mode="manual", device="cuda")):
    rast, db = dr.rasterize(ctx, pos, tri, [16, 16], None, True)
    for size in ((np.int64(16), np.int32(16)), np.array([16, 16]), torch.Size([16, 16])):
        assert torch.equal(dr.rasterize(ctx, pos[0], tri, size, ranges=part)[0], rast)
    if db.shape[-1] == 0:
        continue
    for some in ([0, 2], (0, 2), np.array([0, 2]), torch.tensor([0, 2]), "all"):
        color, slopes = dr.interpolate(pos, rast, tri, db, some)
    assert slopes.shape[-1] == 8
    tex = torch.rand(1, 16, 16, 3, device="cuda")
    mip = dr.texture_construct_mip(tex, 2, False)
    a = dr.texture(tex, rast[..., :2], db, None, mip, "linear-mipmap-linear", "wrap", None)
    b = dr.texture(tex, rast[..., :2].contiguous(), db, max_mip_level=2)
    assert torch.equal(a, b)
    shared = dr.antialias_construct_topology_hash(tri)
    assert torch.equal(dr.antialias(color, rast, pos, tri, shared, 1.),
                       dr.antialias(color.contiguous(), rast, pos, tri))
"""


def test_habits_of_such_programs(monkeypatch):
    monkeypatch.delitem(sys.modules, "nvdiffrast", raising=False)
    names = {"__name__": "program"}
    with primitives.on_cpu(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(HABITS, names)
    del sys.modules["nvdiffrast.torch"]
    assert "nvdiffrast" not in sys.modules
    assert torch.get_default_dtype() == torch.float32


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
