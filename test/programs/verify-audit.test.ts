import { spawn, spawnSync } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { checkpointKeys } from '../../src/governance/audit/checkpoint.ts'
import { chainStart, sealEntry, type ChainPosition } from '../../src/governance/audit/entry.ts'
import { lineOf } from '../../src/governance/audit/export-lines.ts'
import { projectRoot } from '../../src/shared/project-root.ts'
import { marked, organizationId } from '../governance/audit/chain-fixture.ts'

const keys = checkpointKeys([randomBytes(32)])
const verifierKey = keys.verifierKey(organizationId)
const entries = 60_000
let folder: string
let head: ChainPosition = chainStart
/** A checkpoint of the entries in the first half of the file. */
let middle: string
const at = (name: string) => join(folder, name)

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'verify-audit-'))
  // The file is larger than the memory that the program gets below.
  let lines = ''
  for (let seq = 1; seq <= entries; seq += 1) {
    const entry = sealEntry(organizationId, head, 1, new Date(0), marked('x'.repeat(600)))
    head = { seq, hash: entry.hash }
    lines += `${lineOf(entry)}\n`
    if (seq === entries / 2) middle = keys.sign({ organizationId, ...head })
    if (seq % 1_000 !== 0) continue
    appendFileSync(at('good'), lines)
    lines = ''
  }
  const checkpoint = keys.sign({ organizationId, ...head })
  appendFileSync(at('good'), `${JSON.stringify({ checkpoint, verifier_key: verifierKey })}\n`)
  writeFileSync(at('middle.note'), middle)
  const text = readFileSync(at('good'), 'utf8')
  writeFileSync(at('cut'), text.slice(0, 100_000))
  writeFileSync(at('edited'), text.slice(0, 100_000).replace('"ok"', '"no"'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function run(args: readonly string[], command = ['src/programs/verify-audit.ts']) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...command, ...args], {
    cwd: projectRoot(),
    encoding: 'utf8',
    // Nothing of the service is there: no database, no keys.
    env: { PATH: process.env['PATH'], NODE_OPTIONS: '--max-old-space-size=32' },
  })
  return { status, stdout, stderr }
}

describe('verify-audit', () => {
  test('accepts a file that is larger than its memory', () => {
    expect(readFileSync(at('good')).length).toBeGreaterThan(60 * 1024 * 1024)
    expect(run([at('good'), '--key', verifierKey, '--checkpoint', at('middle.note')])).toEqual({
      status: 0,
      stdout: `valid: ${entries} entries of ${organizationId}, the last with the hash ${head.hash}; signed by the given key\n`,
      stderr: '',
    })
  })

  test('says that the key in the file must be compared', () => {
    const { status, stdout } = run([at('good')])
    expect(status).toBe(0)
    expect(stdout).toContain(
      `signed by the key in the file, which you must compare with the key of your service: ${verifierKey}\n`,
    )
  })

  test.each([
    ['cut', /^not valid: line \d+ is cut, after entry \d+\n$/],
    ['edited', /^not valid: line 1: entry 1 was changed: its hash is \w{64}, and not \w{64}\n$/],
  ])('names the place at which a file was %s', (name, line) => {
    expect(run([at(name)])).toEqual({ status: 1, stdout: expect.stringMatching(line), stderr: '' })
  })

  test('refuses another key', () => {
    const other = checkpointKeys([randomBytes(32)]).verifierKey(organizationId)
    expect(run([at('good'), '--key', other])).toEqual({
      status: 1,
      stdout: 'not valid: the checkpoint in the file: no known key has signed the note\n',
      stderr: '',
    })
  })

  test('shows control characters and marks of direction of a file as codes', () => {
    const entry = JSON.stringify({
      seq: 1,
      organization_id: organizationId,
      prev_hash: '0\u001b[2K\u202e\u0085',
    })
    const raw = entry.replace(/\\u001b/, '\u001b').slice(1)
    const lines = [
      lineOf({
        canonical: JSON.stringify({ seq: '\u202e', organization_id: organizationId }),
        hash: '0'.repeat(64),
      }),
      `{"hash":"${'\u001b'.repeat(64)}",${raw}`,
      `{"hash":"${hash('sha256', entry)}",${entry.slice(1)}`,
    ]
    for (const line of lines) {
      writeFileSync(at('forged'), `${line}\n`)
      const { status, stdout } = run([at('forged')])
      expect(status).toBe(1)
      expect(stdout).toMatch(/^not valid: line 1[\x20-\x7e]+\n$/)
    }
    expect(run([at('forged')]).stdout).toContain('found 0\\u001b[2K\\u202e\\u0085')
    expect(run([at('\u001bx')]).stderr).toMatch(/^error: [\x20-\x7e]+\\u001bx'\n$/)
  })

  test('ends quietly, with its exit code, if nobody reads its output', async () => {
    const child = spawn(process.execPath, ['src/programs/verify-audit.ts', at('edited')], {
      cwd: projectRoot(),
    })
    child.stdout.destroy()
    let errors = ''
    child.stderr.on('data', (data: Buffer) => (errors += data.toString()))
    const [code] = await once(child, 'close')
    expect([code, errors]).toEqual([1, ''])
  })

  test('takes no checkpoint from a device', () => {
    expect(run([at('edited'), '--checkpoint', '/dev/zero'])).toEqual({
      status: 1,
      stdout: 'not valid: `/dev/zero` is not a regular file\n',
      stderr: '',
    })
  })

  test.each([[['missing']], [['good', '--checkpoint', 'missing']]])(
    'names a file that is missing: %j',
    ([file = '', ...more]) => {
      const { status, stdout, stderr } = run([at(file), ...more])
      expect([status, stdout]).toEqual([1, ''])
      expect(stderr).toMatch(/^error: ENOENT: no such file or directory, .*missing'\n$/)
    },
  )

  test.each([[[]], [['a', 'b']], [['a', '--keys', 'b']]])(
    'shows its usage after the arguments %j',
    (args) => {
      expect(run(args)).toMatchObject({
        status: 2,
        stdout: '',
        stderr: expect.stringMatching(/^usage: countersign verify-audit FILE/),
      })
    },
  )
})

describe('the command `countersign`', () => {
  test('runs verify-audit, and passes on its arguments and its exit code', () => {
    const args = [at('edited'), '--key', verifierKey]
    expect(run(['verify-audit', ...args], ['bin/countersign.js'])).toEqual(run(args))
  })

  test('names its programs', () => {
    expect(run(['verify'], ['bin/countersign.js'])).toEqual({
      status: 2,
      stdout: '',
      stderr: 'usage: countersign verify-audit ...\n',
    })
  })

  test('is in package.json', () => {
    const { bin } = JSON.parse(readFileSync(join(projectRoot(), 'package.json'), 'utf8'))
    expect(bin).toEqual({ countersign: 'bin/countersign.js' })
  })
})
