import { expect, test } from '@jest/globals'
import { readDocsPage } from './docs-page.ts'

test('the page’s commands do what it says', async () => {
  const said = await readDocsPage('docs/registry.md')
  expect(said).toEqual([
    '',
    '2',
    '2 fourth quarter\n1\nreports/q3-summary.md',
    '2\n3',
    '2',
    'active\nQuarterly report',
    'reports/q3-summary.md',
    'active\ndeprecated\nthe template is deprecated (the annual report replaces it): use `BETTER` instead',
    'conflict\narchived\nthe template is archived and can no longer be used: use `BETTER` instead\nAnnual report\nAnnual report\nQuarterly report',
  ])
})
