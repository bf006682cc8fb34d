// What the search of a built site finds: node search.js SITE QUERY...
//
// The site's own worker answers, as in a browser. Prints the address of the first hit of each query.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [site, ...queries] = process.argv.slice(2);
const folder = path.join(site, "assets", "javascripts", "workers");
const file = fs.readdirSync(folder).find((name) => /^search\..*\.js$/.test(name));
const listeners = [];
let reply = null;
const worker = {
  URL, Intl, Promise, setTimeout, clearTimeout,
  addEventListener: (type, listener) => { if (type === "message") listeners.push(listener); },
  postMessage: (message) => reply(message),
  importScripts: () => {},
};
worker.self = worker;
vm.createContext(worker);
vm.runInContext(fs.readFileSync(path.join(folder, file), "utf8"), worker);

function ask(type, data) {
  return new Promise((done) => {
    reply = done;
    for (const listener of listeners) listener({ data: { type, data } });
  });
}

async function main() {
  const index = JSON.parse(fs.readFileSync(path.join(site, "search", "search_index.json"), "utf8"));
  await ask(0, { ...index, options: { suggest: false } });
  for (const query of queries) {
    const { data } = await ask(2, query);
    const [first] = [...data.items[0]].sort((a, b) => b.score - a.score);
    console.log(first.location);
  }
}

main();
