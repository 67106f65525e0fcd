import { expect, test } from '@jest/globals'
import { shownOutputs } from '../support/shell-blocks.ts'
import { readDocsPage } from './docs-page.ts'

/* Runs the commands of docs/policies.md. The tables of the page are tested in test/docs. */

const page = 'docs/policies.md'

test('the page’s commands do what it says', async () => {
  expect(await readDocsPage(page)).toEqual(['', ...shownOutputs(page)])
})
