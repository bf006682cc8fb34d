// The soft silhouette of a few triangles, as gendr.silhouette computes it, in plain numbers.
// `laws` and `families` stand above: they are translated from the package.

// What a text such as "gamma(shape=0.5).reversed.centred.squared" means.
function readDistribution(text) {
  const [law, ...transforms] = text.split(/\.(?=[a-z])/);
  const [, name, , shape] = law.match(/^(\w+)(\(shape=([^)]+)\))?$/) || [];
  if (!(name in laws)) return null;
  return {
    law: name,
    shape: shape === undefined ? laws[name].shape : Number(shape),
    reversed: transforms.includes("reversed"),
    centred: transforms.includes("centred"),
    squared: transforms.includes("squared"),
  };
}

function readTConorm(text) {
  const [, name, , p] = text.match(/^(\w+)(\(p=([^)]+)\))?$/) || [];
  if (!(name in families)) return null;
  return {family: name, p: p === undefined ? families[name].p : Number(p)};
}

// A number as Python writes it in these texts: with all its digits, and no more.
function short(x) { return String(Number(x.toPrecision(6))); }

function distributionText(d) {
  const shape = laws[d.law].shape === null ? "" : `(shape=${short(d.shape)})`;
  return d.law + shape + (d.reversed ? ".reversed" : "") + (d.centred ? ".centred" : "") +
    (d.squared ? ".squared" : "");
}

function tconormText(t) {
  return t.family + (families[t.family].p === null ? "" : `(p=${short(t.p)})`);
}

// [F, 1 - F] of a signed distance, at a scale. Shift, then reverse, then square.
function coverage(d, scale) {
  const law = laws[d.law];
  const constant = law.constant ? law.constant(d.shape) : 0;
  const tails = (z) => law.tails(z, d.shape, constant);
  const shift = d.centred ? median(tails) : 0;
  return (x) => {
    const z = (d.squared ? Math.abs(x) * x : x) / scale;
    if (!d.reversed) return tails(z + shift);
    const [cdf, sf] = tails(shift - z);
    return [sf, cdf];
  };
}

function median(tails) {
  let low = -1, high = 1;
  while (tails(low)[0] > 0.5) low *= 2;
  while (tails(high)[0] < 0.5) high *= 2;
  for (let i = 0; i < 100; i++) {
    const middle = (low + high) / 2;
    if (tails(middle)[0] < 0.5) low = middle; else high = middle;
  }
  return (low + high) / 2;
}

// How far outside of a face F is above the cutoff; Infinity if that is beyond any image.
function radius(F, cutoff) {
  if (F(-8)[0] > cutoff) return Infinity;
  let near = 0, far = 8;
  if (F(0)[0] <= cutoff) return 0;
  for (let i = 0; i < 60; i++) {
    const middle = (near + far) / 2;
    if (F(-middle)[0] > cutoff) near = middle; else far = middle;
  }
  return far;
}

// The signed distance to a triangle [[x, y], ...] as a function: to its edges, positive inside.
function signedDistance([[ax, ay], [bx, by], [cx, cy]]) {
  const edge = (ax, ay, bx, by) => {
    const length = (bx - ax) ** 2 + (by - ay) ** 2;
    return [ax, ay, bx - ax, by - ay, length > 0 ? 1 / length : 0];
  };
  const [px, py, pu, pv, pn] = edge(ax, ay, bx, by);
  const [qx, qy, qu, qv, qn] = edge(bx, by, cx, cy);
  const [rx, ry, ru, rv, rn] = edge(cx, cy, ax, ay);
  // To a segment from the origin to (u, v), n = 1 / (u^2 + v^2).
  const square = (x, y, u, v, n) => {
    const t = Math.min(1, Math.max(0, (x * u + y * v) * n));
    return (x - t * u) ** 2 + (y - t * v) ** 2;
  };
  return (x, y) => {
    const p = pu * (y - py) - pv * (x - px), q = qu * (y - qy) - qv * (x - qx);
    const r = ru * (y - ry) - rv * (x - rx);
    const d = Math.sqrt(Math.min(square(x - px, y - py, pu, pv, pn),
      square(x - qx, y - qy, qu, qv, qn), square(x - rx, y - ry, ru, rv, rn)));
    return (p > 0 && q > 0 && r > 0) || (p < 0 && q < 0 && r < 0) ? d : -d;
  };
}

// Draws face by face: `step()` does one and says whether there are more; `alpha()` is the picture
// of what is done so far, size x size values from the top.
function picture(member, triangles, size, cutoff = 1e-6) {
  const F = coverage(member.dist, member.scale);
  const reach = radius(F, cutoff);
  const family = families[member.tconorm.family], p = member.tconorm.p;
  const sums = new Float64Array(size * size), full = new Uint8Array(size * size);
  let next = 0;
  const column = (x) => (x + 1) * size / 2 - 0.5;
  const clamp = (j) => Math.min(size - 1, Math.max(0, j));
  function step() {
    if (next === triangles.length) return false;
    const triangle = triangles[next++];
    const distance = signedDistance(triangle);
    const xs = triangle.map((v) => v[0]), ys = triangle.map((v) => v[1]);
    const bounds = [Math.min(...xs) - reach, Math.max(...xs) + reach,
      -Math.max(...ys) - reach, -Math.min(...ys) + reach];
    const [j0, j1, i0, i1] = bounds.map((b, k) =>
      clamp(k % 2 ? Math.ceil(column(b)) : Math.floor(column(b))));
    for (let i = i0; i <= i1; i++) {
      const y = (size - 1 - 2 * i) / size;
      for (let j = j0; j <= j1; j++) {
        const [a, s] = F(distance((2 * j + 1 - size) / size, y));
        if (!(a > cutoff)) continue;
        const k = i * size + j;
        if (family.kind === "max") sums[k] = Math.max(sums[k], a);
        else if (family.kind === "mean") sums[k] += a / triangles.length;
        else if (s <= 0) full[k] = 1;
        else sums[k] += family.generator(a, s, p);
      }
    }
    return true;
  }
  function alpha() {
    if (family.kind !== "archimedean") return sums.slice();
    return sums.map((t, k) =>
      full[k] || t === Infinity ? 1 : t > 0 ? family.inverse(t, p)[0] : 0);
  }
  return {step, alpha};
}
