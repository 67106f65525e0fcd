import { spawn } from 'node:child_process'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { bin, cli, useFolder } from './run-cli.ts'
import { programEnv } from '../support/program-env.ts'
import { startStandIn, type StandIn } from './stand-in.ts'

/* What the command says if the server is not there, is another one, or refuses: against one that answers what a test says. */

let standIn: StandIn
let url: string
const { folder, put } = useFolder()

beforeAll(async () => {
  standIn = await startStandIn()
  url = standIn.url
})
afterAll(() => standIn?.close())
beforeEach(() => standIn.begin())

const env = () => ({ COUNTERSIGN_URL: url, COUNTERSIGN_API_KEY: 'csk_live_secret', NO_COLOR: '1' })
const refused = (status: number, code: string, message: string, details: object[] = []) =>
  [status, { error: { code, message, details } }] as const

test.each(['SIGINT', 'SIGTERM'] as const)(
  '%s ends the command by this signal, and not with 0',
  async (name) => {
    standIn.answers['GET /me'] = () => {
      child.kill(name)
      return null
    }
    const child = spawn(process.execPath, [bin, 'whoami'], {
      env: { ...programEnv(), ...env() },
      stdio: ['ignore', 'ignore', 'ignore'],
    })
    const ended = await new Promise((resolve) =>
      child.once('exit', (code, signal) => resolve([code, signal])),
    )
    expect(ended).toEqual([null, name])
  },
)

describe('the connection', () => {
  const whoami = (env: Readonly<Record<string, string>>) =>
    cli(['whoami'], { env: { XDG_CONFIG_HOME: folder, ...env } })
  const key = { COUNTERSIGN_API_KEY: 'csk_live_secret' }

  test.each([
    ['no login', {}, /you are not logged in: run `countersign login --server URL`/],
    ['no address', key, /set COUNTERSIGN_URL too/],
    [
      'nobody there',
      { ...key, COUNTERSIGN_URL: 'http://127.0.0.1:65531' },
      /nothing answers at http:\/\/127\.0\.0\.1:65531/,
    ],
    [
      'no such name',
      { ...key, COUNTERSIGN_URL: 'https://nothing.invalid' },
      /the name `nothing\.invalid` is not known/,
    ],
    [
      'a key in the clear',
      { ...key, COUNTERSIGN_URL: 'http://acme.example' },
      /the key would travel in the clear/,
    ],
    ['no address at all', { ...key, COUNTERSIGN_URL: 'acme' }, /`acme` is no address of a server/],
  ])('%s: says what to change', async (_what, env, said) => {
    const { code, stdout, stderr } = await whoami(env)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(said)
    expect(stderr).not.toContain('csk_live')
  })

  test.each([
    ['another site', [200, '<html>'], /is it the address of a Countersign server\?/],
    ['a key that was revoked', refused(401, 'unauthenticated', 'no'), /COUNTERSIGN_API_KEY is wrong, was revoked or has ended/], // prettier-ignore
    [
      'a scope too few',
      refused(403, 'missing_scope', 'no'),
      /make a key with this scope at http.*\/console\/keys/,
    ],
    ['a scope that no key can have', refused(403, 'missing_scope', 'no key of a member can have it: ask an owner'), /^error: no key of a member can have it: ask an owner\n$/], // prettier-ignore
    ['advice of the API', refused(422, 'validation_error', 'no tool; `GET /tools` lists the tools', [{ path: 'call.tool', message: 'no tool; `GET /tools` lists the tools' }]), /^error: no tool; `countersign tools` lists the tools\n$/], // prettier-ignore
    ['an older server', refused(404, 'not_found', 'no route answers `GET /me`'), /the server is older than this command line/], // prettier-ignore
    ['a second factor', refused(403, 'mfa_required', 'needed', [{ path: 'second_factor', message: 'https://acme.example/console/second-factor' }]), /acme\.example\/console\/second-factor/], // prettier-ignore
    [
      'text that a terminal obeys',
      refused(409, 'conflict', 'a\u001b]0;b\u0007\u202e'),
      /a\\u001b\]0;b\\u0007\\u202e/,
    ],
  ] as const)('%s: says what to do', async (_what, answer, said) => {
    standIn.answers['GET /me'] = () => answer
    const { code, stderr } = await whoami({ ...key, COUNTERSIGN_URL: url })
    expect(code).toBe(1)
    expect(stderr).toMatch(said)
  })

  test('a stored key goes to its own server alone, and only if nobody else can read it', async () => {
    const path = join(folder, 'countersign', 'credentials.json')
    put(
      'countersign/credentials.json',
      JSON.stringify({ server: url, api_key: 'csk_live_secret', key_id: 'key_1' }),
    )
    chmodSync(path, 0o644)
    expect((await whoami({})).stderr).toContain('chmod 600')
    chmodSync(path, 0o600)
    expect((await whoami({ COUNTERSIGN_URL: 'https://elsewhere.example' })).stderr).toContain(
      'you are logged in at',
    )
    expect(standIn.sent).toEqual([])
    standIn.answers['GET /me'] = () => [
      200,
      { organization_id: 'org_1', organizations: [], user: { email: 'a@b.test' } },
    ]
    expect((await whoami({})).stdout).toBe(`a@b.test\t\t\torg_1\t${url}\n`)
    expect(standIn.sent[0]?.headers['authorization']).toBe('Bearer csk_live_secret')
  })

  test('a redirect is not followed, because it could lead the key elsewhere', async () => {
    standIn.answers['GET /me'] = () => [302, '']
    expect((await whoami({ ...key, COUNTERSIGN_URL: url })).stderr).toContain(
      'name that address as the server',
    )
  })
})
