// `node gltf.js decode FILE …`: the triangles of glTF files by glTF Transform, a decoder of others.
// `node gltf.js validate FILE …`: what Khronos' validator says of them.
// Prints one line of JSON for each file. Packages are found by NODE_PATH.
const fs = require("fs");
const [, , task, ...files] = process.argv;

const times = (m, v) => [0, 1, 2].map((i) => m[i] * v[0] + m[4 + i] * v[1] + m[8 + i] * v[2] + m[12 + i]);
const product = (a, b) => [0, 1, 2, 3].flatMap((c) => [0, 1, 2, 3].map((r) =>
  [0, 1, 2, 3].reduce((sum, k) => sum + a[4 * k + r] * b[4 * c + k], 0)));
const determinant = (m) => m[0] * (m[5] * m[10] - m[6] * m[9]) - m[4] * (m[1] * m[10] - m[2] * m[9])
  + m[8] * (m[1] * m[6] - m[2] * m[5]);

function composed([x, y, z, w], [a, b, c], [i, j, k]) {
  return [
    a * (1 - 2 * (y * y + z * z)), a * 2 * (x * y + z * w), a * 2 * (x * z - y * w), 0,
    b * 2 * (x * y - z * w), b * (1 - 2 * (x * x + z * z)), b * 2 * (y * z + x * w), 0,
    c * 2 * (x * z + y * w), c * 2 * (y * z - x * w), c * (1 - 2 * (x * x + y * y)), 0, i, j, k, 1,
  ];
}

const unit = (q) => q.map((x) => x / Math.hypot(...q));

function places(node) {
  const world = node.getWorldMatrix(), batch = node.getExtension("EXT_mesh_gpu_instancing");
  if (!batch) return [world];
  const of = (name, i, other) => batch.getAttribute(name)?.getElement(i, []) ?? other;
  return [...Array(batch.listAttributes()[0].getCount()).keys()].map((i) => product(world,
    composed(unit(of("ROTATION", i, [0, 0, 0, 1])), of("SCALE", i, [1, 1, 1]), of("TRANSLATION", i, [0, 0, 0]))));
}

function corners(primitive) {
  const indices = primitive.getIndices(), count = primitive.getAttribute("POSITION").getCount();
  const list = indices ? [...Array(indices.getCount()).keys()].map((i) => indices.getScalar(i)) : [...Array(count).keys()];
  const found = [];
  if (primitive.getMode() === 4) for (let i = 0; i + 2 < list.length; i += 3) found.push(list.slice(i, i + 3));
  if (primitive.getMode() === 5) for (let i = 0; i + 2 < list.length; i++)
    found.push(i % 2 ? [list[i], list[i + 2], list[i + 1]] : [list[i], list[i + 1], list[i + 2]]);
  if (primitive.getMode() === 6) for (let i = 1; i + 1 < list.length; i++) found.push([list[i], list[i + 1], list[0]]);
  return found;
}

function triangles(node, primitive, found) {
  const mesh = node.getMesh(), weights = node.getWeights().length ? node.getWeights() : mesh.getWeights();
  const value = (name, i) => {
    const result = primitive.getAttribute(name)?.getElement(i, []);
    if (result) primitive.listTargets().forEach((target, t) =>
      target.getAttribute(name)?.getElement(i, []).forEach((x, k) => (result[k] += (weights[t] ?? 0) * x)));
    return result;
  };
  const material = primitive.getMaterial(), factor = material?.getBaseColorFactor() ?? [1, 1, 1, 1];
  const skin = node.getSkin(), bones = skin?.listJoints().map((joint, j) =>
    product(joint.getWorldMatrix(), skin.getInverseBindMatrices().getElement(j, [])));
  for (const place of skin ? [null] : places(node)) {
    for (const face of corners(primitive)) {
      const triangle = face.map((i) => {
        const point = value("POSITION", i), color = value("COLOR_0", i) ?? [1, 1, 1];
        let at = place && times(place, point);
        if (skin) {
          const joints = value("JOINTS_0", i), shares = value("WEIGHTS_0", i);
          at = [0, 1, 2].map((k) => joints.reduce((sum, j, n) => sum + shares[n] * times(bones[j], point)[k], 0));
        }
        return { at, color: color.slice(0, 3).map((x, k) => x * factor[k]), uv: value("TEXCOORD_0", i) ?? null };
      });
      found.push(place && determinant(place) < 0 ? [triangle[0], triangle[2], triangle[1]] : triangle);
    }
  }
}

async function decode(file) {
  const { NodeIO } = require("@gltf-transform/core");
  const { ALL_EXTENSIONS } = require("@gltf-transform/extensions");
  const io = new NodeIO().registerExtensions(ALL_EXTENSIONS);
  const found = [], root = (await io.read(file)).getRoot();
  (root.getDefaultScene() ?? root.listScenes()[0]).traverse((node) =>
    node.getMesh()?.listPrimitives().forEach((primitive) => triangles(node, primitive, found)));
  return found;
}

async function validate(file) {
  const { issues } = await require("gltf-validator").validateBytes(new Uint8Array(fs.readFileSync(file)));
  return issues.messages.filter((message) => message.severity < 2).map((m) => `${m.code} ${m.pointer}: ${m.message}`);
}

(async () => {
  for (const file of files) console.log(JSON.stringify(await { decode, validate }[task](file)));
})();
