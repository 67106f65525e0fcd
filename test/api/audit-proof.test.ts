import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, jest, test } from '@jest/globals'
import { until } from '../stack/until.ts'
import { asAdmin } from '../support/postgres.ts'
import {
  append,
  check,
  cut,
  eachWithLog,
  folder,
  get,
  keep,
  key,
  organization,
  owner,
  server,
} from './audit-proof-fixture.ts'

eachWithLog()

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

describe('an alarm of a verification', () => {
  test('ends when the log is valid again', async () => {
    await append(3)
    const edit = (from: string, to: string) =>
      asAdmin(server.adminUrl, async (client) => {
        await client.query('alter table audit_events disable trigger all')
        await client.query(
          'update audit_events set canonical = replace(canonical, $2, $3) where organization_id = $1 and seq = 2',
          [organization, from, to],
        )
        await client.query('alter table audit_events enable always trigger audit_events_no_edit')
      })
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
