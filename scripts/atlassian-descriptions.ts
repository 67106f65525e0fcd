import { writeFileSync } from 'node:fs'
import { format } from 'prettier'
import { describe } from '../test/support/atlassian/describe.ts'

/*
 * Writes test/support/atlassian/*.json: the parts of Atlassian's API descriptions that describe Countersign's requests.
 * The tests check their stand-ins with them.
 */

for (const name of ['jira', 'trello'] as const) {
  const path = new URL(`../test/support/atlassian/${name}.json`, import.meta.url)
  writeFileSync(path, await format(JSON.stringify(await describe(name)), { parser: 'json', printWidth: 110 }))
}
