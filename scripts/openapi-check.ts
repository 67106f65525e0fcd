import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { openApiDocument } from '../src/api/openapi.ts'
import { routes } from '../src/api/routes/index.ts'
import { generatedPages } from './generated-pages.ts'

/* Fails if a page that is generated from the code is out of date. */

const path = new URL('../docs/openapi.json', import.meta.url)
const kept: unknown = JSON.parse(readFileSync(path, 'utf8'))
const now: unknown = JSON.parse(JSON.stringify(openApiDocument(routes)))
if (!isDeepStrictEqual(kept, now)) {
  process.stderr.write('docs/openapi.json is out of date: run `npm run openapi`\n')
  process.exitCode = 1
}
for (const [name, place, write] of generatedPages) {
  if (readFileSync(place, 'utf8') === (await write())) continue
  process.stderr.write(`docs/${name} is out of date: run \`npm run openapi\`\n`)
  process.exitCode = 1
}
