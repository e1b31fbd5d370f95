"use strict";
/* Prediction sets and intervals from a fedwqcp predictor (version 1), as docs/reference/predictor-format.md says.
   One file without dependencies, for browsers (fedwqcp.read) and Node (require). */

const fedwqcp = (() => {
  // ---- the uniform of a row: BLAKE2b (RFC 7693) on 64-bit words

  const MASK = (1n << 64n) - 1n;
  const IV = [
    0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
    0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
  ];
  const SIGMA = [
    "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
    "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
  ].map((row) => [...row].map((digit) => parseInt(digit, 16)));
  const COLUMNS = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]];
  const DIAGONALS = [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];

  function blake2b(data, length, key = new Uint8Array(0)) {
    const h = [...IV];
    h[0] ^= 0x01010000n ^ (BigInt(key.length) << 8n) ^ BigInt(length);
    const padded = key.length ? 128 : 0;
    const bytes = new Uint8Array(padded + data.length);
    bytes.set(key);
    bytes.set(data, padded);
    const turn = (x, by) => (x >> by) | ((x << (64n - by)) & MASK);
    const blocks = Math.max(1, Math.ceil(bytes.length / 128));
    for (let block = 0; block < blocks; block++) {
      const part = new Uint8Array(128);
      part.set(bytes.subarray(128 * block, 128 * (block + 1)));
      const view = new DataView(part.buffer);
      const m = Array.from({ length: 16 }, (_, at) => view.getBigUint64(8 * at, true));
      const v = [...h, ...IV];
      v[12] ^= BigInt(Math.min(bytes.length, 128 * (block + 1)));
      if (block === blocks - 1) v[14] ^= MASK;
      for (let round = 0; round < 12; round++) {
        const order = SIGMA[round % 10];
        [...COLUMNS, ...DIAGONALS].forEach(([a, b, c, d], at) => {
          v[a] = (v[a] + v[b] + m[order[2 * at]]) & MASK;
          v[d] = turn(v[d] ^ v[a], 32n);
          v[c] = (v[c] + v[d]) & MASK;
          v[b] = turn(v[b] ^ v[c], 24n);
          v[a] = (v[a] + v[b] + m[order[2 * at + 1]]) & MASK;
          v[d] = turn(v[d] ^ v[a], 16n);
          v[c] = (v[c] + v[d]) & MASK;
          v[b] = turn(v[b] ^ v[c], 63n);
        });
      }
      for (let at = 0; at < 8; at++) h[at] ^= v[at] ^ v[at + 8];
    }
    const out = new DataView(new ArrayBuffer(64));
    h.forEach((word, at) => out.setBigUint64(8 * at, word, true));
    return new Uint8Array(out.buffer, 0, length);
  }

  const utf8 = (text) => new TextEncoder().encode(text);

  function uniform(key, id) {
    const salt = blake2b(utf8(`str:${key}`), 16);
    const hash = new DataView(blake2b(utf8(String(id)), 8, salt).slice().buffer).getBigUint64(0, true);
    return Number(hash >> 11n) * 2 ** -53;
  }

  // ---- where labels stand

  function byMass(values) {
    return values.map((_, label) => label).sort((a, b) => values[b] - values[a] || a - b);
  }

  function byBlock(values) {
    const mode = byMass(values)[0];
    let [low, high] = [mode - 1, mode + 1];
    const order = [mode];
    const at = (label) => (label < 0 || label >= values.length ? -1 : values[label]);
    while (order.length < values.length) order.push(at(low) >= at(high) ? low-- : high++);
    return order;
  }

  function places(values, order, single) {
    const labels = values.length;
    let mass = 0;
    return order.map((label, at) => {
      const own = single ? values[label] : Math.min(values[label], 1);
      const before = single ? mass : Math.min(mass, 1);
      mass = single ? Math.fround(mass + own) : mass + own;
      const upto = single ? mass : at === labels - 1 ? 1 : Math.min(mass, 1);
      return { label, before, upto, rank: at + 1, top: Math.min(values[order[0]], 1) };
    });
  }

  const FORMULAS = {
    aps: (place, u) => place.before + u * (place.upto - place.before),
    raps: (place, u, { penalty, k_reg }) =>
      FORMULAS.aps(place, u) + penalty * Math.max(0, place.rank - k_reg),
    saps: (place, u, { penalty }) =>
      place.rank === 1 ? u * place.top : place.top + (place.rank - 2 + u) * penalty,
    "ordinal-aps": (place, u) => FORMULAS.aps(place, u),
  };

  function setOf(p, q, u, rule, { name, settings }) {
    const within = (label) => q[q.length > 1 ? label : 0];
    if (name === "lac" || name === "multi-label") {
      const mask = p.map((each, label) => Math.max(0, 1 - each) <= within(label));
      if (rule !== "leq") mask[byMass(p)[0]] = true;
      return mask;
    }
    const single = settings.precision === "float32";
    const values = p.map((each) => (single ? Math.fround(each) : each + 1 - 1));
    const order = name === "ordinal-aps" ? byBlock(values) : byMass(values.map((each) => single ? each : Math.min(each, 1)));
    const mask = new Array(p.length).fill(false);
    for (const place of places(values, order, single)) {
      const previous = { ...place, upto: place.before, rank: place.rank - 1 };
      mask[place.label] =
        FORMULAS[name](place, u, settings) <= within(place.label) ||
        (rule !== "leq" && place.rank === 1) ||
        (rule === "until" && FORMULAS[name](previous, 1, settings) < within(place.label));
    }
    return mask;
  }

  // ---- intervals

  const bits = new DataView(new ArrayBuffer(8));

  function next(x, up) {
    if (x === 0) return up ? Number.MIN_VALUE : -Number.MIN_VALUE;
    bits.setFloat64(0, x);
    bits.setBigInt64(0, bits.getBigInt64(0) + (x > 0 === up ? 1n : -1n));
    return bits.getFloat64(0);
  }

  function distance(base, y) {
    const d = y - base;
    return base + d < y ? next(d, true) : d;
  }

  function reach(base, q) {
    const y = base + q;
    return distance(base, y) > q ? next(y, false) : y;
  }

  function stretch(q, scale) {
    const length = q * scale;
    const r = length / scale;
    return (r * scale < length ? next(r, true) : r) > q ? next(length, false) : length;
  }

  function intervalOf(row, q, { name, settings }) {
    const [first, second = first] = row;
    let [low, high, qLow, qHigh] = [first, first, q[0], q[q.length - 1]];
    if (name === "normalized-residual") {
      [qLow, qHigh] = [qLow, qHigh].map((each) => stretch(each, Math.max(second, settings.floor)));
    } else if (name === "cqr") {
      [low, high] = [Math.min(first, second), Math.max(first, second)];
    }
    return [-reach(-low, qLow), reach(high, qHigh)];
  }

  // ---- a predictor

  const FIELDS = [
    "kind", "agent", "score", "levels", "guarantee", "promise", "assumption", "method", "round", "rule", "key",
    "n_classes", "classes", "by", "groups", "provenance", "version",
  ];
  const INTERVALS = ["absolute-residual", "normalized-residual", "cqr"];
  const TOLERANCE = 5e-3;
  const OTHERS = "others"; // rows in none of several groups
  const BINS = 1000;

  function refuse(why) {
    throw new Error(why);
  }

  /** Read a predictor from the text of its file. */
  function read(text) {
    const own = JSON.parse(text);
    if (own === null || own.kind !== "predictor" || own.version !== 1) refuse("this is no predictor of version 1");
    const unknown = Object.keys(own).filter((name) => !FIELDS.includes(name));
    if (unknown.length) refuse(`unknown field ${unknown[0]}`);
    const known = ["lac", "multi-label", "mask", ...Object.keys(FORMULAS), ...INTERVALS];
    if (!known.includes(own.score.name)) refuse(`unknown score ${own.score.name}`);
    if (!["leq", "leq_top1", "until"].includes(own.rule)) refuse(`unknown rule ${own.rule}`);
    if (![null, "label", "group"].includes(own.by)) refuse(`unknown groups ${own.by}`);
    return own;
  }

  /** Tell whether the last day has passed until which a predictor is valid. */
  function expired(own, now = new Date()) {
    const until = own.provenance.valid_until;
    return until !== undefined && now.toISOString().slice(0, 10) > until;
  }

  function thresholds(own, alpha, group) {
    const level = alpha === undefined && own.levels.length === 1
      ? own.levels[0] : own.levels.find((each) => each.alpha === alpha);
    if (!level) refuse(`the level must be one of ${own.levels.map((each) => each.alpha).join(", ")}`);
    if ((own.by === "group") !== (group !== undefined)) refuse("a group must be given by group, and only there");
    const names = group === undefined ? [] : [group].flat().map(String);
    const places = (names.length ? names : [OTHERS]).map((name) => own.groups.indexOf(name));
    if (group !== undefined && places.includes(-1)) refuse(`the group must be one of ${own.groups.join(", ")}`);
    const rows = level.thresholds.map((row) => row.map((q) => (q === "inf" ? Infinity : q)));
    if (group === undefined) return rows[0];
    return rows[0].map((_, column) => Math.max(...places.map((at) => rows[at][column])));
  }

  function checkModel(own, model) {
    if (model !== undefined && model !== own.provenance.model) {
      refuse(`the predictor is for ${own.provenance.model || "no model in particular"}, not for ${model}`);
    }
  }

  /** Return a row as an array of numbers; a Float32Array would round what is computed from it. */
  function rowOf(values, width) {
    const row = typeof values === "number" ? [values] : Array.from(values);
    if (!row.every(Number.isFinite)) refuse("every column must be a number");
    if (width !== null && row.length !== width) refuse(`there must be ${width} numbers, got ${row.length}`);
    return row;
  }

  /** Return which labels the set of one row holds, as an array of booleans. */
  function predictSet(own, probs, { id, alpha, group, allowEmpty = true, model } = {}) {
    checkModel(own, model);
    const { name, settings } = own.score;
    if (INTERVALS.includes(name) || name === "mask") refuse("this predictor makes no sets");
    const p = rowOf(probs, own.n_classes);
    if (!p.every((each) => each >= 0 && each <= 1 + TOLERANCE)) refuse("a probability lies between 0 and 1");
    const sum = p.reduce((total, each) => total + each, 0);
    if (name !== "multi-label" && !(Math.abs(sum - 1) <= TOLERANCE)) refuse(`probabilities must sum to 1, got ${sum}`);
    const named = Number.isSafeInteger(id) || (typeof id === "string" && id !== "" && !/\p{Surrogate}/u.test(id));
    if (settings.randomized && !named) refuse("a row needs its id, text or an integer");
    const u = settings.randomized ? uniform(own.key, id) : 1;
    const rule = own.rule === "leq" && !allowEmpty ? "leq_top1" : own.rule;
    return setOf(p, thresholds(own, alpha, group), u, rule, own.score);
  }

  /** Return both ends of the interval of one row: a number, or two, as the score reads them. */
  function predictInterval(own, outputs, { alpha, group, model } = {}) {
    checkModel(own, model);
    const { name } = own.score;
    if (!INTERVALS.includes(name)) refuse("this predictor makes sets of labels");
    const row = rowOf(outputs, name === "absolute-residual" ? 1 : 2);
    if (name === "normalized-residual" && row[1] < 0) refuse("a spread is at least 0");
    return intervalOf(row, thresholds(own, alpha, group), own.score);
  }

  /** Return which pixels of one image its mask holds; probabilities in any order. */
  function predictMask(own, probs, { alpha, group, model } = {}) {
    checkModel(own, model);
    if (own.score.name !== "mask") refuse("this predictor makes no masks");
    if (!probs.every((p) => p >= 0 && p <= 1)) refuse("a probability lies between 0 and 1");
    const [q] = thresholds(own, alpha, group);
    return Array.from(probs, (p) => Math.ceil((1 - p) * BINS) / BINS <= q);
  }

  return { read, expired, predictSet, predictInterval, predictMask, uniform, blake2b };
})();

if (typeof module !== "undefined") module.exports = fedwqcp;
