"""The page of the viewer: what is on it, and what happens when something is moved."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import torch

from gendr.distributions import names
from gendr.mesh import Mesh
from gendr.photos import visual
from gendr.photos.viewer.pictures import (
    COMPARISONS,
    Soft,
    compared,
    drawable,
    eye,
    letterboxed,
    silhouette_gradient,
    soft,
    splatted,
)
from gendr.photos.viewer.subject import Subject
from gendr.rendering.instances import instances

__all__ = ["Viewer"]

# What can be seen: drawn by the browser, and drawn here for the place of the browser's camera.
PAINTED, SHAPE, WIRES, GRADIENT, TARGET = "colours", "shape", "wireframe", "gradient", "target"
SOFT, SPLATS, GAUSSIANS = "soft picture", "splats", "Gaussians"
OFF = "off"
FOV = 45.0  # degrees
LEAST, MOST = 0.02, 20.0  # pixels of a scale
MESH, CAMERAS = "/mesh", "/cameras"


class Viewer:
    """A page that shows a subject, at `url`, to programs of this machine alone.

    Args:
        subject: what it shows.
        port: where; the next one that is free.
        host: whose programs may look; 127.0.0.1 are those of this machine.
        image_size: shorter side of the pictures that are drawn here.

    Raises:
        RuntimeError: if viser is not installed.
        ValueError: if there is no such port.
    """

    def __init__(
        self,
        subject: Subject,
        port: int = 8080,
        *,
        host: str = "127.0.0.1",
        image_size: int = 400,
    ) -> None:
        try:
            import viser
        except ImportError:
            raise RuntimeError(
                "the viewer needs viser, which is not installed: pip install '.[view]' in the "
                "repository, or pip install viser"
            ) from None
        if not 0 < port < 1 << 16:  # for which viser would wait
            raise ValueError(f"port must be between 1 and 65535, got {port}")
        self.image_size, self._subject = image_size, subject
        # Guards what is shown: callbacks come from threads of viser.
        self._lock = threading.RLock()
        with redirect_stdout(io.StringIO()):  # which shows a banner
            self._server: Any = viser.ViserServer(host, port, label="gendr", verbose=False)
        self._server.gui.configure_theme(show_logo=False, show_share_button=False)
        self._server.scene.world_axes.visible = False
        # Numbers of the clients whose picture is to be drawn.
        self._due: set[int] = set()
        self._wake = threading.Condition()
        self._closed = False
        self._controls: dict[str, Any] = {}
        self.show(subject)
        self._server.on_client_connect(self._connected)
        self._worker = threading.Thread(target=self._work, name="gendr viewer", daemon=True)
        self._worker.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self._server.get_host()}:{self._server.get_port()}"

    def close(self) -> None:
        """End it."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._worker.join()
        self._server.stop()

    # -- what is shown ----------------------------------------------------------------------------

    def show(self, subject: Subject) -> None:
        """Show something else, such as the next steps of a fit; cameras of browsers stay."""
        with self._lock:
            first, before = not self._controls, self._subject
            self._subject = subject = subject.together()
            if first or _kind(before) != _kind(subject):
                self._rebuild()
            elif subject.meshes:
                last = before.meshes and self._value("step") == len(before.meshes) - 1
                self._controls["step"].max = max(len(subject.meshes) - 1, 1)
                if last:  # who looks at the newest sees the next
                    self._controls["step"].value = len(subject.meshes) - 1
            if first:
                self._place()
            self._changed()

    def _rebuild(self) -> None:
        """Make the controls that this subject needs."""
        gui, subject = self._server.gui, self._subject
        gui.reset()
        self._controls = {}
        looks = _looks(subject)
        self._controls["message"] = gui.add_markdown(f"**{subject.name}**")
        self._add("look", gui.add_dropdown("show", looks, initial_value=looks[0]))
        if subject.meshes:
            last = len(subject.meshes) - 1
            self._add("step", gui.add_slider("step", 0, max(last, 1), 1, last, visible=last > 0))
        if subject.meshes:
            with gui.add_folder("soft edges"):
                self._add(
                    "dist", gui.add_dropdown("distribution", names(), initial_value=Soft.dist)
                )
                joins = list(dict.fromkeys(str(each.tconorm) for each in instances()))
                self._add(
                    "tconorm", gui.add_dropdown("T-conorm", joins, initial_value=Soft.tconorm)
                )
                self._add("pixels", gui.add_slider("scale, pixels", LEAST, MOST, 0.02, Soft.pixels))
        if subject.views is not None:
            with gui.add_folder("photos"):
                self._add("cameras", gui.add_checkbox("show cameras", True))
                most = max(len(subject.views) - 1, 1)
                self._add("photo", gui.add_slider("number", 0, most, 1, 0))
                kinds = COMPARISONS if subject.meshes else COMPARISONS[:2]
                self._add("compare", gui.add_dropdown("look at", (OFF, *kinds), initial_value=OFF))
                button = gui.add_button("stand there")
                button.on_click(self._stand)
        self._frusta()

    def _add(self, name: str, handle: Any) -> None:
        self._controls[name] = handle
        handle.on_update(lambda _: self._changed())

    def _value(self, name: str, default: Any = None) -> Any:
        return self._controls[name].value if name in self._controls else default

    def _frusta(self) -> None:
        views, scene = self._subject.views, self._server.scene
        if views is None:
            return
        radius = self._around()[1]
        rotation, shift, k = views.camera.to_opencv(views.image_size)
        for i, (rows, columns) in enumerate(views.camera.region(views.image_size)):
            height, width = rows.stop - rows.start, columns.stop - columns.start
            where = -rotation[i].mT @ shift[i]
            handle = scene.add_camera_frustum(
                f"{CAMERAS}/{i}",
                fov=2 * float(np.arctan(height / 2 / float(k[i, 1, 1]))),
                aspect=width / height,
                scale=0.12 * radius,
                thickness=0.004 * radius,
                image=compared(views, i, None, "photo"),
                wxyz=_quaternion(rotation[i].mT.double().numpy()),
                position=where.double().numpy(),
            )
            handle.on_click(self._chosen(i))

    def _chosen(self, index: int) -> Callable[[Any], None]:
        def choose(event: Any) -> None:
            self._controls["photo"].value = index
            self._stand(event)

        return choose

    def _around(self) -> tuple[np.ndarray[Any, Any], float]:
        """The middle of the subject and its radius."""
        subject = self._subject
        if subject.meshes:
            centre, radius = visual.around(subject.meshes[-1][1])
            return centre.reshape(3).double().numpy(), float(radius)
        if subject.splats is not None:
            points = subject.splats.vertices.detach().reshape(-1, 3).double()
        elif subject.cloud is not None:
            points = torch.from_numpy(
                subject.cloud.points[:: len(subject.cloud) // 10**5 + 1]
            ).double()
        elif subject.views is not None:
            points = subject.views.camera.eye.double()
        else:
            return np.zeros(3), 1.0
        centre = points.median(0).values
        return centre.numpy(), float((points - centre).norm(dim=1).quantile(0.8)) or 1.0

    def _place(self) -> None:
        """Where browsers begin to look from: behind the first camera and above it, or in front."""
        centre, radius = self._around()
        views, camera = self._subject.views, self._server.initial_camera
        up = np.array(self._subject.up)
        position = centre + radius * (np.array([0.9, 0.0, -2.6]) + 0.8 * up)
        if views is not None:
            up = torch.nn.functional.normalize(views.camera.up.mean(0), dim=0).double().numpy()
            back = views.camera.eye[0].double().numpy() - centre
            position = centre + 1.2 * back + 0.3 * float(np.linalg.norm(back)) * up
        self._server.scene.set_up_direction(tuple(up))
        camera.fov = np.deg2rad(FOV)
        camera.position, camera.look_at, camera.up = position, centre, up
        camera.near, camera.far = radius / 100, radius * 100

    # -- what happens -----------------------------------------------------------------------------

    def _connected(self, client: Any) -> None:
        client.camera.on_update(lambda _: self._draw(client.client_id))
        self._draw(client.client_id)

    def _changed(self) -> None:
        """Show what the controls say, everywhere."""
        with self._lock:
            self._server.scene.remove_by_name(MESH)
            look = self._value("look")
            if self._value("compare", OFF) == OFF and look not in (SOFT, SPLATS, GRADIENT):
                self._mesh(look)
            self._server.scene.add_frame(CAMERAS, show_axes=False, visible=self._value("cameras"))
        for number in self._server.get_clients():
            self._draw(number)

    def _shown(self) -> Mesh | None:
        if self._value("look") == TARGET:
            return self._subject.target
        meshes = self._subject.meshes
        return meshes[min(self._value("step"), len(meshes) - 1)][1] if meshes else None

    def _mesh(self, look: str) -> None:
        """Give the browser a mesh to draw, or Gaussians."""
        mesh, scene = self._shown(), self._server.scene
        if look == GAUSSIANS and self._subject.cloud is not None:
            scene.add_gaussian_splats(MESH, *drawable(self._subject.cloud))
            return
        if mesh is None:
            return
        if look == PAINTED:
            (content,) = mesh.to_files("mesh.glb").values()  # which says what is unlit
            scene.add_glb(MESH, content, cast_shadow=False, receive_shadow=False)
            return
        scene.add_mesh_simple(
            MESH,
            mesh.vertices.detach().numpy(),
            mesh.faces.numpy(),
            color=visual.TARGET if look == TARGET else visual.FIT,
            wireframe=look == WIRES,
            side="double",
        )

    def _stand(self, event: Any) -> None:
        """Move a browser's camera to where a photo was taken."""
        views = self._subject.views
        if views is None or event.client is None:
            return
        i = min(self._value("photo"), len(views) - 1)
        camera, (centre, _) = views.camera[i], self._around()
        where, ahead = (x[0].double().numpy() for x in (camera.eye, camera.ahead))
        height = views.image_size[0]
        with event.client.atomic():
            place = event.client.camera
            place.position = where
            place.look_at = where + ahead * max(float((centre - where) @ ahead), 1e-3)
            place.up_direction = camera.up[0].double().numpy()
            focal = float(camera.intrinsics(views.image_size)[0, 1, 1])
            place.fov = 2 * float(np.arctan(height / 2 / focal))

    def _draw(self, number: int) -> None:
        """Say that the picture of a browser is to be drawn."""
        with self._wake:
            self._due.add(number)
            self._wake.notify()

    def _work(self) -> None:
        """Draw pictures, always for where cameras are by then."""
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._due or self._closed)
                if self._closed:
                    return
                number = self._due.pop()
            client = self._server.get_clients().get(number)
            if client is None:
                continue
            try:
                picture = self.picture(client.camera)  # unlocked: kernels may have to be compiled
                client.scene.set_background_image(picture)
                message = f"**{self._subject.name}**"
            except (ValueError, RuntimeError) as error:
                message = f"**{self._subject.name}**: {error}"
            if self._controls["message"].content != message:
                self._controls["message"].content = message

    def picture(self, camera: Any) -> visual.Pixels | None:
        """What is drawn here for a browser, [H, W, 3]; None if the browser draws itself.

        Args:
            camera: of the browser: has `wxyz`, `position`, `fov` (from top to bottom, in radians)
                and `aspect`.
        """
        subject, aspect = self._subject, float(camera.aspect)
        side = self.image_size
        size = (side, round(side * aspect)) if aspect > 1 else (round(side / aspect), side)
        kind = self._value("compare", OFF)
        mesh = self._shown()
        if kind != OFF and subject.views is not None:
            index = min(self._value("photo"), len(subject.views) - 1)
            return letterboxed(compared(subject.views, index, mesh, kind), aspect)
        look = self._value("look")
        if look not in (SOFT, SPLATS, GRADIENT):
            return None
        place = eye(camera.wxyz, camera.position, camera.fov, size)
        if look == SPLATS and subject.splats is not None:
            return splatted(subject.splats, place, size)
        if mesh is None:
            return None
        how = Soft(*(self._value(name) for name in ("dist", "tconorm", "pixels")))
        if look == SOFT:
            return soft(mesh, place, size, how)
        painted = Mesh(
            mesh.vertices, mesh.faces, vertex_colors=silhouette_gradient(mesh, place, size, how)
        )
        return visual.composited(*visual.render_views(painted, place, size))[0]


def _looks(subject: Subject) -> list[str]:
    """What can be chosen of a subject, the best first."""
    looks = [SPLATS] if subject.splats is not None else []
    looks += [GAUSSIANS] if subject.cloud is not None else []
    if subject.meshes:
        mesh = subject.meshes[-1][1]
        painted = mesh.textures or mesh.vertex_colors is not None or mesh.face_colors is not None
        looks += [PAINTED] if painted else []
        looks += [SHAPE, WIRES, SOFT, GRADIENT]
    looks += [TARGET] if subject.target is not None else []
    return looks or ["photos"]


def _kind(subject: Subject) -> tuple[Any, ...]:
    """What the controls depend on."""
    count = 0 if subject.views is None else len(subject.views)
    return subject.name, tuple(_looks(subject)), count, len(subject.meshes) > 1


def _quaternion(turn: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """[4], w x y z, of a rotation matrix."""
    from viser.transforms import SO3

    return SO3.from_matrix(turn).wxyz
