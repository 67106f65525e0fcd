import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { type AuditDraft, sealEntry } from '../../../src/governance/audit/entry.ts'
import { linesOf, type Trusted, verifyFile } from '../../../src/governance/audit/verify-file.ts'
import { asAdmin } from '../../support/postgres.ts'
import { until } from '../../stack/until.ts'
import { addOrganization } from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'

/* A server that keeps checkpoints, and a new organization with an owner's key for each test. */

let server: TestServer
let folder: string
/** The key of an owner of another organization. */
let owner: string
let organization: string
let key: string

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

const draft = (mark: string): AuditDraft & { readonly status: string } => ({
  eventType: 'memory.set',
  action: 'set',
  status: 'ok',
  actor: { type: 'system', id: 'test' },
  metadata: { key: mark },
})

async function append(count: number, mark = 'm'): Promise<void> {
  await server.context.combiner.run(organization, 'org.change', async (tx) => {
    for (let entry = 0; entry < count; entry += 1) tx.append(draft(mark))
  })
}

const get = (what: string, by = key) =>
  server.call(by, 'GET', `/organizations/${organization}/audit-events/${what}`)
const keep = () => server.context.checkpoints.keep()

async function check(text: string, trusted: Partial<Trusted> = {}) {
  async function* chunks() {
    yield Buffer.from(text)
  }
  return verifyFile(linesOf(chunks()), { keys: [], notes: [], ...trusted })
}

/** Changes entries as a superuser, whom the triggers do not stop. */
const tamper = (sql: string, values: readonly unknown[]): Promise<unknown> =>
  asAdmin(server.adminUrl, async (client) => {
    await client.query('alter table audit_events disable trigger all')
    await client.query(sql, [...values])
    await client.query('alter table audit_events enable always trigger audit_events_no_edit')
  })

/** Deletes the last entries as a superuser, and sets the head back. */
async function cut(entries: number): Promise<void> {
  const { pool } = server.context
  const { rows } = await pool.query('select seq from chain_head where organization_id = $1', [organization])
  const left = Number(rows[0].seq) - entries
  await tamper('delete from audit_events where organization_id = $1 and seq > $2', [organization, left])
  await tamper(
    `update chain_head set (seq, hash, mac) =
       (select seq, hash, mac from audit_events where organization_id = $1 and seq = $2)
     where organization_id = $1`,
    [organization, left],
  )
}

/** Returns the state of the audit logs in `/health`, and the number of logs in alarm in the metrics. */
async function alarm(): Promise<readonly [health: string, logs: number]> {
  const health = (await server.call(null, 'GET', '/health')).body.checks.audit
  const text = await server.context.metrics.text()
  return [health, Number(/^countersign_audit_logs_in_alarm\{[^}]*\} (\d+)$/m.exec(text)?.[1])]
}

