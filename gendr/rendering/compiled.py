"""Renderers whose steps of alpha are replayed as CUDA graphs.

On a GPU, a step of a small scene takes the host longer than the GPU: a graph holds all launches of
a step and costs the host a single one. What is captured is the function from tensors to alpha, and
the function to their gradients, each in a graph of its own; both read tensors that stay where they
are, into which every call copies what it was given.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from gendr._common.readback import holding
from gendr._common.tracing import capturing, is_plain, is_traced
from gendr.distributions.standard import StandardDistribution
from gendr.rendering.api import Scale, parse_scale
from gendr.rendering.backends.choice import choose
from gendr.rendering.output import Output, image

if TYPE_CHECKING:
    from gendr.mesh import Camera, Mesh

Renderer: TypeAlias = Any  # that of renderer.py, which makes these: to name it would be a circle
GRAPHS = 8  # kinds of calls that are kept as graphs
BEFORE = 2  # calls of a kind that run as they are: a scale that changes at every call never counts
WARM = 3  # runs before a capture: kernels are compiled, and lists of faces get their capacity
_KINDS = 64  # whose calls are counted


def capture(run: Callable[[], list[Tensor]], pool: Any) -> tuple[list[Tensor], Any]:
    """Capture what a function does on the current device.

    Args:
        run: waits for nothing, and reads tensors that stay where they are.
        pool: the memory of another graph that is always replayed before this one, or None.

    Returns:
        Its results, which every replay writes anew, and the graph.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        found = run()
    return found, graph


def warm(run: Callable[[], object], device: torch.device) -> None:
    """Run a function some times, on a stream beside the current one, as a capture wants it."""
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(WARM):
            run()
            stream.synchronize()  # the next run reads what capacity this one needed
    torch.cuda.current_stream(device).wait_stream(stream)


class Inputs:
    """The tensors that a graph reads, leaves that nothing else is made of.

    Autograd keeps with a leaf on which stream its gradient is added up: those of the user may have
    been used on others than a capture is made on, of which PyTorch warns.

    Args:
        given: those of the first call; gradients are made for those that require one.
        parameters: how many of the last are the renderer's own, which are read where they are.
    """

    def __init__(self, given: Sequence[Tensor], parameters: int, with_gradients: bool) -> None:
        copied = len(given) - parameters
        self.wanted = [with_gradients and x.requires_grad for x in given]
        own = [x.detach() for x in given]
        own[:copied] = [x.clone(memory_format=torch.contiguous_format) for x in own[:copied]]
        self.tensors = [x.requires_grad_(w) for x, w in zip(own, self.wanted, strict=True)]
        self._copied = copied
        self._last: list[tuple[Any, int] | None] = [None] * copied

    def fill(self, given: Sequence[Tensor]) -> None:
        """Copy the tensors that have changed since the last call to where the graph reads them."""
        with torch.no_grad():
            for i in range(self._copied):
                x, last = given[i], self._last[i]
                if last is None or last[0]() is not x or last[1] != x._version:
                    self.tensors[i].copy_(x)
                    self._last[i] = weakref.ref(x), x._version


