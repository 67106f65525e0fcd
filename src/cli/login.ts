import { hostname } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import { command, type Shared } from './command.ts'
import { accessOf, forget, readStored, serverOf, store } from './credentials.ts'
import { Failure, Refusal } from './failure.ts'
import { ask, createApi } from './http.ts'
import { say, writeJson, writeLine } from './terminal.ts'

export function addLoginCommands(program: Command): void {
  command(program, 'login', 'sign this terminal in with the browser')
    .option(
      '--server <url>',
      'the address of the server (default: COUNTERSIGN_URL, or that of the last login)',
    )
    .action(login)
  command(program, 'logout', 'end the login of this terminal: its key is deleted').action(logout)
}

/** In the words of RFC 8628. The device code is the key, once a person has said yes. */
interface Begun {
  readonly device_code: string
  readonly user_code: string
  readonly verification_uri_complete: string
  readonly expires_in: number
  readonly interval: number
}

async function login(options: Shared & { server?: string }): Promise<void> {
  const named = options.server ?? process.env['COUNTERSIGN_URL'] ?? readStored()?.server
  if (named === undefined) throw new Failure('name the server: `countersign login --server https://HOST`')
  const server = serverOf(named, options.server === undefined ? 'COUNTERSIGN_URL' : '--server')
  const begun = await ask<Begun>(server, 'POST', '/api/auth/terminal/begin', { machine: machineName() })
  say('Open this page, signed in as yourself:')
  say(`  ${begun.verification_uri_complete}`, 'cyan')
  say(`and compare its code with this one: ${begun.user_code}`, 'bold')
  say(`(waiting, at most ${Math.round(begun.expires_in / 60)} minutes)`, 'dim')
  await approved(server, begun)
  const api = createApi({ server, key: begun.device_code, keyId: null })
  const me = await api.call('GET /me')
  store({ server, api_key: begun.device_code, key_id: me.key_id ?? '' })
  const here = me.organizations.find(({ id }) => id === me.organization_id)
  if (options.json === true)
    writeJson({ server, email: me.user.email, organization_id: me.organization_id, key_id: me.key_id })
  else writeLine('logged in', me.user.email, here?.role ?? '', here?.name ?? me.organization_id)
}

/** What the person compares with this machine. */
function machineName(): string {
  const name = hostname()
    .replaceAll(/[^\p{L}\p{N}._-]/gu, ' ')
    .trim()
    .slice(0, 100)
  return name === '' ? 'a terminal' : name
}

async function approved(server: string, begun: Begun): Promise<void> {
  const deadline = Date.now() + begun.expires_in * 1_000
  const interval = Math.min(Math.max(begun.interval, 1), 60) * 1_000
  while (Date.now() < deadline) {
    const status = await stateOf(server, begun.device_code)
    if (status === 'approved') return
    if (status === 'denied') throw new Failure('the login was refused in the browser')
    if (status === 'expired') break
    await delay(interval)
  }
  throw new Failure('nobody has signed this terminal in: run `countersign login` again')
}

/** A refusal for too many questions only delays the next one. */
async function stateOf(server: string, code: string): Promise<string> {
  try {
    const body = { device_code: code }
    return (await ask<{ status: string }>(server, 'POST', '/api/auth/terminal/poll', body)).status
  } catch (error) {
    if (error instanceof Refusal && error.status !== 429) throw error
    if (error instanceof Failure) return 'pending'
    throw error
  }
}

async function logout({ json }: Shared): Promise<void> {
  const known = readStored()
  if (known === null) throw new Failure('this terminal is not logged in')
  const api = createApi(accessOf({ ...process.env, COUNTERSIGN_API_KEY: '', COUNTERSIGN_URL: '' }))
  let isDeleted = true
  try {
    await api.call('DELETE /api-keys/{id}', { params: { id: known.key_id } })
  } catch (error) {
    // A key that is not valid any more needs no end.
    if (!(error instanceof Failure)) throw error
    isDeleted = error instanceof Refusal && error.status === 401
    if (!isDeleted)
      say(`the key was not deleted: ${error.message}; delete it at ${known.server}/console/keys`)
  }
  forget()
  if (json === true) writeJson({ server: known.server, key_deleted: isDeleted })
  else writeLine('logged out', known.server)
}
