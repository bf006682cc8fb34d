"""The ground: arguments and their errors, one word for a thing, what is kept."""

import copy
import errno
import gc
import inspect
import math
import os
import sys
import threading
import warnings
import weakref
import zipfile
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

import gendr
from building import site
from gendr import relaxed, sorting, topk
from gendr._common import arrays, files, tracing
from gendr._common.arrays import read_array, read_arrays
from gendr._common.checks import check_finite, check_image_size, check_like, check_shape
from gendr._common.files import write_all, write_whole
from gendr._common.memory import LARGE, Memory, give_back
from gendr._common.names import uncollected
from gendr._common.registry import memoized
from gendr._common.vectors import gathered, summed
from gendr._common.words import BANNED, WORDS, translated
from gendr.cli.logic import read_rows
from gendr.jobs.checkpoint import save_checkpoint
from gendr.logic import Circuit, GroupSum, LogicLayer
from gendr.optim import RESGRO
from gendr.relaxed import estimators
from lab.data import read_embeddings
from lab.data.npz import map_array
from lab.reconstruction.making import find_shapes
from lab.studies.silhouettes import read_meshes
from support.cases import for_each

# -- checks ----------------------------------------------------------------------------------------


@pytest.mark.rotating(4, group="long")
@pytest.mark.graphs
def test_a_graph_may_be_the_first_to_ask_for_a_pattern():
    def counted(x):
        return x * check_shape("x", x, "[R, 7] or [7]")["R"]

    graph = torch.compile(counted, backend="eager", fullgraph=True)
    assert torch.equal(graph(torch.ones(3, 7)), torch.full((3, 7), 3.0))


def test_large_values_are_finite():
    for is_loaded in (False, True):  # few are looked at by a kernel, once there is one
        if is_loaded:
            sorting.soft_rank(torch.ones(3), "permutahedron")
        for count, dtype in product((4, 20_000), (torch.float32, torch.float64)):
            x = torch.full((count,), torch.finfo(dtype).max, dtype=dtype)
            check_finite("x", x)  # their sum is not
            pairs = torch.view_as_complex(x.view(-1, 2))
            check_finite("x", pairs.conj().imag)  # a view that negates
            for wrong in (math.nan, math.inf, -math.inf):
                x[1] = wrong
                check_finite("x", x[::2])
                for some in (x, x[1::2], pairs.conj().imag, torch.nn.Parameter(x)):
                    with pytest.raises(ValueError, match="must be finite, got 1 NaN"):
                        check_finite("x", some)


def test_devices_are_told_apart():
    with pytest.raises(ValueError, match="device of y, meta, got cpu"):
        check_like("x", torch.zeros(2), "y", torch.zeros(2, device="meta"))


def test_image_sizes():
    many = (
        (3, 4),
        [np.int32(3), 4.0],
        np.array([3, 4]),
        torch.tensor([3.0, 4.0]),
        torch.Size((3, 4)),
    )
    for sizes, want in (((3, np.int64(3), 3.0), (3, 3)), (many, (3, 4))):
        for size in sizes:
            found = check_image_size(size)
            assert found == want
            assert all(type(side) is int for side in found)
    wrong = 3.5, math.nan, (3, 4.5), True, (3, True), "34", None, (3,), (3, 4, 5)
    for sizes, error in (((0, -3, (3, 0)), ValueError), (wrong, TypeError)):
        for size in sizes:
            with pytest.raises(error, match=r"^edge must be .*, got "):
                check_image_size(size, "edge")


def test_images_that_no_memory_holds_are_refused_before_they_are_made(monkeypatch):
    for size, said in ((10**9, r"4e\+09"), ((2**40, 2**20), r"4\.61e\+09")):
        for make in (
            gendr.Renderer,
            lambda n: gendr.silhouette(torch.zeros(1, 3, 3), n),
        ):
            with pytest.raises(MemoryError, match=rf"an image of .* needs {said} GB, this"):
                make(size)
    monkeypatch.setattr("gendr._common.checks.physical_memory", lambda: 10_000)
    mesh, cameras = gendr.mesh.cube(), gendr.look_at(3.0, 0.0, torch.zeros(3))
    for draw in (
        lambda: gendr.silhouette(torch.zeros(3, 1, 3, 3), 32),
        lambda: gendr.Renderer(32)(mesh, cameras).alpha,
    ):
        with pytest.raises(MemoryError, match=r"3 images of 32 x 32 pixels needs 1\.23e-05 GB"):
            draw()


