import { writeFileSync } from 'node:fs'
import { format } from 'prettier'
import { describe } from '../test/support/atlassian/describe.ts'

/* Writes the parts of Atlassian's API descriptions about the requests of Countersign, for the tests' stand-ins. */

for (const name of ['jira', 'trello'] as const) {
  const path = new URL(`../test/support/atlassian/${name}.json`, import.meta.url)
  writeFileSync(path, await format(JSON.stringify(await describe(name)), { parser: 'json', printWidth: 110 }))
}
