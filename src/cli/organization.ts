import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Command } from 'commander'
import type { AnswerOf } from '../api/routes/index.ts'
import { projectRoot } from '../shared/project-root.ts'
import { apiOf, command, organizationOf, type Shared } from './command.ts'
import { accessOf } from './credentials.ts'
import { Failure, Refusal } from './failure.ts'
import { ask, type Api } from './http.ts'
import { ago, confirm, say, toneOf, writeJson, writeLine, writeTable } from './terminal.ts'

export const { version } = createRequire(import.meta.url)(join(projectRoot(), 'package.json')) as {
  version: string
}

export function addOrganizationCommands(program: Command): void {
  command(program, 'whoami', 'print who you are at the server').action(whoami)
  command(program, 'freeze', 'deny every call of runs and agents from now on')
    .requiredOption('--reason <text>', 'why; people read it')
    .option('--off', 'let the rules decide again')
    .option('-y, --yes', 'do not ask before everything stops')
    .action(freeze)
  command(program, 'doctor', 'check the server, the key and the clock').action(doctor)
}

type Me = AnswerOf<'GET /me'>

const hereOf = (me: Me) => me.organizations.find(({ id }) => id === me.organization_id)

async function whoami({ json }: Shared): Promise<void> {
  const api = apiOf()
  const me = await api.call('GET /me')
  if (json === true) return writeJson(me)
  const here = hereOf(me)
  writeLine(me.user.email, here?.role ?? '', here?.name ?? '', me.organization_id, api.server)
}

async function freeze(options: Shared & { reason: string; off?: true; yes?: true }): Promise<void> {
  const isAsked = options.off !== true && options.yes !== true
  if (isAsked && !(await confirm('Deny every call of runs and agents from now on?')))
    throw new Failure('nothing was frozen')
  const api = apiOf()
  const route = options.off === true ? 'POST /organizations/{id}/unfreeze' : 'POST /organizations/{id}/freeze'
  const answer = await api.call(route, {
    params: { id: await organizationOf(api) },
    body: { reason: options.reason },
  })
  if (options.json === true) writeJson(answer)
  else if ('change' in answer)
    say(`it waits for a second person: ${(answer as { change: { id: string } }).change.id}`, 'yellow')
  else writeLine(answer.frozen ? 'frozen' : 'not frozen')
}

interface Check {
  readonly name: string
  readonly state: 'ok' | 'wrong' | 'unknown'
  readonly said: string
}

const check = (name: string, isOk: boolean, said: string): Check => ({
  name,
  state: isOk ? 'ok' : 'wrong',
  said,
})

/** Exit code 1 if something is wrong. */
async function doctor({ json }: Shared): Promise<void> {
  const { server } = accessOf()
  const checks = [...(await serverChecks(server)), ...(await keyChecks(apiOf()))]
  if (json === true) writeJson(checks)
  else
    writeTable(
      ['CHECK', 'STATE', 'WHAT'],
      checks.map(({ name, state, said }) => [
        name,
        { text: state, style: state === 'wrong' ? 'red' : toneOf(state) },
        said,
      ]),
      '',
    )
  if (checks.some(({ state }) => state === 'wrong')) process.exitCode = 1
}

async function serverChecks(server: string): Promise<Check[]> {
  const asked = Date.now()
  const health = await fetch(`${server}/api/v1/health`, { redirect: 'manual' }).catch(() => null)
  const body = (await health?.json().catch(() => null)) as AnswerOf<'GET /health'> | null | undefined
  if (health === null || body?.checks === undefined) {
    // Throws with the reason and the advice.
    await ask(server, 'GET', '/api/v1/health')
    throw new Failure(`${server} does not answer as a Countersign server does: check the address`)
  }
  const parts = Object.entries(body.checks)
    .filter(([, state]) => state !== 'ok')
    .map(([name, state]) => `${name}: ${state}`)
  const files = (await ask<AnswerOf<'GET /integrations'>>(server, 'GET', '/api/v1/integrations')).files
  const theirs = files[0]?.version ?? 'unknown'
  return [
    check('server', body.status === 'ok', parts.length === 0 ? server : `${server}, ${parts.join(', ')}`),
    check(
      'version',
      theirs === version,
      theirs === version
        ? version
        : `the server has ${theirs} and this command line ${version}: use the same`,
    ),
    clockCheck(health.headers.get('date'), asked),
  ]
}

/** Seconds. Expiries and codes of an app are compared with the clock of the server. */
const mostSkew = 60

function clockCheck(date: string | null, asked: number): Check {
  if (date === null) return { name: 'clock', state: 'unknown', said: 'the server does not say its time' }
  const skew = Math.round((Date.parse(date) - asked) / 1_000)
  const words = `this clock is ${Math.abs(skew)} s ${skew > 0 ? 'behind' : 'ahead of'} that of the server`
  return check('clock', Math.abs(skew) <= mostSkew, Math.abs(skew) <= 1 ? 'as that of the server' : words)
}

async function keyChecks(api: Api): Promise<Check[]> {
  const me = await api.call('GET /me').catch((error: unknown) => {
    if (!(error instanceof Refusal)) throw error
    return error
  })
  if (me instanceof Refusal) return [check('key', false, me.lines.join('; '))]
  const here = hereOf(me)
  const scopes = Object.keys(me.scopes)
  return [
    check(
      'person',
      true,
      `${me.user.email}, ${here?.role ?? 'no member'} of ${here?.name ?? me.organization_id}`,
    ),
    check('scopes', scopes.length > 0, scopes.join(' ')),
    await expiryCheck(api, me.key_id),
  ]
}

async function expiryCheck(api: Api, id: string | null): Promise<Check> {
  const key = id === null ? null : await api.call('GET /api-keys/{id}', { params: { id } }).catch(() => null)
  if (key === null)
    return { name: 'key', state: 'unknown', said: 'it may not read when it ends: its Keys page says it' }
  const said = key.expires_at === null ? 'has no end' : `ends ${ago(key.expires_at)} (${key.expires_at})`
  return check('key', !key.needs_confirmation, key.needs_confirmation ? 'confirm it on the Keys page' : said)
}
