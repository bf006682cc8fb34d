// The page: what is chosen is in the address, and drawn as soon as it changes.
(() => {
  const root = document.getElementById("explorer");
  const form = root.querySelector("form");
  const fields = form.elements;
  const find = (what) => root.querySelector(what);
  const SIZE = 128;
  let drawing = 0;  // the number of the latest drawing; an older one stops
  let shown = null; // the last picture, for the value under the pointer

  const options = (select, values) => select.append(...values.map(([value, text]) => {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = text ?? value;
    return option;
  }));
  options(fields.scene, Object.keys(scenes).map((name) => [name]));
  options(fields.law, Object.keys(laws).map((name) => [name]));
  options(fields.family, Object.keys(families).map((name) => [name]));
  options(fields.preset, presets.map(([name, state]) => [state, name]));

  // A slider holds the logarithm; the p of a family is positive, or negative for all its values.
  const sign = (family) => families[family].p < 0 ? -1 : 1;
  function read() {
    const family = fields.family.value;
    return {
      scene: fields.scene.value,
      dist: {
        law: fields.law.value, shape: 10 ** Number(fields.shape.value),
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
    fields.law.value = next.dist.law;
    if (laws[next.dist.law].shape !== null) fields.shape.value = Math.log10(next.dist.shape);
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
      next.dist.shape = name === "law" ? laws[next.dist.law].shape
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
      `&scale=${short(s.scale)}&scene=${encodeURIComponent(s.scene)}`;
  }

  // What an address says; where it says nothing or nonsense, the default.
  function fromAddress(text) {
    const said = new URLSearchParams(text);
    const scale = Number(said.get("scale"));
    return {
      scene: said.get("scene") in scenes ? said.get("scene") : Object.keys(scenes)[0],
      dist: readDistribution(said.get("dist") ?? "") ?? readDistribution("uniform"),
      tconorm: readTConorm(said.get("tconorm") ?? "") ?? readTConorm("probabilistic"),
      scale: scale > 0 && scale <= 100 ? scale : 0.1,
    };
  }

  function draw() {
    const {dist, tconorm, scale, scene} = state;
    const law = laws[dist.law], family = families[tconorm.family];
    find('[data-of="law"]').textContent = `F(z) = ${law.formula}`;
    find('[data-of="family"]').textContent = `⊥(a, b) = ${family.formula}`;
    const slider = (name, there, value) => {
      const label = fields[name].closest("label");
      label.hidden = !there;
      label.querySelector("output").textContent = short(value ?? 0);
    };
    slider("shape", law.shape !== null, dist.shape);
    slider("p", family.p !== null, tconorm.p);
    slider("scale", true, scale);
    find(".explorer-code code").textContent =
      `renderer = gendr.Renderer(dist="${distributionText(dist)}", ` +
      `tconorm="${tconormText(tconorm)}", scale=${short(scale)})`;
    drawCdf(dist, scale);
    drawJoin(tconorm);
    drawPicture(state, scenes[scene], ++drawing);
  }

  // In slices, so that the page stays quick, and coarse first: a law with heavy tails meets every
  // pixel with every face.
  function drawPicture(member, triangles, number) {
    const start = performance.now();
    const sizes = [SIZE / 4, SIZE];
    let work = picture(member, triangles, sizes[0]);
    const slice = () => {
      if (number !== drawing) return;
      const end = performance.now() + 25;
      let more = true;
      while (more && performance.now() < end) more = work.step();
      if (!more) {
        show(work.alpha(), sizes.shift());
        if (sizes.length) work = picture(member, triangles, sizes[0]);
      }
      if (sizes.length) { setTimeout(slice); return; }
      root.dataset.drawn = toAddress(member);
      root.dataset.milliseconds = Math.round(performance.now() - start);
    };
    slice();
  }

  function show(alpha, size) {
    shown = {alpha, size};
    const canvas = find(".explorer-picture");
    canvas.width = canvas.height = size;
    const context = canvas.getContext("2d");
    const image = context.createImageData(size, size);
    alpha.forEach((a, k) => {
      const grey = Math.round(255 * (1 - a));
      image.data.set([grey, grey, grey, 255], 4 * k);
    });
    context.putImageData(image, 0, 0);
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
    const F = coverage(dist, scale);
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

  const canvas = find(".explorer-picture");
  canvas.addEventListener("pointermove", (event) => {
    if (!shown) return;
    const box = canvas.getBoundingClientRect();
    const {alpha, size} = shown;
    const j = Math.floor((event.clientX - box.left) / box.width * size);
    const i = Math.floor((event.clientY - box.top) / box.height * size);
    const a = alpha[i * size + j];
    if (a !== undefined) find('[data-of="pixel"]').textContent = `Here ${a.toPrecision(3)}.`;
  });
  find(".explorer-code button").addEventListener("click", (event) => {
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
