import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { openApiDocument } from '../src/api/openapi.ts'
import { routes } from '../src/api/routes/index.ts'
import { attacksPage, attacksPath } from './attacks-page.ts'
import { limitsPage, limitsPath } from './limits-page.ts'
import { auditEventsPage, auditEventsPath } from './audit-events-page.ts'
import { toolsPage, toolsPath } from './tools-page.ts'

/* Fails if a page that is generated from the code is out of date. */

const path = new URL('../docs/openapi.json', import.meta.url)
const kept: unknown = JSON.parse(readFileSync(path, 'utf8'))
const now: unknown = JSON.parse(JSON.stringify(openApiDocument(routes)))
if (!isDeepStrictEqual(kept, now)) {
  process.stderr.write('docs/openapi.json is out of date: run `npm run openapi`\n')
  process.exitCode = 1
}
const pages = [
  ['reference/audit-events.md', auditEventsPath, auditEventsPage],
  ['reference/limits.md', limitsPath, limitsPage],
  ['tools.md', toolsPath, toolsPage],
  ['agents-reference.md', attacksPath, attacksPage],
] as const
for (const [name, place, write] of pages) {
  if (readFileSync(place, 'utf8') === (await write())) continue
  process.stderr.write(`docs/${name} is out of date: run \`npm run openapi\`\n`)
  process.exitCode = 1
}
