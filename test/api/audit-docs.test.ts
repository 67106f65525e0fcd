import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { shownOutputs } from '../support/shell-blocks.ts'
import { readDocsPage } from './docs-page.ts'

/* Runs the commands of docs/audit-log.md. Numbers, ids and hashes differ from those on the page. */

const page = 'docs/audit-log.md'
const program = join(import.meta.dirname, '../../bin/countersign.js')

/** Equal hashes of one output get the same name. */
function alike(text: string): string {
  const hashes: string[] = []
  return text
    .replaceAll(/\b[0-9a-f]{64}\b|\b[0-9a-f]{4}…/g, (hash) => {
      if (!hashes.includes(hash)) hashes.push(hash)
      return `HASH ${hashes.indexOf(hash)}`
    })
    .replaceAll(/org_\w+…?/g, 'ORGANIZATION')
    .replace(/\d+ entries/, 'N entries')
}

test('the page’s commands do what it says', async () => {
  // The commands run outside the repository, and `npx` finds the command only in the repository.
  const before = `npx() { shift; '${process.execPath}' '${program}' "$@"; }`
  const outputs = await readDocsPage(page, { before })
  expect(outputs.map(alike)).toEqual(['', ...shownOutputs(page).map(alike)])
})
