import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach } from '@jest/globals'
import type { AuditDraft } from '../../src/governance/audit/entry.ts'
import { linesOf, verifyFile, type Trusted } from '../../src/governance/audit/verify-file.ts'
import { asAdmin } from '../support/postgres.ts'
import { addOrganization } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

/* A server that keeps checkpoints, and a new organization with an owner's key for each test. */

export let server: TestServer
export let folder: string
/** The key of an owner of another organization. */
export let owner: string
export let organization: string
export let key: string

export function eachWithLog(): void {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'checkpoints-'))
    server = await startTestServer({ env: { AUDIT_CHECKPOINT_DIR: folder } })
    owner = server.identities.users.owner.api_key
  })
  afterAll(async () => {
    await server?.close()
    rmSync(folder, { recursive: true, force: true })
  })
  beforeEach(async () => {
    const added = await addOrganization(server.context)
    organization = added.id
    key = added.owner.key
  })
}

const draft = (mark: string): AuditDraft => ({
  eventType: 'memory.set',
  action: 'set',
  status: 'ok',
  actor: { type: 'system', id: 'test' },
  metadata: { key: mark },
})

export async function append(count: number, mark = 'm'): Promise<void> {
  await server.context.combiner.run(organization, 'org.change', async (tx) => {
    for (let entry = 0; entry < count; entry += 1) tx.append(draft(mark))
  })
}

export const get = (what: string, by = key) =>
  server.call(by, 'GET', `/organizations/${organization}/audit-events/${what}`)
export const keep = () => server.context.checkpoints.keep()

export async function check(text: string, trusted: Partial<Trusted> = {}) {
  async function* chunks() {
    yield Buffer.from(text)
  }
  return verifyFile(linesOf(chunks()), { keys: [], notes: [], ...trusted })
}

/** Deletes the last entries as a superuser, and sets the head back. */
export const cut = (entries: number): Promise<unknown> =>
  asAdmin(server.adminUrl, async (client) => {
    const { rows } = await client.query('select seq from chain_head where organization_id = $1', [
      organization,
    ])
    const left = Number(rows[0].seq) - entries
    await client.query('alter table audit_events disable trigger all')
    await client.query('delete from audit_events where organization_id = $1 and seq > $2', [
      organization,
      left,
    ])
    await client.query(
      `update chain_head set (seq, hash, mac) =
         (select seq, hash, mac from audit_events where organization_id = $1 and seq = $2)
       where organization_id = $1`,
      [organization, left],
    )
    await client.query('alter table audit_events enable always trigger audit_events_no_edit')
  })