# -- words -----------------------------------------------------------------------------------------

# Words that mean another thing there, or that the contract has.
ELSEWHERE = {
    ("GroupSum", "tau"),  # the contract
    ("Sums", "tau"),
    ("GroupSum", "beta"),  # what is added to sums, in the paper
    ("Sums", "beta"),
    ("Renderer", "eps"),  # the weight of the background, in the paper
    ("sinkhorn", "epsilon"),  # the weight of the entropy, in the papers; nothing is compared
    ("sinkhorn_barycenter", "epsilon"),
    ("sinkhorn_divergence", "epsilon"),
    ("UniformAdam", "eps"),  # of Adam
    ("uniform_adam_step", "eps"),
}
# Names of functions that list members, all of which are called `names`.
LISTS = {"methods", "estimators", "kinds", "members"}
# Scales of triangles or factors rather than of one decision, or with "auto"; results.
OWN_SCALE = {"Look", "SplatSettings", "Splats", "FitSettings", "TrainingSettings"}


def walked():
    """The public functions and classes: (path, object, parameters)."""
    for name in site.public_modules():
        for each in sys.modules[name].__all__ if name.startswith("gendr") else ():
            value = getattr(sys.modules[name], each)
            try:
                parameters = inspect.signature(value).parameters if callable(value) else None
            except ValueError:  # of builtins that give theirs away to nobody
                continue
            if parameters is not None and not inspect.ismodule(value):
                yield f"{name}.{each}", value, parameters


def test_signatures_have_one_word_for_a_thing():
    found = list(walked())
    assert len(found) > 300
    assert {"tnorm", "maximize", "temperature", "tau", "strength"} <= BANNED
    wrong = [
        f"{path}({name})"
        for path, _, parameters in found
        for name in parameters
        if name in BANNED and (path.rpartition(".")[2], name) not in ELSEWHERE
    ]
    wrong += [path for path, *_ in found if path.rpartition(".")[2] in LISTS]
    for path, _, parameters in found:
        wrong += [
            f"{path}: {word} and {other}"
            for word, others in WORDS.items()
            for other in others
            if {word, other} <= {*parameters} and (path.rpartition(".")[2], other) not in ELSEWHERE
        ]
    assert not wrong, f"second words: {wrong}; see docs/words.md"


PAIRS = {"steepness": "scale", "scale": "steepness", "descending": "largest",
         "largest": "descending", "tconorm": "tnorm", "minimize": "maximize"}  # fmt: skip


def test_every_function_knows_the_other_word():
    """A nonsensical value is looked at before the other arguments, so that none are needed."""
    seen = set()
    for path, value, parameters in walked():
        name = path.rpartition(".")[2]
        if name in OWN_SCALE or "dist" not in parameters:
            continue
        for word in ("steepness", "scale"):
            if word in parameters and parameters[word].kind is not parameters[word].POSITIONAL_ONLY:
                with pytest.raises(TypeError, match=f"{PAIRS[word]} must be a number or a tensor"):
                    value(**{PAIRS[word]: []})
                seen.add(name)
    assert {"Renderer", "silhouette", "soft_topk_mask", "shortest_path", "relax"} <= seen
    assert len(seen) >= 18, seen


X = torch.tensor([0.3, -1.2, 2.5, 0.9], dtype=torch.float64)


def program(x):
    return x if x > 0 else -x


SOFT = gendr.relax(program)


