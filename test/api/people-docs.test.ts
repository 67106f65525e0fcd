import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { runBlocks, shellBlocks } from '../support/shell-blocks.ts'
import { startTestServer, type TestServer } from './server.ts'

/* docs/people-and-keys.md: its shell blocks after the README's first, which defines what they use. */

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
  const said = await runBlocks([setup, ...shellBlocks('docs/people-and-keys.md')], folder)
  expect(said).toEqual([
    '',
    '',
    'ana@larkspur.example\nAna\nAna: owner, free, personal: true',
    'ana@larkspur.example\ntrue',
    'true\nunauthenticated\nana@larkspur.example',
    'member@countersign.test\nnot_found\nadmin\nana@larkspur.example: owner\nmember@countersign.test: admin',
    'true\nmfa_required',
    'viewer\nconflict\n\nnot_found',
    '0\nneeds the scope `memory:read`\nmissing_scope\n\nunauthenticated',
    'organization.created member.invited member.joined governance.updated member.role_changed member.removed api_key.created api_key.revoked',
  ])
})
