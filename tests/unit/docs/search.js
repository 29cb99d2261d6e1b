// Search a built site with the theme's own program, as a browser does.
//
//     node search.js SITE QUERY...    prints a JSON list per query: the locations of the found sections, best first

const fs = require("fs"), path = require("path"), vm = require("vm")

const [site, ...queries] = process.argv.slice(2)
const workers = path.join(site, "assets/javascripts/workers")
const program = fs.readdirSync(workers).find((name) => /^search\..*\.js$/.test(name))
const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json")))
const answers = []
let handler
const page = {console, addEventListener: (_, given) => (handler = given), postMessage: (answer) => answers.push(answer)}
page.self = page
vm.runInNewContext(fs.readFileSync(path.join(workers, program), "utf8"), page)

async function main() {
  await handler({data: {type: 0, data: {...index, options: {suggest: true}}}})
  for (const query of queries) {
    await handler({data: {type: 2, data: query}})
    const {items} = answers.pop().data
    const found = items.flat().filter(({score}) => score > 0)
    console.log(JSON.stringify(found.map(({location}) => location)))
  }
}
main()
