import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { readDocsPage } from '../docs-page.ts'

/* The commands of docs/files.md. */

const page = readFileSync(new URL('../../../docs/files.md', import.meta.url), 'utf8')
/** The outputs that the page shows below its commands. */
const shown = [...page.matchAll(/^```sh\n.*?^```\n\n```\n(.*?)^```$/gms)].map(([, output = '']) =>
  output.trim(),
)

test('the page’s commands do what it says', async () => {
  const [, ...outputs] = await readDocsPage('docs/files.md')
  expect(outputs).toHaveLength(4)
  expect(outputs).toEqual(shown)
})