describe('the checkpoint', () => {
  test('is a signed note of the present head', async () => {
    await append(3)
    const { head } = (await get('verify')).body
    const { status, headers, text } = await get('checkpoint')
    expect([status, headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8'])
    const hash = Buffer.from(head.hash, 'hex').toString('base64')
    const name = `countersign/${organization}`
    expect(text.split(/\S{92}\n$/)).toEqual([`${name}\n${head.seq}\n${hash}\n\n— ${name} `, ''])
    expect(headers.get('x-verifier-key')?.replace(/\+[0-9a-f]{8}\+A\S{43}$/, '')).toBe(name)
  })

  test('is not signed for a log that was cut, which log, health and metrics report at once', async () => {
    await append(9)
    await keep()
    expect(await alarm()).toEqual(['ok', 0])
    await cut(3)
    const error = jest.spyOn(server.context.log, 'error').mockImplementation(() => {})
    const refused = await get('checkpoint')
    expect([refused.status, refused.body.error.code]).toEqual([409, 'conflict'])
    expect(refused.body.error.message).toMatch(
      /because the chain is cut: its kept checkpoint has \d+ entries/,
    )
    expect((await get('verify')).body).toMatchObject({
      valid: false,
      first_mismatch: { id: null, reason: 'checkpoint' },
    })
    expect(error.mock.calls).toEqual([
      [{ organization_id: organization }, expect.stringMatching(/^ALARM: .* the chain is cut/)],
    ])
    error.mockRestore()
    expect(await alarm()).toEqual(['alarm', 1])
    server.context.auditAlarms.settle(organization, 'end')
  })

  test('that cannot be read says nothing about the log', async () => {
    await append(1)
    writeFileSync(join(folder, organization), 'a file in place of the folder')
    for (const what of ['verify', 'checkpoint', 'export'])
      expect(await get(what)).toMatchObject({
        status: 503,
        body: { error: { code: 'unavailable', message: expect.stringContaining('(ENOTDIR)') } },
      })
    expect(await alarm()).toEqual(['ok', 0])
    rmSync(join(folder, organization))
    expect((await get('verify')).body.valid).toBe(true)
  })
})

describe('an alarm', () => {
  test('stops the writes of the organization with 503, if an entry was added without the service', async () => {
    // Everybody who has the application's database password could add an entry that continues the chain.
    const { pool } = server.context
    const { rows } = await pool.query('select seq, hash from chain_head where organization_id = $1', [organization]) // prettier-ignore
    const head = { seq: Number(rows[0].seq), hash: String(rows[0].hash) }
    const { seq, canonical, hash } = sealEntry(organization, head, 1, new Date(), draft('foreign'))
    await pool.query('insert into audit_events (canonical, hash) values ($1, $2)', [canonical, hash])
    const error = jest.spyOn(server.context.log, 'error').mockImplementation(() => {})
    const path = `/organizations/${organization}/governance`
    const save = () => server.call(key, 'PATCH', path, { approval_threshold: 2 })
    const refused = {
      code: 'unavailable',
      message: expect.stringContaining('an operator must verify the log'),
    }
    for (const answer of [...(await Promise.all([save(), save(), save()])), await save()])
      expect(answer).toMatchObject({ status: 503, body: { error: refused } })
    expect(error.mock.calls).toEqual([
      [{ organization_id: organization, seq }, expect.stringContaining('ALARM')],
    ])
    const { status, checks } = (await server.call(null, 'GET', '/health')).body
    expect([status, checks.audit]).toEqual(['degraded', 'alarm'])
    const { id } = JSON.parse(canonical) as { id: string }
    expect((await get('verify')).body).toMatchObject({
      valid: false,
      first_mismatch: { seq, id, reason: 'foreign' },
    })
    // Other organizations write as before.
    const { id: other } = await addOrganization(server.context)
    await server.context.combiner.run(other, 'org.change', async (tx) => tx.append(draft('m')))
    error.mockRestore()
    server.context.auditAlarms.settle(organization, 'verify')
    server.context.auditAlarmAt = null
  })

  test('of a verification ends when the log is valid again', async () => {
    await append(3)
    const edit = (from: string, to: string) =>
      tamper(
        'update audit_events set canonical = replace(canonical, $2, $3) where organization_id = $1 and seq = 2',
        [organization, from, to],
      )
    const error = jest.spyOn(server.context.log, 'error').mockImplementation(() => {})
    await edit('"status":"ok"', '"status":"no"')
    expect((await get('verify')).body.first_mismatch).toMatchObject({ seq: 2, reason: 'hash' })
    expect(error.mock.calls).toEqual([
      [{ organization_id: organization }, expect.stringMatching(/^ALARM: .* entry 2 \(hash\): expected /)],
    ])
    error.mockRestore()
    // The end of the log is right, and says nothing about entry 2.
    expect((await get('checkpoint')).status).toBe(200)
    expect(await alarm()).toEqual(['alarm', 1])
    await edit('"status":"no"', '"status":"ok"')
    expect((await get('verify')).body.valid).toBe(true)
    expect(await alarm()).toEqual(['ok', 0])
  })
})

describe('an export', () => {
  test('has every entry as the log lists it, and is valid with the key and a kept checkpoint', async () => {
    await append(300)
    await keep()
    const [file = ''] = readdirSync(join(folder, organization))
    const note = { name: file, text: readFileSync(join(folder, organization, file), 'utf8') }
    await append(300)
    const { headers, text } = await get('export')
    expect(headers.get('content-type')).toBe('application/x-ndjson; charset=utf-8')
    const entries = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    const { checkpoint, verifier_key: verifierKey } = entries.pop()
    const { events } = (
      await server.call(key, 'GET', `/organizations/${organization}/governance/audit?per_page=200`)
    ).body
    expect(entries.slice(-200)).toEqual(events.toReversed())
    expect(entries.map(({ seq }) => seq)).toEqual(entries.map((_, index) => index + 1))
    expect(checkpoint).toBe((await get('checkpoint')).text)
    expect(verifierKey).toBe(headers.get('x-verifier-key'))
    const result = await check(text, { keys: [verifierKey], notes: [note] })
    expect(result).toMatchObject({ organizationId: organization, entries: entries.length })
  })

  test('ends at one head, although entries are appended meanwhile', async () => {
    await append(600)
    let writing = true
    let written = 0
    const writer = (async () => {
      for (; writing; written += 1) await append(20)
    })()
    const texts = []
    for (let round = 0; round < 5; round += 1) {
      const before = written
      texts.push((await get('export')).text)
      await until('the log grows', async () => written > before)
    }
    writing = false
    await writer
    const sizes = []
    for (const text of texts) sizes.push((await check(text)).entries)
    expect(sizes).toEqual(sizes.toSorted((a, b) => a - b))
    expect(sizes.at(-1)).toBeGreaterThan(sizes[0] ?? 0)
  })

  test('of a log that was cut has the kept checkpoint, so its check fails', async () => {
    await append(9)
    await keep()
    await cut(3)
    const { status, text } = await get('export')
    expect(status).toBe(200)
    await expect(check(text)).rejects.toThrow(/is missing: the checkpoint in the file has \d+ entries/)
  })

  test('is refused if the kept checkpoint cannot be used', async () => {
    await append(2)
    await keep()
    const [file = ''] = readdirSync(join(folder, organization))
    writeFileSync(join(folder, organization, file), 'x')
    expect((await get('export')).body.error).toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('cannot be used: the text is not a signed note'),
    })
  })

  test('is not sent to another organization', async () => {
    for (const what of ['export', 'checkpoint']) expect((await get(what, owner)).status).toBe(404)
  })
})