@for_each(
    both=[
        lambda **s: sorting.soft_sort(X, "softsort", **s),
        lambda **s: sorting.soft_rank(X, "neuralsort", **s),
        lambda **s: sorting.SoftPermutation("softsort", **s)(X),
        lambda **s: topk.soft_topk(X, 2, "softsort", **s).values,
        lambda **s: topk.SoftTopK(2, method="softsort", **s)(X),
        lambda **s: topk.soft_topk_mask(X, 2.0, **s),
        lambda **s: SOFT(X, **s),
        lambda **s: sorting.KendallLoss(**s)(X, X.flip(0)),
        lambda **s: sorting.LambdaLoss(**s)(X, X.flip(0).abs()),
        lambda **s: topk.SmoothTopKSVM(1, **s)(X[None], torch.tensor([1])),
        lambda **s: relaxed.bubble_sort(X, backend="reference", **s).values,
    ]
)  # fmt: skip
def test_scale_and_steepness_are_inverses_everywhere(both):
    steepness = torch.tensor(4.0, dtype=torch.float64) if both(steepness=4.0).ndim else 4.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(both(steepness=steepness), both(scale=1 / steepness))
    with pytest.raises(TypeError, match="give one"):
        both(scale=1.0, steepness=1.0)
    with pytest.raises(ValueError, match="must be > 0"):
        both(scale=-1.0)
    with pytest.raises((TypeError, ValueError), match="must be > 0"):
        both(steepness=-1.0)


def test_gradients_reach_the_other_word():
    scale = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: sorting.soft_sort(X, "softsort", scale=s), scale)


def test_the_error_of_a_wrong_word_names_the_conversion():
    for word, message in (
        ("temperature", "steepness = 1 / temperature"),
        ("tau", "steepness = 1 / tau"),
        ("sharpness", "steepness = sharpness"),
    ):
        with pytest.raises(TypeError, match=f"no setting '{word}'; {message}; it has"):
            sorting.soft_sort(X, "softsort", **{word: 1.0})
    with pytest.raises(TypeError, match="scale = temperature; it has"):
        SOFT(X, temperature=1.0)
    with pytest.raises(TypeError, match="tconorm = conorm; it has"):
        gendr.Renderer(conorm="max")
    with pytest.raises(TypeError, match="steepnes'; it has: backend"):
        relaxed.bubble_sort(X, steepnes=1.0)
    with pytest.raises(TypeError, match="minimize = not maximize; it has"):
        RESGRO(torch.sum, 2, maximize=True)
    with pytest.raises(TypeError, match="step = strength; it has"):
        estimators.BlackBox(strength=3.0, minimize=True)


def test_words_that_papers_have_are_taken():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert topk.SmoothTopKSVM(2, tau=0.5).scale == 0.5
        assert sorting.LambdaLoss(sigma=2.0).steepness == 2.0
        assert GroupSum(2, scale=3.0).tau == GroupSum(2, temperature=3.0).tau == 3.0
        layer = LogicLayer(4, 4, temperature=2.0, tnorm="hamacher(p=2)")
        assert layer.scale == 2
        assert str(layer.tconorm) == "hamacher(p=2)"
        down = sorting.soft_sort(X, "softsort", steepness=9.0, descending=True)
        torch.testing.assert_close(
            sorting.soft_sort(X, "softsort", steepness=9.0, largest=True), down
        )
        low = topk.soft_topk(X, 2, "softsort", descending=False).values
        torch.testing.assert_close(low, topk.soft_topk(X, 2, "softsort", largest=False).values)


def test_a_program_keeps_its_own_words():
    @gendr.relax
    def own(x, steepness):
        return x * steepness if x > 0 else x

    assert own(X, 2.0, scale=1e-6)[0] == own(X, steepness=2.0, scale=1e-6)[0] == 0.6
    want = SOFT(X, scale={"default": 0.5})
    torch.testing.assert_close(SOFT(X, steepness={"default": 2.0}), want)
    assert SOFT.hard(-2.0) == 2.0
    with pytest.raises(TypeError, match=r"steepness\['a'\] must be a number"):
        translated("it", ("scale",), {"steepness": {"a": "b"}})


# -------------------------------------------------------------------------------------------------
# Files that are written whole or not at all, and locks of folders


