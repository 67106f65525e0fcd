import { writeFileSync } from 'node:fs'
import { format, resolveConfig } from 'prettier'
import { openApiDocument } from '../src/api/openapi.ts'
import { routes } from '../src/api/routes/index.ts'
import { generatedPages } from './generated-pages.ts'

/* Writes the pages that are generated from the code and the tests: JSON and Markdown in docs and docs/reference. */

const path = new URL('../docs/openapi.json', import.meta.url)
const options = { ...(await resolveConfig(path)), parser: 'json' }
writeFileSync(path, await format(JSON.stringify(openApiDocument(routes)), options))
console.log(`wrote docs/openapi.json: ${routes.length} routes`)
for (const [name, place, text] of generatedPages) {
  writeFileSync(place, await text())
  console.log(`wrote docs/${name}`)
}
