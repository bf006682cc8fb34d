// The page: what is chosen is in the address, and drawn as soon as it changes.
(() => {
  const root = document.getElementById("explorer");
  const form = root.querySelector("form");
  const fields = form.elements;
  const find = (what) => root.querySelector(what);
  const SIZE = 128, FIT = 64, STEPS = 80;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let drawing = 0;  // the number of the latest drawing; an older one stops
  const shown = {}; // the last pictures, for the value under the pointer
  // What the gradient is of: how corners move, and what it is called.
  const motions = {
    size: [(x, y) => [x, y], "size"],
    right: [() => [1, 0], "x"],
    up: [() => [0, 1], "y"],
    spin: [(x, y) => [-y, x], "angle"],
  };

  const options = (select, values) => select.append(...values.map(([value, text]) => {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = text ?? value;
    return option;
  }));
  options(fields.scene, Object.keys(scenes).map((name) => [name]));
  options(fields.motion, [["size", "as it grows"], ["right", "as it moves right"],
    ["up", "as it moves up"], ["spin", "as it turns left"]]);
  options(fields.base, Object.keys(distributions).map((name) => [name]));
  options(fields.family, Object.keys(families).map((name) => [name]));
  options(fields.preset, presets.map(([name, state]) => [state, name]));

  // A slider holds the logarithm; the p of a family is positive, or negative for all its values.
  const sign = (family) => families[family].p < 0 ? -1 : 1;
  function read() {
    const family = fields.family.value;
    return {
      scene: fields.scene.value,
      motion: fields.motion.value,
      dist: {
        base: fields.base.value, shape: 10 ** Number(fields.shape.value),
        reversed: fields.reversed.checked, centred: fields.centred.checked,
        squared: fields.squared.checked,
      },
      tconorm: {family, p: sign(family) * 10 ** Number(fields.p.value)},
      scale: 10 ** Number(fields.scale.value),
    };
  }

  // Sliders move in steps, so what the address says is kept as it is.
  let state = null;
  function write(next) {
    state = next;
    fields.scene.value = next.scene;
    fields.motion.value = next.motion;
    fields.base.value = next.dist.base;
    if (distributions[next.dist.base].shape !== null) fields.shape.value = Math.log10(next.dist.shape);
    for (const name of ["reversed", "centred", "squared"]) fields[name].checked = next.dist[name];
    fields.family.value = next.tconorm.family;
    if (families[next.tconorm.family].p !== null)
      fields.p.value = Math.log10(Math.abs(next.tconorm.p));
    fields.scale.value = Math.log10(next.scale);
  }

  const rounded = (x) => Number(x.toPrecision(3));
  function changed(event) {
    const name = event.target.name;
    if (name === "preset") {
      if (fields.preset.value) write(fromAddress(fields.preset.value));
    } else {
      const next = read();
      // What was not touched stays as exact as it was.
      next.dist.shape = name === "base" ? distributions[next.dist.base].shape
        : name === "shape" ? rounded(next.dist.shape) : state.dist.shape;
      next.tconorm.p = name === "family" ? families[next.tconorm.family].p
        : name === "p" ? rounded(next.tconorm.p) : state.tconorm.p;
      next.scale = name === "scale" ? rounded(next.scale) : state.scale;
      if (next.tconorm.family === "frank" && next.tconorm.p === 1) next.tconorm.p = 1.001;
      write(next);
      fields.preset.value = "";
    }
    history.replaceState(null, "", "#" + toAddress(state));
    draw();
  }

  function toAddress(s) {
    return `dist=${distributionText(s.dist)}&tconorm=${tconormText(s.tconorm)}` +
      `&scale=${short(s.scale)}&scene=${encodeURIComponent(s.scene)}&gradient=${s.motion}`;
  }

  // What an address says; where it says nothing or nonsense, the default.
  function fromAddress(text) {
    const said = new URLSearchParams(text);
    const scale = Number(said.get("scale"));
    return {
      scene: said.get("scene") in scenes ? said.get("scene") : Object.keys(scenes)[0],
      motion: said.get("gradient") in motions ? said.get("gradient") : "size",
      dist: readDistribution(said.get("dist") ?? "") ?? readDistribution("logistic"),
      tconorm: readTConorm(said.get("tconorm") ?? "") ?? readTConorm("probabilistic"),
      scale: scale > 0 && scale <= 100 ? scale : 0.03,
    };
  }

  function draw() {
    const {dist, tconorm, scale, scene} = state;
    const base = distributions[dist.base], family = families[tconorm.family];
    find('[data-of="base"]').textContent = `F(z) = ${base.formula}`;
    find('[data-of="family"]').textContent = `⊥(a, b) = ${family.formula}`;
    const slider = (name, there, value) => {
      const label = fields[name].closest("label");
      label.hidden = !there;
      label.querySelector("output").textContent = short(value ?? 0);
    };
    slider("shape", base.shape !== null, dist.shape);
    slider("p", family.p !== null, tconorm.p);
    slider("scale", true, scale);
    find(".explorer-code code").textContent =
      `renderer = gendr.Renderer(dist="${distributionText(dist)}", ` +
      `tconorm="${tconormText(tconorm)}", scale=${short(scale)})`;
    find('[data-of="motion"]').textContent = motions[state.motion][1];
    drawCdf(dist, scale);
    drawJoin(tconorm);
    inSlices(all(state, scenes[scene]), ++drawing);
  }

  // Runs a generator in slices, so that the page stays quick, as long as nothing else is drawn; a
  // slice ends early where the generator yields true, to be seen.
  function inSlices(work, number) {
    const slice = () => {
      const end = performance.now() + 25;
      while (number === drawing && performance.now() < end) {
        const {done, value} = work.next();
        if (done) return;
        if (value) break;
      }
      if (number === drawing) setTimeout(slice, 15);
    };
    slice();
  }

  // Coarse first: a distribution with heavy tails meets every pixel with every face.
  function* pictures(member, triangles) {
    for (const size of [SIZE / 4, SIZE]) {
      const work = picture(member, triangles, size);
      while (work.step()) yield;
      showAlpha(work.alpha(), size);
      const slope = new Float64Array(size * size);
      for (let face = 0; face < triangles.length; face++) {
        work.along(face, motions[member.motion][0], slope);
        yield;
      }
      showSlope(slope, size);
    }
    root.dataset.drawn = toAddress(member);
  }

  // The pictures, then the fit: steps of Adam on loose triangles, drawn as it goes.
  function* all(member, triangles) {
    yield* pictures(member, triangles);
    const mask = hardMask(triangles, FIT);
    const work = fit(member, confetti(3, 0.6), mask, FIT);
    const {scale} = member;
    while (work.steps < STEPS) {
      work.step(2 * scale * (1 / 6) ** (work.steps / (STEPS - 1)));  // to a third of it
      if (!calm || work.steps === STEPS) showFit(work, mask);
      yield true;
    }
    root.dataset.fitted = overlap(work, mask);
  }

  // The intersection over union of hard silhouettes.
  function overlap(work, mask) {
    return 1 - iouLoss(hardMask(work.triangles, FIT), mask).loss;
  }

  function showFit(work, mask) {
    const canvas = find('[data-picture="fit"]');
    const width = Math.round((canvas.clientWidth || 240) * (window.devicePixelRatio || 1));
    if (canvas.width !== width) canvas.width = canvas.height = width;
    const small = document.createElement("canvas");
    small.width = small.height = FIT;
    const image = small.getContext("2d").createImageData(FIT, FIT);
    work.alpha.forEach((a, k) => {
      const under = mask[k] ? [246, 193, 119] : [255, 255, 255];
      const over = [30, 58, 110].map((c, i) => under[i] + 0.75 * a * (c - under[i]));
      image.data.set([...over, 255], 4 * k);
    });
    small.getContext("2d").putImageData(image, 0, 0);
    const c = canvas.getContext("2d");
    c.drawImage(small, 0, 0, width, width);
    c.strokeStyle = "rgba(255, 255, 255, 0.7)";
    c.lineWidth = width / 300;
    c.beginPath();
    for (const face of work.triangles) {
      face.forEach(([x, y], k) =>
        c[k ? "lineTo" : "moveTo"]((x + 1) / 2 * width, (1 - y) / 2 * width));
      c.closePath();
    }
    c.stroke();
    find('[data-of="fit"]').textContent =
      `Step ${work.steps} of ${STEPS}: IoU ${overlap(work, mask).toFixed(3)}.`;
  }

  function paint(name, values, size, colour) {
    shown[name] = {values, size};
    const canvas = find(`[data-picture="${name}"]`);
    canvas.width = canvas.height = size;
    const context = canvas.getContext("2d");
    const image = context.createImageData(size, size);
    values.forEach((value, k) => image.data.set([...colour(value, k), 255], 4 * k));
    context.putImageData(image, 0, 0);
  }

  function showAlpha(alpha, size) {
    paint("alpha", alpha, size, (a) => [0, 0, 0].fill(255 * (1 - a)));
    root.dataset.first ??= Math.round(performance.now());
  }

  // White is 0; from the 99th of 100 of the strongest values on the colours are full.
  function showSlope(slope, size) {
    const strength = Float64Array.from(slope, Math.abs).sort();
    const most = strength[Math.floor(0.99 * (strength.length - 1))] || strength.at(-1) || 1;
    find('[data-of="strongest"]').textContent = rounded(strength.at(-1));
    paint("slope", slope, size, (value) => {
      const u = Math.min(1, Math.abs(value) / most), far = value > 0 ? [47, 98, 196] : [192, 57, 43];
      return far.map((c) => 255 + u * (c - 255));
    });
  }

  // Curves with their axes. x and y are ranges; `lines` lists [property that is a colour, points].
  function plot(name, x, y, lines, ticks) {
    const canvas = find(`[data-curve="${name}"]`);
    const width = canvas.clientWidth || 260, height = Math.round(width * 0.62);
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    const style = getComputedStyle(root);
    const ink = style.getPropertyValue("--explorer-ink"), faint = style.getPropertyValue("--explorer-line");
    const [left, right, top, bottom] = [34, 10, 10, 20];
    const X = (v) => left + (v - x[0]) / (x[1] - x[0]) * (width - left - right);
    const Y = (v) => height - bottom - (v - y[0]) / (y[1] - y[0]) * (height - top - bottom);
    c.font = "11px sans-serif";
    c.fillStyle = ink;
    c.strokeStyle = faint;
    c.textAlign = "center";
    for (const v of ticks.x) {
      c.beginPath(); c.moveTo(X(v), Y(y[0])); c.lineTo(X(v), Y(y[1])); c.stroke();
      c.fillText(short(v), X(v), height - 5);
    }
    c.textAlign = "right";
    for (const v of ticks.y) {
      c.beginPath(); c.moveTo(X(x[0]), Y(v)); c.lineTo(X(x[1]), Y(v)); c.stroke();
      c.fillText(short(v), left - 5, Y(v) + 4);
    }
    c.save();
    c.beginPath(); c.rect(left, top - 2, width - left - right, height - top - bottom + 4); c.clip();
    c.lineWidth = 2;
    for (const [colour, points] of lines) {
      c.strokeStyle = style.getPropertyValue(colour);
      c.beginPath();
      points.forEach(([u, v], i) => i ? c.lineTo(X(u), Y(v)) : c.moveTo(X(u), Y(v)));
      c.stroke();
    }
    c.restore();
  }

  const COLOUR = "--explorer-generator", OTHER = "--explorer-join";
  const along = (from, to, f, n = 240) =>
    Array.from({length: n + 1}, (_, i) => from + (to - from) * i / n).map((v) => [v, f(v)]);

  function drawCdf(dist, scale) {
    const {F} = coverage(dist, scale);
    const wide = Math.min(2, 5 * (dist.squared ? Math.sqrt(scale) : scale));
    const tick = Number((wide / 2).toPrecision(1));
    plot("cdf", [-wide, wide], [0, 1], [[COLOUR, along(-wide, wide, (x) => F(x)[0])]],
      {x: [-tick, 0, tick], y: [0, 0.5, 1]});
  }

  function drawJoin({family: name, p}) {
    const family = families[name];
    const join = (a, b) => {
      if (family.kind === "max") return Math.max(a, b);
      if (family.kind === "mean") return (a + b) / 2;
      return a >= 1 || b >= 1 ? 1 :
        family.inverse(family.generator(a, 1 - a, p) + family.generator(b, 1 - b, p), p)[0];
    };
    const lines = [[OTHER, along(0, 1, (a) => join(a, a))]];
    const there = family.kind === "archimedean";
    if (there) {
      const half = family.generator(0.5, 0.5, p);
      lines.push([COLOUR, along(0, 0.9995, (a) => family.generator(a, 1 - a, p) / half / 2, 400)]);
    }
    find('[data-of="generator"]').hidden = !there;
    plot("join", [0, 1], [0, 1], lines, {x: [0, 0.5, 1], y: [0, 0.5, 1]});
  }

  // The value under the pointer, in either picture.
  const views = find(".explorer-views");
  const readOff = (event) => {
    const {picture: name} = event.target.dataset;
    if (!shown[name]) return;
    const box = event.target.getBoundingClientRect(), {size} = shown[name];
    const j = Math.floor((event.clientX - box.left) / box.width * size);
    const i = Math.floor((event.clientY - box.top) / box.height * size);
    const at = (which) => shown[which]?.values[Math.floor((i + 0.5) * shown[which].size / size) *
      shown[which].size + Math.floor((j + 0.5) * shown[which].size / size)];
    const [a, g] = [at("alpha"), at("slope")];
    if (a === undefined || g === undefined) return;
    find('[data-of="pixel"]').textContent = `Here ${a.toPrecision(3)}, gradient ${rounded(g)}.`;
  };
  for (const kind of ["pointermove", "pointerdown"]) views.addEventListener(kind, readOff);
  find('[data-do="copy"]').addEventListener("click", (event) => {
    const button = event.target;
    const say = (text) => {
      button.textContent = text;
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    };
    const line = find(".explorer-code code");
    const copied = navigator.clipboard?.writeText(line.textContent) ?? Promise.reject();
    copied.then(() => say("Copied"), () => {  // not allowed here: mark the line, to be copied by hand
      getSelection().selectAllChildren(line);
      say("Marked");
    });
  });
  find('[data-do="fit"]').addEventListener("click", draw);
  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  const arrive = () => { write(fromAddress(decodeURIComponent(location.hash.slice(1)))); draw(); };
  window.addEventListener("hashchange", arrive);
  window.addEventListener("resize", () => { drawCdf(state.dist, state.scale); drawJoin(state.tconorm); });
  new MutationObserver(() => { drawCdf(state.dist, state.scale); drawJoin(state.tconorm); })
    .observe(document.body, {attributes: true, attributeFilter: ["data-md-color-scheme"]});
  root.hidden = false;
  arrive();
})();
