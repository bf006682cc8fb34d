import base64
import json
import re

import numpy as np
import torch

import gendr
from gendr.cli.report import page

METRICS = {
    "iou": 0.97,
    "history": [{"step": 5, "iou": 0.9}, {"step": 10, "iou": 0.95}, {"step": 11, "loss": 0.1}],
    "seconds": {"load": 0.5},
    "settings": {"dist": "<logistic>"},
}


def drawn(mesh):
    text = page("a <mesh>", "s", mesh, METRICS, [("A picture", "image/png", b"png")]).decode()
    return text, json.loads(re.search(r"const MESH = (\{.*\});", text)[1])


def corners(text, kind, width):
    return np.frombuffer(base64.b64decode(text), kind).reshape(-1, width)


def test_a_page_needs_nothing_but_itself():
    text, _ = drawn(gendr.mesh.icosphere(1))
    links = re.findall(r"(?:src|href)\s*=\s*[\"']([^\"']*)", text)
    assert links
    assert all(link.startswith("data:") for link in links)
    assert "http" not in text
    assert "a &lt;mesh&gt;" in text
    assert "&lt;logistic&gt;" in text
    assert f"data:image/png;base64,{base64.b64encode(b'png').decode()}" in text
    assert len(re.search(r'points="([^"]*)"', text)[1].split()) == 2


def test_the_mesh_of_a_page_is_that_which_was_fitted():
    sphere = gendr.mesh.icosphere(1).scaled(3.0).translated(torch.tensor([5.0, 0.0, 0.0]))
    colors = torch.rand(len(sphere.vertices), 3)
    _, found = drawn(sphere.with_vertex_colors(colors))
    faces = sphere.faces.reshape(-1).numpy()
    assert found["corners"] == len(faces)
    place = corners(found["place"], np.int16, 4)
    middle = (sphere.vertices.amax(0) + sphere.vertices.amin(0)) / 2
    expected = ((sphere.vertices - middle) / 3).numpy()[faces]
    np.testing.assert_allclose(place[:, :3] / 32767, expected, atol=1e-3)
    normal = corners(found["normal"], np.int8, 4)[:, :3] / 127
    np.testing.assert_allclose(normal, sphere.vertex_normals.numpy()[faces], atol=0.01)
    color = corners(found["color"], np.uint8, 4)[:, :3] / 255
    np.testing.assert_allclose(color, colors.numpy()[faces], atol=0.003)
    assert found["colored"]
    assert found["texture"] is None


def test_a_texture_goes_along():
    sphere = gendr.mesh.icosphere(0)
    uvs = 3 * torch.rand(len(sphere.vertices), 2) - 1  # the texture repeats
    mesh = gendr.Mesh(
        sphere.vertices, sphere.faces, uvs=uvs, face_uvs=sphere.faces, texture=torch.rand(4, 4, 3)
    )
    _, found = drawn(mesh)
    uv = corners(found["uv"], np.float32, 2)
    np.testing.assert_array_equal(uv, uvs.numpy()[sphere.faces.reshape(-1).numpy()])
    assert base64.b64decode(found["texture"]).startswith(b"\x89PNG")