class RendererGraphs:
    """The two graphs of calls of one kind.

    Args:
        function: from the tensors of `inputs` to alpha.
        inputs: what it reads.
    """

    def __init__(self, function: Callable[[list[Tensor]], Tensor], inputs: Inputs) -> None:
        self.inputs = inputs
        self.count = 0  # replays of the forward pass
        asked = [x for x, wanted in zip(inputs.tensors, inputs.wanted, strict=True) if wanted]
        held: list[Tensor] = []
        unused: list[bool] = []

        def forward() -> list[Tensor]:
            held.clear()  # and with it what autograd knows of the leaves, such as a stream
            held[:] = [function(inputs.tensors)]
            return [held[0].detach()]

        def backward() -> list[Tensor]:
            if not held[0].requires_grad:
                unused[:] = [True] * len(asked)
                return []
            # Kept for another replay: a call may be followed by several backward passes.
            found: Any = torch.autograd.grad(
                held, asked, [self._grad], retain_graph=True, allow_unused=True
            )
            unused[:] = [x is None for x in found]
            return [x.contiguous() for x in found if x is not None]

        def step() -> None:
            (alpha,) = forward()
            self._grad = torch.ones_like(alpha)
            backward()

        device = inputs.tensors[0].device
        self._held: list[object] = [function, held]  # what the graphs read
        self._grads: list[Tensor] = []
        with torch.set_grad_enabled(bool(asked)), torch.autocast(device.type, enabled=False):
            warm(step, device)
            with holding(self._held):
                (self._alpha,), self._forward = capture(forward, None)
                if not all(unused):
                    self._grad = torch.ones_like(self._alpha)
                    self._grads, self._backward = capture(backward, self._forward.pool())
        idle = iter(unused)
        self._moving = [wanted and not next(idle) for wanted in inputs.wanted]

    def alpha(self, given: Sequence[Tensor]) -> Tensor:
        """Find alpha of other tensors of the same kind, so that autograd knows their gradients."""
        return _Replay.apply(self, *given)  # pyright: ignore[reportReturnType]

    def forward(self, given: Sequence[Tensor]) -> Tensor:
        """Replay the forward pass and return a copy of alpha."""
        self.inputs.fill(given)
        self._forward.replay()
        self.count += 1
        return self._alpha.clone()  # the next replay writes over it

    def gradients(self, grad: Tensor) -> list[Tensor | None]:
        """Replay the backward pass of the last forward pass; None for what alpha ignores."""
        if self._grads:
            self._grad.copy_(grad)
            self._backward.replay()
        found = iter(self._grads)
        return [next(found).clone() if moving else None for moving in self._moving]


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, graphs: RendererGraphs, *given: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.graphs = graphs
        ctx.save_for_backward(*given)
        alpha = graphs.forward(given)
        ctx.count = graphs.count
        return alpha

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        given = ctx.saved_tensors  # raises if they have been changed in place
        if ctx.graphs.count != ctx.count:  # another call came between: what it left is its own
            ctx.graphs.forward(given)
            ctx.count = ctx.graphs.count
        return None, *ctx.graphs.gradients(grad)


def _read(mesh: Mesh, camera: Camera) -> list[Tensor]:
    """The tensors of a scene that alpha depends on, faces aside."""
    return [mesh.vertices, camera.rotation, camera.translation, camera.focal, camera.principal]


class CompiledOutput(Output):
    """`Output`, whose alpha comes from a graph; the other images are the renderer's own.

    Args:
        of_alpha: finds alpha.
        as_it_is: renders without a graph.
        device: of the images.
    """

    def __init__(
        self, of_alpha: Callable[[], Tensor], as_it_is: Callable[[], Output], device: torch.device
    ) -> None:
        self._of_alpha, self._as_it_is, self.device = of_alpha, as_it_is, device
        self.allows_graph = torch.is_grad_enabled()

    @image
    def _plain(self) -> Output:
        return self._as_it_is()

    @image
    def alpha(self) -> Tensor:
        """Soft coverage [B, H, W]."""
        return self._of_alpha()

    @image
    def rgb(self) -> Tensor:
        """Colours [B, 3, H, W]."""
        return self._plain.rgb

    @image
    def depth(self) -> Tensor:
        """Depth [B, H, W] of the nearest covering face, +inf elsewhere."""
        return self._plain.depth

    @image
    def normals(self) -> Tensor:
        """Unit normals [B, 3, H, W] of the nearest covering face, 0 elsewhere."""
        return self._plain.normals

    @image
    def face_id(self) -> Tensor:
        """Index of the nearest covering face in its mesh, int64 [B, H, W], -1 elsewhere."""
        return self._plain.face_id

    @image
    def mask(self) -> Tensor:
        """Whether a face covers each pixel, bool [B, H, W]."""
        return self._plain.mask


