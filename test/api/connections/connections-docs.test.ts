import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { emulatorToken, startEmulator } from '../../support/emulators.ts'
import { readDocsPage } from '../docs-page.ts'

/* The commands of docs/connections.md, against a stand-in for GitHub. */

const page = readFileSync(new URL('../../../docs/connections.md', import.meta.url), 'utf8')
/** The outputs that the page shows below its commands. */
const shown = [...page.matchAll(/^```sh\n.*?^```\n\n```\n(.*?)^```$/gms)].map(([, output = '']) =>
  output.trim(),
)

test('the page’s commands do what it says', async () => {
  const github = await startEmulator('github')
  try {
    const before = `GITHUB_URL=${github.url}\nGITHUB_TOKEN=${emulatorToken}`
    const [, ...outputs] = await readDocsPage('docs/connections.md', { before })
    expect(outputs).toHaveLength(5)
    expect(outputs).toEqual(shown)
  } finally {
    await github.close()
  }
})
