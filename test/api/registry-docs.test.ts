import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { runBlocks, shellBlocks } from '../support/shell-blocks.ts'
import { startTestServer, type TestServer } from './server.ts'

/* docs/registry.md: its shell blocks after the README's first, which defines what they use. */

let server: TestServer
let folder: string
beforeAll(async () => {
  server = await startTestServer()
  folder = mkdtempSync(join(tmpdir(), 'reader-'))
  mkdirSync(join(folder, '.data'))
  const boot = { base_url: server.base, ...server.identities }
  writeFileSync(join(folder, '.data', 'bootstrap.json'), JSON.stringify(boot))
})
afterAll(async () => {
  await server.close()
  rmSync(folder, { recursive: true })
})

test('the page’s commands do what it says', async () => {
  const [setup = ''] = shellBlocks('README.md', 'A first workflow, with curl')
  const said = await runBlocks([setup, ...shellBlocks('docs/registry.md')], folder)
  expect(said).toEqual([
    '',
    '2',
    '2 fourth quarter\n1\nreports/q3-summary.md',
    '2\n3',
    '2',
    'active\nQuarterly report',
    'reports/q3-summary.md',
    'active\ndeprecated\nthe template is deprecated (quarters are history): use `BETTER` instead',
    'conflict\narchived\nthe template is archived and can no longer be used: use `BETTER` instead\nAnnual report\nAnnual report,Quarterly report',
  ])
})
