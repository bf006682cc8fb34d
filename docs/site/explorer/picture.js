// The soft silhouette of a few triangles, and its gradient, as gendr.silhouette computes them, in
// plain numbers.
// `distributions` and `families` stand above: they are translated from the package.

// What a text such as "gamma(shape=0.5).reversed.centred.squared" means.
function readDistribution(text) {
  const [base, ...transforms] = text.split(/\.(?=[a-z])/);
  const [, name, , shape] = base.match(/^(\w+)(\(shape=([^)]+)\))?$/) || [];
  if (!(name in distributions)) return null;
  return {
    base: name,
    shape: shape === undefined ? distributions[name].shape : Number(shape),
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
  const shape = distributions[d.base].shape === null ? "" : `(shape=${short(d.shape)})`;
  return d.base + shape + (d.reversed ? ".reversed" : "") + (d.centred ? ".centred" : "") +
    (d.squared ? ".squared" : "");
}

function tconormText(t) {
  return t.family + (families[t.family].p === null ? "" : `(p=${short(t.p)})`);
}

// F(d), which is [cdf, 1 - cdf] of a signed distance at a scale, and its slope dF/dd. Shift, then
// reverse, then square.
function coverage(d, scale) {
  const base = distributions[d.base];
  const constant = base.constant ? base.constant(d.shape) : 0;
  const tails = (z) => base.tails(z, d.shape, constant);
  const shift = d.centred ? median(tails) : 0;
  const place = (x) => {
    const z = (d.squared ? Math.abs(x) * x : x) / scale;
    return d.reversed ? shift - z : shift + z;
  };
  const F = (x) => {
    const [cdf, sf] = tails(place(x));
    return d.reversed ? [sf, cdf] : [cdf, sf];
  };
  const slope = (x) =>
    base.density(place(x), d.shape, constant) * (d.squared ? 2 * Math.abs(x) : 1) / scale;
  return {F, slope};
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
// It leaves in `near` what the gradient needs: the nearest point lies on the edge that begins at
// corner `near.edge`, at `near.t` of its length, and d grows as that point moves along (near.x,
// near.y), a unit vector that points out of the triangle.
function signedDistance(triangle) {
  const near = {edge: 0, t: 0, x: 0, y: 0};
  const edges = triangle.map(([ax, ay], k) => {
    const [bx, by] = triangle[(k + 1) % 3], u = bx - ax, v = by - ay;
    return {ax, ay, u, v, n: u * u + v * v > 0 ? 1 / (u * u + v * v) : 0};
  });
  const turn = Math.sign(edges[0].u * edges[1].v - edges[0].v * edges[1].u);
  const distance = (x, y) => {
    let least = Infinity, inside = turn !== 0, dx = 0, dy = 0;
    for (let k = 0; k < 3; k++) {
      const {ax, ay, u, v, n} = edges[k], px = x - ax, py = y - ay;
      const t = Math.min(1, Math.max(0, (px * u + py * v) * n));
      const qx = px - t * u, qy = py - t * v, square = qx * qx + qy * qy;
      if (square < least) {
        least = square; dx = qx; dy = qy;
        near.edge = k; near.t = t;
      }
      if (!((u * py - v * px) * turn > 0)) inside = false;
    }
    const d = Math.sqrt(least);
    if (d > 0) {
      const sign = inside ? -1 : 1;
      near.x = sign * dx / d; near.y = sign * dy / d;
    } else {
      const {u, v, n} = edges[near.edge], unit = turn * Math.sqrt(n);
      near.x = v * unit; near.y = -u * unit;
    }
    return inside ? d : -d;
  };
  return {distance, near};
}

// Draws face by face: `step()` does one and says whether there are more; `alpha()` is the picture
// of what is done so far, size x size values from the top. Then `along(face, velocity, out)` adds to
// `out` how alpha changes, by this face, as its corners move with [vx, vy] = velocity(x, y); and
// `pull(face, upstream)` returns the gradient [[x, y], ...] of its corners, where `upstream` holds
// the gradient of alpha.
function picture(member, triangles, size, cutoff = 1e-6) {
  const {F, slope} = coverage(member.dist, member.scale);
  const reach = radius(F, cutoff);
  const family = families[member.tconorm.family], p = member.tconorm.p;
  const sums = new Float64Array(size * size), full = new Uint8Array(size * size);
  const ties = new Uint16Array(family.kind === "max" ? size * size : 0);
  let next = 0, joined = null;
  const column = (x) => (x + 1) * size / 2 - 0.5;
  const clamp = (j) => Math.min(size - 1, Math.max(0, j));
  // Calls each(k, d, a, s, near) for the pixels k that a face covers.
  function visit(face, each) {
    const {distance, near} = signedDistance(triangles[face]);
    const xs = triangles[face].map((v) => v[0]), ys = triangles[face].map((v) => v[1]);
    const bounds = [Math.min(...xs) - reach, Math.max(...xs) + reach,
      -Math.max(...ys) - reach, -Math.min(...ys) + reach];
    const [j0, j1, i0, i1] = bounds.map((b, k) =>
      clamp(k % 2 ? Math.ceil(column(b)) : Math.floor(column(b))));
    for (let i = i0; i <= i1; i++) {
      const y = (size - 1 - 2 * i) / size;
      for (let j = j0; j <= j1; j++) {
        const d = distance((2 * j + 1 - size) / size, y);
        const [a, s] = F(d);
        if (a > cutoff) each(i * size + j, d, a, s, near);
      }
    }
  }
  function step() {
    if (next === triangles.length) return false;
    visit(next++, (k, d, a, s) => {
      if (family.kind === "max") {
        ties[k] = a > sums[k] ? 1 : a === sums[k] ? ties[k] + 1 : ties[k];
        sums[k] = Math.max(sums[k], a);
      } else if (family.kind === "mean") sums[k] += a / triangles.length;
      else if (s <= 0) full[k] = 1;
      else sums[k] += family.generator(a, s, p);
    });
    return true;
  }
  const total = (k) => full[k] || sums[k] === Infinity ? [1, 0]
    : sums[k] > 0 ? family.inverse(sums[k], p) : [0, 1];
  function alpha() {
    if (family.kind !== "archimedean") return sums.slice();
    return sums.map((_, k) => total(k)[0]);
  }
  // d alpha / d distance of a face in a pixel, when all are joined.
  function weight(k, d, a, s) {
    if (family.kind === "mean") return slope(d) / triangles.length;
    if (family.kind === "max") return a === sums[k] ? slope(d) / ties[k] : 0;
    joined ??= {A: alpha(), S: sums.map((_, k) => total(k)[1])};
    const w = family.weight(a, s, joined.A[k], joined.S[k], p);
    return w === 0 ? 0 : w * slope(d);
  }
  function along(face, velocity, out) {
    const v = triangles[face].map(([x, y]) => velocity(x, y));
    visit(face, (k, d, a, s, {edge, t, x, y}) => {
      const from = v[edge], to = v[(edge + 1) % 3];
      out[k] += weight(k, d, a, s) *
        (x * (from[0] + t * (to[0] - from[0])) + y * (from[1] + t * (to[1] - from[1])));
    });
  }
  function pull(face, upstream) {
    const grad = [[0, 0], [0, 0], [0, 0]];
    visit(face, (k, d, a, s, {edge, t, x, y}) => {
      const w = upstream[k] * weight(k, d, a, s), from = grad[edge], to = grad[(edge + 1) % 3];
      from[0] += w * (1 - t) * x; from[1] += w * (1 - t) * y;
      to[0] += w * t * x; to[1] += w * t * y;
    });
    return grad;
  }
  return {step, alpha, along, pull};
}

// 1 - sum(a m) / sum(a + m - a m) of a picture and a mask, and its gradient.
function iouLoss(alpha, mask) {
  let both = 0, union = 0;
  alpha.forEach((a, k) => { both += a * mask[k]; union += a + mask[k] - a * mask[k]; });
  if (!(union > 0)) return {loss: 0, grad: alpha.map(() => 0)};
  return {
    loss: 1 - both / union,
    grad: alpha.map((_, k) => (both * (1 - mask[k]) / union - mask[k]) / union),
  };
}

// Where a pixel's centre lies inside of a triangle: the hard silhouette.
function hardMask(triangles, size) {
  const member = {dist: readDistribution("heaviside"), tconorm: readTConorm("max"), scale: 1};
  const work = picture(member, triangles, size);
  while (work.step());
  return work.alpha();
}

// Fits loose triangles to a mask by gradient descent (Adam) on the overlap of a soft silhouette.
// `step(scale)` does one step and returns the loss before it; `triangles` are where they are now.
function fit({dist, tconorm}, start, mask, size, rate = 0.02) {
  const triangles = start.map((face) => face.map((corner) => [...corner]));
  const [b1, b2] = [0.9, 0.999];
  const mean = triangles.map(() => [[0, 0], [0, 0], [0, 0]]);
  const square = triangles.map(() => [[0, 0], [0, 0], [0, 0]]);
  const made = {triangles, alpha: null, steps: 0, step};
  function step(scale) {
    const work = picture({dist, tconorm, scale}, triangles, size);
    while (work.step());
    made.alpha = work.alpha();
    const {loss, grad} = iouLoss(made.alpha, mask);
    const pulls = triangles.map((_, face) => work.pull(face, grad));
    made.steps++;
    const [c1, c2] = [1 - b1 ** made.steps, 1 - b2 ** made.steps];
    pulls.forEach((pull, f) => pull.forEach((g, v) => g.forEach((value, i) => {
      const m = mean[f][v][i] += (1 - b1) * (value - mean[f][v][i]);
      const q = square[f][v][i] += (1 - b2) * (value * value - square[f][v][i]);
      triangles[f][v][i] -= rate * (m / c1) / (Math.sqrt(q / c2) + 1e-8);
    })));
    return loss;
  }
  return made;
}

// Small triangles on a grid of n x n squares, two in each, in the square of half width w.
function confetti(n, w) {
  const at = (i) => (2 * i / n - 1) * w, cell = 2 * w / n;
  return Array.from({length: n * n}, (_, k) => [at(k % n), at(Math.floor(k / n))])
    .flatMap(([x, y]) => [
      [[x, y], [x + 0.9 * cell, y], [x, y + 0.9 * cell]],
      [[x + cell, y + cell], [x + 0.1 * cell, y + cell], [x + cell, y + 0.1 * cell]],
    ]);
}
