import { writeFileSync } from 'node:fs'
import { format, resolveConfig } from 'prettier'
import { openApiDocument } from '../src/api/openapi.ts'
import { routes } from '../src/api/routes/index.ts'

/* Writes docs/openapi.json from the schemas that validate; a test holds the two together. */

const path = new URL('../docs/openapi.json', import.meta.url)
const options = { ...(await resolveConfig(path)), parser: 'json' }
writeFileSync(path, await format(JSON.stringify(openApiDocument(routes)), options))
console.log(`wrote docs/openapi.json: ${routes.length} routes`)