def fail(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class SmallFile:
    """A file on a disk with room for 1000 bytes."""

    def __init__(self, file):
        self.file = file

    def write(self, data):
        return fail() if self.file.tell() + len(data) > 1000 else self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


def small_disk(monkeypatch):
    real = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *mode: SmallFile(real(path, *mode)))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_are_replaced_and_a_link_stays_a_link(tmp_path):
    path, link = tmp_path / "a", tmp_path / "link"
    for content in (b"one", b"two", lambda file: file.write(b"three")):
        write_whole(path, content)
    assert path.read_bytes() == b"three"
    link.symlink_to(path)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"

    def wrong(file):
        file.write(b"half")
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        write_whole(tmp_path / "b", wrong)
    assert names(tmp_path) == ["a", "link"]
    # What a program left that was killed goes when another one writes there.
    left, new = (tmp_path / f".new-{pid}-c" for pid in (1, 2))
    for file in (left, new):
        file.write_bytes(b"half")
    os.utime(left, (0, 0))
    files._swept.clear()
    write_whole(path, b"four")
    assert names(tmp_path) == [new.name, "a", "link"]


@for_each(what=["write", "fsync"])
def test_a_full_disk_leaves_the_old_files(tmp_path, monkeypatch, what):
    a, b = tmp_path / "a", tmp_path / "b"
    write_all({a: b"old", b: b"old"})
    with monkeypatch.context() as patch:
        if what == "fsync":
            patch.setattr(os, "fsync", fail)
        else:
            small_disk(patch)
        with pytest.raises(OSError, match="No space left on device") as caught:
            write_all({a: b"new", b: bytes(2000)})
        with pytest.raises(OSError, match="No space left on device") as of_checkpoint:
            save_checkpoint(b, "a test", {"u": torch.rand(10_000, 3)}, {})
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(b if what == "write" else a)
    assert of_checkpoint.value.filename == str(b)
    assert a.read_bytes() == b.read_bytes() == b"old"
    assert names(tmp_path) == ["a", "b"]


def test_a_file_that_others_read_is_replaced_when_they_have_done(tmp_path, monkeypatch):
    """Windows refuses while one is open."""
    attempts, replace = [], Path.replace

    def refused(self, target):
        attempts.append(target)
        if len(attempts) in (1, 2, 4, 5, 6):
            raise PermissionError(errno.EACCES, "Access is denied", str(self))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refused)
    monkeypatch.setattr(files, "_WAITS", (0.0, 0.0))
    write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    with pytest.raises(PermissionError, match="Access is denied") as caught:
        write_whole(tmp_path / "a", b"newer")
    assert caught.value.filename == str(tmp_path / "a")
    assert names(tmp_path) == ["a"]
    assert len(attempts) == 6


# -------------------------------------------------------------------------------------------------
# npy and npz files: what is read, and what is refused before it is made


