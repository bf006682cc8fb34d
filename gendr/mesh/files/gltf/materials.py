"""The base colours of materials: factors, textures, samplers.

Source: glTF 2.0, sections 3.8 (textures), 3.9 (materials); KHR_texture_transform,
KHR_materials_unlit, KHR_materials_pbrSpecularGlossiness, EXT_texture_webp, EXT_texture_avif.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from gendr.mesh.files.gltf.document import (
    Document,
    GltfError,
    Object,
    child,
    count,
    is_number,
    numbers,
)
from gendr.mesh.files.reports import note
from gendr.mesh.files.soup import Material
from gendr.mesh.files.srgb import from_linear, to_linear
from gendr.mesh.files.textures import pixels
from gendr.mesh.images import UnreadableImageError, open_image

Array = NDArray[Any]

_REPEAT, _CLAMP, _MIRROR, _NEAREST = 10497, 33071, 33648, 9728
_UNLIT, _GLOSSY = "KHR_materials_unlit", "KHR_materials_pbrSpecularGlossiness"
_IMAGES = ("EXT_texture_webp", "EXT_texture_avif")  # which Pillow reads
# What a material has beside its base colour.
_BESIDE = ("normalTexture", "occlusionTexture", "emissiveTexture")
# How far from [0, 1] a UV may lie before it counts as there, and how many times its own size an
# image becomes at most where it is clamped.
_NEAR, _WIDEST = 1e-4, 16


@dataclass
class Base:
    """What a material says of its base colour."""

    factor: Array  # [3], linear
    unlit: bool = False
    image: int = -1  # of the images of the file
    texcoord: int = 0
    transform: Array | None = None  # [2, 3], of UVs
    wrap: tuple[int, int] = (_REPEAT, _REPEAT)


class Materials:
    """The materials of a file and their images, each of which is decoded once.

    Args:
        document: The file.
        max_megapixels: The largest image that is read, in million pixels.
    """

    def __init__(self, document: Document, max_megapixels: float) -> None:
        self._document, self._most = document, max_megapixels
        self._bases: dict[int, Base] = {}
        self._images: dict[int, Array | None] = {}
        self._materials: dict[object, Material] = {}

    def base(self, index: object) -> Base:
        """The base colour of a material; None is the default one.

        Raises:
            GltfError: if it is not there, or damaged.
        """
        if index is None:
            return Base(np.ones(3))
        material = self._document.item("materials", index)
        number = int(str(index))
        if number not in self._bases:
            self._bases[number] = self._base(material)
        return self._bases[number]

    def _base(self, material: Object) -> Base:
        extensions = child(material, "extensions")
        name, colour, texture = "pbrMetallicRoughness", "baseColorFactor", "baseColorTexture"
        owner = material
        if _GLOSSY in extensions:
            name, colour, texture = _GLOSSY, "diffuseFactor", "diffuseTexture"
            owner = extensions
        look = child(owner, name)
        found = Base(numbers(look, colour, [1.0] * 4)[:3].clip(0, 1), _UNLIT in extensions)
        self._note_unsupported(material, look)
        if texture in look:
            self._read_texture(child(look, texture), found)
        return found

    def _note_unsupported(self, material: Object, look: Object) -> None:
        """Note what of a material is not drawn."""
        notes, mode = self._document.notes, material.get("alphaMode", "OPAQUE")
        if mode != "OPAQUE":
            note(notes, f"its transparency (alphaMode {mode!s:.10}) is not drawn")
        rest = [name for name in _BESIDE if name in material]
        rest += [name for name in ("metallicRoughnessTexture",) if name in look]
        if numbers(material, "emissiveFactor", [0.0] * 3).any() and "emissiveTexture" not in rest:
            rest.append("emissiveFactor")
        for name in rest:
            note(notes, f"the {name} of its materials is dropped")

    def _read_texture(self, info: Object, found: Base) -> None:
        """Read where a texture lies, in the file and on the surface."""
        texture = self._document.item("textures", info.get("index"))
        extensions = child(texture, "extensions")
        sources = [child(extensions, name).get("source") for name in _IMAGES if name in extensions]
        source = next((s for s in (*sources, texture.get("source")) if s is not None), None)
        if source is None:
            kinds = ", ".join(extensions) or "no image"
            note(self._document.notes, f"a texture of it has {kinds:.60}, and is left out")
            return
        self._document.item("images", source)
        found.image, found.texcoord = int(source), count(info, "texCoord", 0)
        if "sampler" in texture:
            sampler = self._document.item("samplers", texture["sampler"])
            found.wrap = count(sampler, "wrapS", _REPEAT), count(sampler, "wrapT", _REPEAT)
            if not {*found.wrap} <= {_REPEAT, _CLAMP, _MIRROR}:
                raise GltfError(f"a sampler in it wraps by {found.wrap}, which glTF does not know")
            if sampler.get("magFilter") == _NEAREST:
                note(self._document.notes, "its texels are interpolated, not drawn as squares")
        change = child(child(info, "extensions"), "KHR_texture_transform")
        if change:
            found.texcoord = count(change, "texCoord", found.texcoord)
            angle = change.get("rotation", 0)
            if not is_number(angle):
                raise GltfError(f"its rotation is {angle!r:.20}, no number")
            c, s = math.cos(angle), math.sin(angle)
            # Counter-clockwise as it is seen, with v down: T(offset) R(rotation) S(scale).
            turn = np.array([[c, s], [-s, c]]) * numbers(change, "scale", [1.0, 1.0])
            found.transform = np.column_stack((turn, numbers(change, "offset", [0.0, 0.0])))

    def painted(self, base: Base, uvs: Array | None) -> tuple[Material, Array | None]:
        """A material, and the UVs [V, 2], v down, that it takes of the image it has then.

        Args:
            base: What the file says of the material.
            uvs: [V, 2] as in the file, or None if there are none.

        Raises:
            ValueError: for an image that is larger than allowed.
        """
        image = None
        if base.image >= 0 and uvs is None:
            note(self._document.notes, f"a texture of it needs TEXCOORD_{base.texcoord}, not there")
        elif base.image >= 0:
            image = self._image(base.image)
        if image is None or uvs is None:
            color = from_linear(base.factor)
            return self._once(("color", *color, base.unlit), None, color, base.unlit), uvs
        placed: Array = uvs
        if base.transform is not None:
            placed = uvs @ base.transform[:, :2].T + base.transform[:, 2]
        pads, placed = self._pads(base.wrap, placed, image)
        key = (base.image, *base.factor, base.unlit, *pads)
        if key not in self._materials:
            for axis, (before, after, mode) in enumerate(pads):
                if before or after:
                    width = [(before, after) if k == axis else (0, 0) for k in range(3)]
                    padding: Any = mode
                    image = np.pad(image, width, mode=padding)
            if (base.factor != 1).any():
                image = image.copy()
                for row in image:  # one at a time: copies of a large image are expensive
                    row[:] = from_linear(to_linear(row) * base.factor)
        return self._once(key, image, np.ones(3), base.unlit), placed

    def _once(self, key: object, image: Array | None, color: Array, unlit: bool) -> Material:
        return self._materials.setdefault(key, Material(image, color, unlit))

    def _pads(
        self, wrap: tuple[int, int], uvs: Array, image: Array
    ) -> tuple[tuple[tuple[int, int, str], ...], Array]:
        """How rows and columns of an image are continued, as it is repeated beyond that, and UVs.

        Clamped images are continued as far as the UVs reach, mirrored ones once.
        """
        uvs, pads = uvs.copy(), list[tuple[int, int, str]]()
        for axis, mode, size in ((1, wrap[1], image.shape[0]), (0, wrap[0], image.shape[1])):
            low, high = float(uvs[:, axis].min()), float(uvs[:, axis].max())
            if mode == _REPEAT or (low >= -_NEAR and high <= 1 + _NEAR):
                pads.append((0, 0, "edge"))
                continue
            if mode == _MIRROR:
                before, after = 0, size
            else:  # a texel more, for interpolation
                before, after = (math.ceil(x * size) + 1 if x > 0 else 1 for x in (-low, high - 1))
            other = image.shape[1 - len(pads)] + (sum(pads[0][:2]) if pads else 0)
            most = min(_WIDEST * size, self._most * 1e6 / other)
            if size + before + after > most:
                note(
                    self._document.notes, "a texture of it is repeated, where it should be clamped"
                )
                pads.append((0, 0, "edge"))
                continue
            pads.append((before, after, "symmetric" if mode == _MIRROR else "edge"))
            uvs[:, axis] = (uvs[:, axis] * size + before) / (size + before + after)
        return tuple(pads), uvs

    def _image(self, index: int) -> Array | None:
        """An image [H, W, 3] of the file, sRGB in [0, 1]; None with a note if it is unreadable."""
        if index in self._images:
            return self._images[index]
        document, entry = self._document, self._document.item("images", index)
        uri = unquote(str(entry.get("uri", "")))
        name = ("" if uri.startswith("data:") else uri) or entry.get("name") or f"number {index}"
        what, found = f"its texture {name!s:.80}", None
        try:
            inside = "bufferView" in entry
            data = document.view(entry["bufferView"]).tobytes() if inside else None
            data = document.resource(entry, what) if data is None else data
            with open_image(document.path, self._most, content=data) as image:
                found = pixels(image, [])  # opaque, whatever it holds: see alphaMode
        except GltfError as error:
            note(document.notes, str(error))
        except UnreadableImageError:
            note(document.notes, f"{what} is no readable image")
        self._images[index] = found
        return found
