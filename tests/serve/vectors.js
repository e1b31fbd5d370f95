"use strict";
// Usage: node vectors.js predictor.js vectors.json: how many rows there are, and which differ.
const [consumer, file] = process.argv.slice(2);
const fedwqcp = require(require("path").resolve(consumer));
const number = (text) => (text === "inf" ? Infinity : text === "-inf" ? -Infinity : text);
let rows = 0;
const differ = [];
for (const [at, it] of JSON.parse(require("fs").readFileSync(file, "utf8")).cases.entries()) {
  const own = fedwqcp.read(JSON.stringify(it.predictor));
  it.outputs.forEach((outputs, row) => {
    const single = Float32Array.from([outputs].flat()); // as onnxruntime-web gives a row
    if (single.every((p, at) => p === outputs[at])) outputs = single;
    const options = { alpha: it.alpha, group: it.groups?.[row], id: it.ids?.[row] };
    let same;
    if (it.sets) {
      const predict = own.score.name === "mask" ? fedwqcp.predictMask : fedwqcp.predictSet;
      const found = predict(own, outputs, options).flatMap((held, label) => (held ? [label] : []));
      same = found.join() === it.sets[row].join();
      same &&= !it.u || fedwqcp.uniform(own.key, options.id) === it.u[row];
    } else {
      const [lower, upper] = fedwqcp.predictInterval(own, outputs, options);
      same = lower === number(it.lower[row]) && upper === number(it.upper[row]);
    }
    rows += 1;
    if (!same) differ.push([at, it.predictor.score.name, row]);
  });
}
console.log(JSON.stringify({ rows, differ }));
