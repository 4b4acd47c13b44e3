// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
// Asks the search of a site as a reader's browser does: node ask.cjs WORKER INDEX < QUESTIONS
// WORKER is the script of the site's own theme; QUESTIONS is a JSON list. Prints, for each, the pages
// in the order in which the site shows them.
const { readFileSync } = require("node:fs")
const vm = require("node:vm")

const [worker, index] = process.argv.slice(2)
let handle, answer
const scope = {
  console,
  addEventListener: (_, listener) => { handle = listener },
  postMessage: (message) => { answer = message },
}
scope.self = scope
vm.runInNewContext(readFileSync(worker, "utf8"), scope)

const [SETUP, QUERY] = [0, 2]
async function main() {
  const { config, docs } = JSON.parse(readFileSync(index, "utf8"))
  await handle({ data: { type: SETUP, data: { config, docs, options: { suggest: true } } } })
  const hits = []
  for (const question of JSON.parse(readFileSync(0, "utf8"))) {
    await handle({ data: { type: QUERY, data: question } })
    hits.push(answer.data.items.map((page) => page[0].location.split("#")[0]))
  }
  console.log(JSON.stringify(hits))
}
main()
