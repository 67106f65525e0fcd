import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { shownOutputs } from '../support/shell-blocks.ts'
import { readDocsPage } from './docs-page.ts'

/* The commands of docs/rules.md. Its rules and their tables of calls are tested in test/docs. */

const page = 'docs/rules.md'

test('the page’s commands do what it says', async () => {
  const [, labelled, tried = '', ...changed] = await readDocsPage(page)
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')
  const said = text.split('```json answer\n')[1]?.split('```')[0] ?? ''
  expect(JSON.parse(tried)).toEqual(JSON.parse(said))
  expect([labelled, ...changed]).toEqual(shownOutputs(page))
})
