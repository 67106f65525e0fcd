import { expect, test } from '@jest/globals'
import { shownOutputs } from '../../support/shell-blocks.ts'
import { readDocsPage } from '../docs-page.ts'

const page = 'docs/files.md'

/** No worker runs here. So this saves what the run of the page would keep in the memory. */
const keepCustomers = `for id in 1001 1002 1003 1004 1005 1006; do
  api $MEMBER PUT /memory/customers%2F$id -d '{"value": "a name", "labels": ["internal", "pii"]}' >/dev/null
done`

test('the page’s commands do what it says', async () => {
  const ran = await readDocsPage(page, { after: [keepCustomers], last: 'Clean up' })
  const kept = ran.splice(-2, 1)
  expect([kept, ran]).toEqual([[''], ['', ...shownOutputs(page)]])
})
