import copy
import math
import pickle

import pytest
import torch

import gendr


def area_to(mesh, target):
    """A loss with an easy minimum: the squared distance of the mean radius to another."""
    return (mesh.vertices.norm(dim=-1).mean() - target).square()


def edges(mesh):
    a, b = mesh.vertices.detach()[mesh.edges.T]
    return (a - b).norm(dim=-1)


def loop(optimizer, steps, target=1.0):
    for _ in range(steps):
        optimizer.zero_grad()
        area_to(optimizer.mesh(), target).backward()
        optimizer.step()


def test_edges_keep_their_length_while_the_surface_grows():
    sphere = gendr.mesh.icosphere(2).scaled(0.3)
    optimizer = gendr.RemeshingAdam(sphere, lr=0.03, edge_length=0.15, every=5)
    loop(optimizer, 60)
    mesh = optimizer.result()
    assert abs(float(mesh.vertices.norm(dim=-1).mean()) - 1) < 0.1
    assert len(mesh.faces) > 3 * len(sphere.faces)
    assert abs(float(edges(mesh).mean()) / 0.15 - 1) < 0.15
    assert gendr.mesh.mesh_quality(mesh)["self_intersections"] == 0


def test_schedulers_work_and_a_loss_may_be_kept():
    optimizer = gendr.RemeshingAdam(gendr.mesh.icosphere(1), lr=0.1, edge_length=0.3, every=2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(4):
        optimizer.zero_grad()
        loss = area_to(optimizer.mesh(), 2.0)  # keeps its graph, of the old parameter, alive
        loss.backward()
        optimizer.step()
        scheduler.step()
    (parameter,) = optimizer.param_groups[0]["params"]
    assert len(parameter) == len(optimizer.mesh().vertices) > 42
    assert math.isclose(optimizer.param_groups[0]["lr"], 0.1 * 0.5**4)


def test_colours_are_learnt_and_carried():
    sphere = gendr.mesh.icosphere(2)
    optimizer = gendr.RemeshingAdam(
        sphere.with_vertex_colors((sphere.vertices + 1) / 2), edge_length=0.2, every=3
    )
    optimizer.remesh()
    mesh = optimizer.mesh()
    assert len(mesh.vertices) != len(sphere.vertices)
    # Interpolated in flat faces, whose middle is nearer to the origin.
    gap = (mesh.vertex_colors - (mesh.vertices + 1) / 2).detach()
    assert float(gap.abs().max()) < 0.02
    for _ in range(30):
        optimizer.zero_grad()
        optimizer.mesh().vertex_colors.square().sum().backward()
        optimizer.step()
    assert float(optimizer.result().vertex_colors.mean()) < 0.2


def test_averages_go_along():
    optimizer = gendr.RemeshingAdam(gendr.mesh.icosphere(2), edge_length=0.12)
    loop(optimizer, 3, 2.0)
    (parameter,) = optimizer.param_groups[0]["params"]
    radial = (optimizer.state[parameter]["first"] * optimizer.mesh().vertices.detach()).sum()
    optimizer.remesh()
    (parameter,) = optimizer.param_groups[0]["params"]
    after = optimizer.state[parameter]["first"]
    assert len(after) == len(parameter) > 162
    # The gradient of the surface as a whole stays, whatever the number of its vertices.
    again = (after * optimizer.mesh().vertices.detach()).sum()
    torch.testing.assert_close(again, radial, rtol=0.05, atol=0)


def test_a_loop_goes_on_from_its_state_with_the_same_bits():
    def make():
        return gendr.RemeshingAdam(gendr.mesh.icosphere(1), lr=0.1, edge_length=0.3, every=3)

    whole, part = make(), make()
    loop(whole, 10)
    loop(part, 5)
    state = copy.deepcopy(part.state_dict())
    other = make()
    other.load_state_dict(state)
    loop(other, 5)
    assert torch.equal(other.mesh().faces, whole.mesh().faces)
    assert torch.equal(other.mesh().vertices, whole.mesh().vertices)
    adam = torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    with pytest.raises(ValueError, match="holds no mesh"):
        make().load_state_dict(adam.state_dict())


def test_copies_go_on_alike():
    optimizer = gendr.RemeshingAdam(gendr.mesh.icosphere(1), lr=0.1, edge_length=0.3, every=3)
    loop(optimizer, 2)
    copies = [copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))]
    loop(optimizer, 3)
    for other in copies:
        loop(other, 3)
        assert torch.equal(other.mesh().vertices, optimizer.mesh().vertices)


def test_what_cannot_be_kept_is_refused():
    sphere = gendr.mesh.icosphere(1)
    with pytest.raises(ValueError, match="edge_length"):
        gendr.RemeshingAdam(sphere, edge_length=0.0)
    with pytest.raises(ValueError, match="every"):
        gendr.RemeshingAdam(sphere, every=0)
    uvs = gendr.Mesh(
        sphere.vertices,
        sphere.faces,
        uvs=torch.zeros(1, 2),
        face_uvs=torch.zeros_like(sphere.faces),
    )
    with pytest.raises(ValueError, match="UVs"):
        gendr.RemeshingAdam(uvs)
    with pytest.raises(ValueError, match="batch"):
        gendr.RemeshingAdam(gendr.Mesh.batch([sphere, sphere]))
