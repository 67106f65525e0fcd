import { expect, test } from '@jest/globals'
import { shownOutputs } from '../support/shell-blocks.ts'
import { readDocsPage } from './docs-page.ts'

const page = 'docs/registry.md'

test('the page’s commands do what it says', async () => {
  expect(await readDocsPage(page)).toEqual(['', ...shownOutputs(page)])
})