def npy(shape, descr="<f8", data=b"", more=""):
    """The bytes of an npy file of any claim."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}{more}}}".encode()
    return b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header + data


HOSTILE = {
    "rows": npy("(1099511627776, 4)"),
    "overflow": npy(f"({2**32}, {2**32})"),
    "negative": npy("(-1, 4)"),
    "nothing": npy("(1099511627776, 4)", "<V0"),
    "nested": npy("(" * 4000 + ")" * 4000),
    "unfinished": npy("(3, 4)", more=", 'a': '''"),
    "objects": npy("(3, 4)", "|O", bytes(96)),
    "long header": b"\x93NUMPY\x02\0" + b"\xff\xff\xff\x7f" + bytes(1000),
    "no dtype": npy("(3, 4)", "<q9"),
    "short": npy("(3, 4)", data=bytes(95)),
}


def test_arrays_come_back(tmp_path):
    wanted = {
        "a": np.arange(600_000.0).reshape(200, 3000),
        "b": np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)),
        "c": np.array(["x", "yz"]),
        "d": np.zeros((0, 3), bool),
        "e": np.array(2, np.float32),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "m.npz", **wanted)
        found = read_arrays(tmp_path / "m.npz")
        assert list(found) == list(wanted)
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array, strict=True)
        assert [*read_arrays(tmp_path / "m.npz", ("d", "z"))] == ["d"]
    for array in wanted.values():
        np.save(tmp_path / "m.npy", array)
        np.testing.assert_array_equal(read_array(tmp_path / "m.npy"), array, strict=True)


@for_each(packed=[zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_what_claims_more_than_it_holds_is_refused(tmp_path, monkeypatch, packed):
    """By every reader of npz files, in one line, before memory is taken."""
    monkeypatch.setattr(arrays, "ROOM", 1 << 16)
    names = ("x", "y", "about", "features", "labels", "names", "verts", "faces", "vert_offset",
             "face_offset")  # fmt: skip
    readers = [
        read_arrays, Circuit.load, partial(read_rows, labels=True), read_embeddings, read_meshes,
        lambda path: find_shapes([path]), lambda path: map_array(path, tmp_path / "unpacked"),
    ]  # fmt: skip
    path, bomb = tmp_path / "m.npz", npy(f"({1 << 17}, 4)", data=bytes(1 << 22))
    contents = HOSTILE | ({"bomb": bomb} if packed == zipfile.ZIP_DEFLATED else {})
    for kind, content in contents.items():
        with zipfile.ZipFile(path, "w", packed) as archive:
            for name in names:
                archive.writestr(f"{name}.npy", content)
        for reader in readers[:-1] if kind == "bomb" else readers:  # to map needs no memory
            with pytest.raises(
                ValueError, match=r"m\.npz (is not a complete npz|is no circuit|would unpack from)"
            ) as no:
                reader(path)
            assert "\n" not in str(no.value), kind
        (tmp_path / "m.npy").write_bytes(content[:-1])
        with pytest.raises(ValueError, match="is not a complete npy file"):
            read_array(tmp_path / "m.npy")
    assert not [*Path(tmp_path).glob("unpacked/*")]


def test_a_file_that_is_not_there_is_named(tmp_path):
    for reader in (read_array, read_arrays):
        with pytest.raises(FileNotFoundError, match=r"gone\.npz"):
            reader(tmp_path / "gone.npz")


# -------------------------------------------------------------------------------------------------
# What is kept, and when it is made again


def test_settings_are_kept_by_their_types_too():
    calls = []

    @memoized
    def made(*settings):
        calls.append(settings)
        return settings

    for given in ((1,), (1,), (1.0,), (True,), ("a", None), ("a", None)):
        assert made(*given) == given
        assert [*map(type, made(*given))] == [*map(type, given)]
    assert len(calls) == 4
    x = torch.zeros(2)
    assert made(x)[0] is x
    assert len(calls) == 5
    assert made(x)[0] is x  # tensors are not compared
    assert len(calls) == 6
    with pytest.raises(TypeError, match="image_size must be an int"):
        _ = gendr.Renderer(1), gendr.Renderer(True)


def test_what_is_found_of_a_tensor_lives_with_it_until_it_changes():
    x, calls = torch.arange(3.0), []

    def total(x):
        calls.append(1)
        return float(x.sum())

    assert [tracing.cached(x, "sum", total) for _ in range(2)] == [3.0, 3.0]
    x[0] = 4
    assert tracing.cached(x, "sum", total) == 7
    assert tracing.cached(x.clone(), "sum", total) == 7
    assert len(calls) == 3
    dead = weakref.ref(x)
    del x
    gc.collect()
    assert dead() is None


def test_an_owner_keeps_the_last_thing_it_made():
    x, y, owner, calls = torch.ones(2), torch.ones(2), tracing.TensorCache(), []

    def of(x, key=None):
        return owner.of((x,), key, lambda: calls.append(1) or x * 2)

    first = of(x)
    assert of(x) is first
    assert of(y) is not first  # equal, but another
    x.add_(1)
    assert of(x).tolist() == [4, 4]
    assert of(x, "key") is not of(x)
    assert copy.deepcopy(owner).of((x,), None, lambda: None) is None
    with torch.inference_mode():
        z = torch.ones(2)
        assert of(z) is not of(z)  # nobody sees it change
        kept_there = of(x)
    assert not kept_there.is_inference()
    assert torch.func.vmap(lambda v: of(v))(x[None]).tolist() == [[4, 4]]


def test_a_renderer_of_the_same_numbers_follows_what_changes():
    mesh, camera = gendr.mesh.icosphere(0), gendr.look_at(3.0, 20.0, 30.0)

    def alpha(**settings):
        return gendr.Renderer(8, **settings)(mesh, camera).alpha

    with torch.inference_mode():
        before = alpha(scale=0.05).clone()
    mesh.vertices.requires_grad_()
    now = alpha(scale=0.05)
    now.sum().backward()
    assert mesh.vertices.grad.abs().sum() > 0
    assert torch.equal(before, now.detach())
    for other in (
        {"scale": 0.2},
        {"scale": 0.05, "dist": "cauchy"},
        {"scale": 0.05, "tconorm": "max"},
    ):
        assert not torch.equal(alpha(**other).detach(), before)


# -------------------------------------------------------------------------------------------------
# Memory that is used again: only when nobody holds it, and not without end


SIZE = (LARGE // 4,)


def test_memory_is_used_again_when_it_is_free():
    memory = Memory()
    first = memory.empty(SIZE, torch.float32)
    second = memory.empty(SIZE, torch.float32)
    places = {first.data_ptr(), second.data_ptr()}
    assert len(places) == 2
    assert all(place % 64 == 0 for place in places)
    del first, second
    gc.collect()
    assert memory.idle == 2 * LARGE
    again = [memory.empty((LARGE // 8, 1), torch.float64) for _ in range(2)]
    assert {x.data_ptr() for x in again} == places
    assert memory.idle == 0


def test_a_view_keeps_its_memory():
    memory = Memory()
    x = memory.empty(SIZE, torch.float32)
    x.zero_()
    part = x.reshape(2, -1)[1, 3:5].detach()
    del x
    other = memory.empty(SIZE, torch.float32)
    other.fill_(1)
    assert part.tolist() == [0, 0]
    graph = (other.requires_grad_() * 2).sum()
    del other
    memory.empty(SIZE, torch.float32).fill_(7)
    graph.backward()  # what a graph has saved is in use too


def test_small_and_too_many_blocks_are_not_kept():
    memory = Memory(most=LARGE)
    assert memory.empty((0, 5), torch.float32).shape == (0, 5)
    assert memory.empty((3, 2), torch.float64).shape == (3, 2)
    tensors = [memory.empty(SIZE, torch.float32) for _ in range(3)]
    tensors.append(memory.empty((8,), torch.float32))
    del tensors
    gc.collect()
    assert memory.idle == LARGE


def test_what_is_forgotten_is_not_used_again():
    memory = Memory()
    memory.empty(SIZE, torch.float32)
    gc.collect()
    assert memory.idle == LARGE
    memory.forget()
    assert memory.idle == 0
    kept = memory.empty(SIZE, torch.float32)
    assert kept.fill_(1).sum() == SIZE[0]


def test_the_collector_of_cycles_rests_until_the_last_thread_is_through():
    within, leave = threading.Event(), threading.Event()

    def other():
        with uncollected():
            within.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with uncollected():
        thread.start()
        assert within.wait(60)
        with uncollected():
            pass
        assert not gc.isenabled()
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.skipif(sys.platform != "linux", reason="by the books of the Linux kernel")
def test_free_memory_below_what_is_in_use_goes_back():
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])  # pages

    blocks = [bytearray(b"x" * 50_000) for _ in range(2000)]  # from the heap, 100 MB
    last, before = blocks.pop(), resident()
    blocks.clear()
    give_back()
    assert last[0] == ord("x")
    assert before - resident() > 80e6 / 4096


class OnGpu(TorchFunctionMode):
    """All tensors say that they are on a GPU."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__self__", None) is torch.Tensor.device:
            return torch.device("cuda")
        return func(*args, **(kwargs or {}))


def test_rows_are_gathered_and_summed_on_gpus_as_on_cpus():
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([4, 0, 4, 2])
    for call in (lambda: gathered(x, index, -2), lambda: gathered(x[0], index),
                 lambda: summed(x[0, :4], index, 6)):  # fmt: skip
        want = call()
        with OnGpu():
            found = call()
        assert found.grad_fn.name() != want.grad_fn.name()
        assert torch.equal(found, want)
        grads = [torch.autograd.grad(y.square().sum(), x)[0] for y in (want, found)]
        torch.testing.assert_close(*grads)
