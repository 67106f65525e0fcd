import { writeFileSync } from 'node:fs'
import { format } from 'prettier'
import { describe } from '../test/support/atlassian/describe.ts'

/*
 * Writes test/support/atlassian/*.json. These files have only the parts of Atlassian's API descriptions that describe
 * Countersign's requests. The tests check the stand-ins for Jira and Trello against these parts.
 */

for (const name of ['jira', 'trello'] as const) {
  const path = new URL(`../test/support/atlassian/${name}.json`, import.meta.url)
  writeFileSync(path, await format(JSON.stringify(await describe(name)), { parser: 'json', printWidth: 110 }))
}