test.each(['checkpoint', 'export'])(
  'HEAD of the %s sends the headers of GET, without a body',
  async (what) => {
    await append(9)
    const send = (method: string) =>
      fetch(`${server.base}/organizations/${organization}/audit-events/${what}`, {
        method,
        headers: { authorization: `Bearer ${key}` },
      })
    const [got, asked] = [await send('GET'), await send('HEAD')]
    expect(await asked.text()).toBe('')
    for (const name of ['content-type', 'x-verifier-key']) {
      expect(got.headers.get(name)).not.toBeNull()
      expect([asked.status, name, asked.headers.get(name)]).toEqual([200, name, got.headers.get(name)])
    }
    if (what === 'export') return
    await keep()
    await cut(3)
    expect((await send('HEAD')).status).toBe(409)
  },
)

describe('a slow reader of a large export', () => {
  /** Opens an export and reads nothing of it. */
  async function open(): Promise<{ status: number; leave: () => void; rest: () => Promise<string> }> {
    const abort = new AbortController()
    const path = `/organizations/${organization}/audit-events/export`
    const answer = await fetch(`${server.base}${path}`, {
      headers: { authorization: `Bearer ${key}`, connection: 'close' },
      signal: abort.signal,
    })
    return { status: answer.status, leave: () => abort.abort(), rest: () => answer.text() }
  }

  /** Adds long entries. The buffers between server and client cannot take all of them. */
  const appendLarge = async (): Promise<void> => {
    for (let part = 0; part < 8; part += 1) await append(250, 'x'.repeat(8_000))
  }
  const pool = () => server.context.pool
  const areIdle = (): boolean => pool().idleCount === pool().totalCount && pool().waitingCount === 0

  test('holds no connection, pages wait for it, and others of the organization are refused', async () => {
    await appendLarge()
    const executed = jest.spyOn(pool(), 'connect')
    const [first, second] = [await open(), await open()]
    expect([first.status, second.status]).toEqual([200, 200])
    // The server reads pages until the buffers of the connections are full. Then it reads nothing.
    let reads = -1
    await until('no page is read', async () => {
      const before = reads
      reads = executed.mock.calls.length
      for (let turn = 0; turn < 200; turn += 1) await nextTurn()
      return before === reads && areIdle()
    })
    executed.mockRestore()
    const third = await get('export')
    expect([third.status, third.headers.get('retry-after')]).toEqual([429, '10'])
    second.leave()
    const text = await first.rest()
    await check(text)
    expect(text.length).toBeGreaterThan(16_000_000)
    await until('the places are free again', async () => (await open()).status === 200)
  })
})

test('a fast reader who loses the rights gets no more pages', async () => {
  for (let part = 0; part < 8; part += 1) await append(250)
  const { checkpoints, pool } = server.context
  const [end, connect] = [checkpoints.end.bind(checkpoints), pool.connect.bind(pool)]
  const now = performance.now.bind(performance)
  let pages = -Infinity
  jest.spyOn(checkpoints, 'end').mockImplementation(async (of) => {
    const found = await end(of)
    pages = 0
    return found
  })
  jest.spyOn(pool, 'connect').mockImplementation((async () => {
    pages += 1
    if (pages === 3) {
      await asAdmin(server.adminUrl, (client) =>
        client.query('update api_keys set revoked_at = now() where organization_id = $1', [organization]),
      )
      // The rights are checked again when a second has gone by.
      jest.spyOn(performance, 'now').mockImplementation(() => now() + 5_000)
    }
    return connect()
  }) as never)
  try {
    await expect(get('export')).rejects.toThrow()
  } finally {
    jest.restoreAllMocks()
  }
})
