import { writeFileSync } from 'node:fs'
import { format, resolveConfig } from 'prettier'
import { openApiDocument } from '../src/api/openapi.ts'
import { routes } from '../src/api/routes/index.ts'
import { attacksPage, attacksPath } from './attacks-page.ts'
import { limitsPage, limitsPath } from './limits-page.ts'
import { auditEventsPage, auditEventsPath } from './audit-events-page.ts'
import { toolsPage, toolsPath } from './tools-page.ts'

/* Writes the pages that are generated from the code and the tests: JSON and Markdown in docs and docs/reference. */

const path = new URL('../docs/openapi.json', import.meta.url)
const options = { ...(await resolveConfig(path)), parser: 'json' }
writeFileSync(path, await format(JSON.stringify(openApiDocument(routes)), options))
console.log(`wrote docs/openapi.json: ${routes.length} routes`)
writeFileSync(auditEventsPath, await auditEventsPage())
console.log('wrote docs/reference/audit-events.md')
writeFileSync(toolsPath, await toolsPage())
console.log('wrote docs/tools.md')
writeFileSync(limitsPath, await limitsPage())
console.log('wrote docs/reference/limits.md')
writeFileSync(attacksPath, await attacksPage())
console.log('wrote docs/agents-reference.md')
