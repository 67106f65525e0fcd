import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { openApiDocument } from '../src/api/openapi.ts'
import { routes } from '../src/api/routes/index.ts'

/* Fails when docs/openapi.json is not what the validating schemas give now. */

const path = new URL('../docs/openapi.json', import.meta.url)
const kept: unknown = JSON.parse(readFileSync(path, 'utf8'))
const now: unknown = JSON.parse(JSON.stringify(openApiDocument(routes)))
if (!isDeepStrictEqual(kept, now)) {
  process.stderr.write('docs/openapi.json is out of date: run `npm run openapi`\n')
  process.exitCode = 1
}