class CompiledRenderer:
    """A renderer that replays its steps of alpha as CUDA graphs; `Renderer.compiled` makes it.

    It is called like the renderer, and gives the same bits. Every kind of call (topology of the
    mesh, sizes, which tensors require gradients, settings of the renderer, a scale that is a
    number) is captured when it comes for the third time; up to then, and wherever `why_not` has a
    reason, the renderer runs as it is: on a CPU always. Gradients go to the vertices, the tensors
    of the camera, a scale that is a tensor, and the renderer's parameters; there are no second
    derivatives. Nobody looks for NaN and inf in calls that are replayed, but in a scale that is a
    tensor; as in the renderer, a later call raises for it.

    A graph keeps the capacity of lists of faces that its scene needed. If a scene comes to need
    more, the images stay right but take longer: call `forget` then.

    Attributes:
        renderer: what is compiled; its parameters, and what is assigned to it, count.
    """

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self._graphs: OrderedDict[Any, RendererGraphs] = OrderedDict()
        self._seen: OrderedDict[Any, tuple[int, Any]] = OrderedDict()

    def __len__(self) -> int:
        """How many kinds of calls are graphs by now."""
        return len(self._graphs)

    def forget(self) -> None:
        """Drop all graphs and their memory; calls are captured anew."""
        self._graphs.clear()
        self._seen.clear()

    def why_not(self, mesh: Mesh, camera: Camera, scale: object = None) -> str | None:
        """Why a call would run as it is, None if it is captured once it comes often enough."""
        renderer, dist = self.renderer, self.renderer.dist
        if not mesh.vertices.is_cuda:
            return f"CUDA graphs need a GPU, and the mesh is on {mesh.device}"
        backend = choose(renderer.backend, mesh.vertices)
        if "rendering.project" not in backend.KERNELS:
            return f"the host waits for the backend {renderer.backend!r}"
        if camera.window is not None:
            return "the camera shows a part of its image"
        if renderer.composite == "ordered":
            return "the order of faces is found without kernels"
        if mesh.dtype != torch.float32:
            return f"the host waits for the projection of meshes in {mesh.dtype}"
        if not isinstance(dist.base, StandardDistribution):
            return f"the host lists the fragments of a CDF of your own: {dist}"
        shift = None if dist.is_centred else dist.total_shift()  # the median follows the shape
        if isinstance(dist.shape_parameter, Tensor) or isinstance(shift, Tensor):
            return f"the host reads the shape and the shift of {dist}, which are tensors"
        if isinstance(renderer.tconorm.given_p, Tensor) and "log_p" not in renderer._parameters:
            return "p is a tensor that the renderer does not learn"
        given = scale if scale is not None else renderer.scale
        numbers = [*renderer.parameters(), *([given] if isinstance(given, Tensor) else [])]
        if any(x.device != mesh.device for x in numbers):
            return f"the renderer's parameters and its scale are not on {mesh.device}"
        if not all(is_plain(x) and not x.is_inference() for x in _read(mesh, camera)):
            return "tensors of other kinds than plain ones are traced"
        if capturing(mesh.device):
            return "another graph is being captured"
        return None

    def __call__(self, mesh: Mesh, camera: Camera, scale: Scale | None = None) -> Output:
        """Render a batch, as `Renderer` does.

        Args:
            mesh: B meshes or 1.
            camera: B cameras or 1.
            scale: replaces the scale of the renderer for this call.

        Returns:
            The images; alpha from a graph, the others as the renderer gives them.

        Raises:
            TypeError: for wrong types or dtypes.
            ValueError: for batches that do not fit, devices that differ, NaN or inf.
            RuntimeError: if CUDA refuses a capture.
        """
        from gendr.mesh import Camera, Mesh

        renderer = self.renderer
        typed = isinstance(mesh, Mesh) and isinstance(camera, Camera)
        if is_traced() or not typed or self.why_not(mesh, camera, scale):
            return renderer(mesh, camera, scale)
        learnt = scale is None and "log_scale" in renderer._parameters
        if scale is None:
            number = renderer.scale
        else:
            squared = renderer.dist.is_squared
            number = parse_scale(scale, renderer.size, squared, owner=renderer._owner)
        given = _read(mesh, camera)
        given += [number] if isinstance(number, Tensor) and not learnt else []
        parameters = list(renderer.parameters())
        key = self._key(mesh, camera, None if learnt else number, given, parameters)
        graphs = self._graphs.get(key)
        if graphs is None:
            seen = self._seen.pop(key, (0, None))[0]
            if seen < BEFORE:
                # The topology is kept alive, for what is known of it is its address.
                self._seen[key] = seen + 1, (mesh.faces_local, mesh.faces)
                while len(self._seen) > _KINDS:
                    self._seen.popitem(last=False)
                return renderer(mesh, camera, scale)
            graphs = self._captured(mesh, camera, number, learnt, given, parameters)
            self._graphs[key] = graphs
            while len(self._graphs) > GRAPHS:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        return CompiledOutput(
            lambda: graphs.alpha([*given, *parameters]),
            lambda: renderer(mesh, camera, scale),
            mesh.device,
        )

    def _key(
        self,
        mesh: Mesh,
        camera: Camera,
        number: float | Tensor | None,
        given: list[Tensor],
        parameters: list[Any],
    ) -> Any:
        """All that a graph depends on but the values of tensors that it reads."""
        from gendr.rendering.backends.triton.backend import settings

        renderer, asked = self.renderer, torch.is_grad_enabled()
        local = mesh.faces_local
        faces = mesh.faces if local is None else local
        return (
            id(faces), faces._version, mesh.vertex_counts, mesh.face_counts, camera.orthographic,
            tuple((x.shape, x.dtype, x.device, asked and x.requires_grad) for x in given),
            tuple((x.data_ptr(), x.shape, asked and x.requires_grad) for x in parameters),
            None if isinstance(number, Tensor) else number,
            renderer.size, renderer.near, renderer.far, renderer.cutoff, renderer.backend,
            settings(), torch.cuda.current_stream(mesh.device),
            torch.are_deterministic_algorithms_enabled(),
        )  # fmt: skip

    def _captured(
        self,
        mesh: Mesh,
        camera: Camera,
        number: float | Tensor,
        learnt: bool,
        given: list[Tensor],
        parameters: list[Any],
    ) -> RendererGraphs:
        """The graphs of a kind of calls."""
        renderer, mesh, camera = self.renderer, mesh.detach(), camera.detach()
        with_gradients, copied = torch.is_grad_enabled(), len(given)

        def alpha(tensors: list[Tensor]) -> Tensor:
            now = renderer.scale if learnt else number
            if isinstance(number, Tensor) and not learnt:
                now = tensors[5]
            view = camera.with_tensors(*tensors[1:5])
            moved = mesh.with_vertices(tensors[0])
            # Without looking for NaN, also before the capture: kernels that look are others.
            return renderer._render(moved, view, now, check=False).alpha

        def of_leaves(tensors: list[Tensor]) -> Tensor:
            names = [name for name, _ in renderer.named_parameters()]
            before = dict(renderer._parameters)
            renderer._parameters.update(zip(names, tensors[copied:], strict=True))  # pyright: ignore[reportCallIssue, reportArgumentType]
            try:
                return alpha(tensors)
            finally:
                renderer._parameters.update(before)

        # What is kept is written to in later calls too, which may be in another mode.
        with torch.inference_mode(False), torch.cuda.device(mesh.device):
            inputs = Inputs([*given, *parameters], len(parameters), with_gradients)
            inputs.fill(given)
            return RendererGraphs(of_leaves, inputs)
