import { afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { ToolName } from '../../src/tools/index.ts'
import { changeQuota } from '../../src/governance/limits/quota.ts'
import { createRule, deleteRule } from '../governance/rules/free-changes.ts'
import { createToolPolicy, deleteToolPolicy } from '../../src/governance/rules/tool-policies.ts'
import { labelRuleInput } from '../../src/governance/rules/rule-kinds.ts'
import type { Restrictions } from '../../src/policy/tool-limits.ts'
import type { Json, JsonObject, Role } from '../../src/policy/types.ts'
import { effectOf, opOf, useEngine, type Engine } from '../governance/runs/engine-fixture.ts'
import { emulatorToken, startEmulator, type Emulator } from '../support/emulators.ts'
import { folderType, type DriveFile } from '../support/google/drive.ts'
import type { GoogleEmulator } from '../support/google/emulator.ts'
import { askSlack } from '../support/slack-emulator.ts'
import { Call, passing } from './faults/call.ts'
import { github } from './services/github.ts'
import { googleDocs, googleSheets } from './services/google.ts'
import { useProxied } from './faults/proxied.ts'
import { once } from './faults/rows.ts'
import type { Ended, FaultService } from './faults/service.ts'
import { slack } from './services/slack.ts'

/*
 * Limits of tool policies that parameters alone cannot keep. For example, a repository was moved, a channel was
 * renamed, or a folder has other readers than its link suggests. Calls go through everything: decision, real client and a
 * server that keeps state.
 */

let engine: Engine
useEngine((started) => (engine = started))
// The runs of these calls never end, and each run keeps its slot.
beforeAll(() => changeQuota(engine.context, engine.caller('owner'), { concurrent_executions: 10_000 }))

const saved: (readonly [ToolName, Role | undefined])[] = []
async function limit(tool: ToolName, restrictions: Restrictions, role?: Role): Promise<void> {
  const body = { tool_name: tool, allowed: null, restrictions, ...(role === undefined ? {} : { role }) }
  await createToolPolicy(engine.context, engine.caller('owner'), body, null)
  saved.push([tool, role])
}
afterEach(async () => {
  for (const [tool, role] of saved.splice(0))
    await deleteToolPolicy(engine.context, engine.caller('owner'), tool, role)
})

const call = (tool: ToolName, params: JsonObject, made: () => Promise<Json[]>) =>
  Call.start({ engine, tool, params, made })
const ended = async (started: Call): Promise<Ended> => (await started.untilOver()).ended()
const failedWith = (error: string): Ended => ({ state: 'failed', made: 0, error })
const denied = expect.objectContaining({ code: 'run_denied' })

/** The service, with a stand-in that is passed to `use`. */
const watched = <Stand extends Emulator>(
  service: FaultService,
  use: (stand: Stand) => void,
  start: () => Promise<Emulator> = () => service.start(),
): FaultService => ({
  ...service,
  async start() {
    const stand = await start()
    use(stand as Stand)
    return stand
  },
})

describe('`allowed_repos`, if the repository was moved', () => {
  let at: Emulator
  const start = () =>
    startEmulator('github', {
      users: [{ login: 'admin' }],
      repos: ['app', 'moved'].map((name) => ({ owner: 'admin', name, auto_init: true })),
    })
  const proxied = useProxied(
    watched<Emulator>(github, (stand) => (at = stand), start),
    () => engine,
  )
  const made = async (): Promise<Json[]> => {
    const headers = { authorization: `Bearer ${emulatorToken}` }
    const answer = await fetch(`${at.url}/repos/admin/moved/issues`, { headers })
    return ((await answer.json()) as { number: number; html_url: string }[]).map(
      ({ number, html_url: url }) => ({ number, url }),
    )
  }

  test.each([301, 302, 307, 308])('a redirect (%i) to its new name is not followed', async (status) => {
    await limit('github_create_issue', { allowed_repos: ['admin/app'] })
    proxied.ofWrites = () => ({ status, headers: { location: `${proxied.url}/repos/admin/moved/issues` } })
    const started = await call('github_create_issue', { repo: 'admin/app', title: 't' }, made)
    expect(await ended(started)).toEqual(failedWith('github_redirected'))
  })

  const newNames = ['admin/moved', 'https://github.com/admin/moved/issues/1']
  test.each(newNames)('its new name %s must be allowed itself', async (repo) => {
    await limit('github_create_issue', { allowed_repos: ['admin/app'] })
    await expect(call('github_create_issue', { repo, title: 't' }, made)).rejects.toEqual(denied)
  })
})

describe('`allowed_channels`, if the channel was renamed', () => {
  let at: Emulator
  useProxied(
    watched<Emulator>(slack, (stand) => (at = stand)),
    () => engine,
  )
  let count = 0
  /** A channel that had another name before. */
  async function renamed() {
    count += 1
    const [before, now] = [`before-${count}`, `now-${count}`]
    const { channel } = await askSlack(at.url, 'conversations.create', { name: before })
    await askSlack(at.url, 'conversations.rename', { channel: channel.id, name: now })
    return { id: channel.id, before, now }
  }
  const sendTo = (channel: string, place: string) =>
    call('slack_send_message', { channel, text: 't' }, async () => {
      const { messages } = await askSlack(at.url, 'conversations.history', { channel: place })
      return messages.filter(({ text }) => text === 't').map(({ ts }) => ({ channel: place, ts }))
    })

  test('its old name does not lead to it, though the policy allows this name', async () => {
    const { id, before } = await renamed()
    await limit('slack_send_message', { allowed_channels: [`#${before}`] })
    expect(await ended(await sendTo(`#${before}`, id))).toEqual(failedWith('slack_not_found'))
  })

  test('its new name and its id must be allowed themselves', async () => {
    const { id, before, now } = await renamed()
    await limit('slack_send_message', { allowed_channels: [`#${before}`] })
    for (const channel of [`#${now}`, id, `https://acme.slack.com/archives/${id}`])
      await expect(sendTo(channel, id)).rejects.toEqual(denied)
  })

  test('its id and its link stay allowed, and no name does', async () => {
    const { id, before, now } = await renamed()
    await limit('slack_send_message', { allowed_channels: [id] })
    expect(await ended(await sendTo(id, id))).toEqual(once)
    for (const channel of [`#${now}`, `#${before}`]) await expect(sendTo(channel, id)).rejects.toEqual(denied)
    expect(await ended(await sendTo(`https://acme.slack.com/archives/${id}`, id))).toMatchObject({
      state: 'completed',
    })
  })

  test('another channel that gets its name gets the messages', async () => {
    const { id, before } = await renamed()
    await limit('slack_send_message', { allowed_channels: [`#${before}`] })
    const { channel } = await askSlack(at.url, 'conversations.create', { name: before })
    expect(channel.id).not.toBe(id)
    expect(await ended(await sendTo(`#${before}`, channel.id))).toEqual(once)
  })
})

const person = (emailAddress: string) => ({ type: 'user', emailAddress })
const inside = [person('ana@acme.example'), person('bo@acme.example'), { type: 'domain', domain: 'acme.example' }] // prettier-ignore
const outsiders = [
  ['a person outside', person('cy@evil.example')],
  ['a group outside', { type: 'group', emailAddress: 'all@evil.example' }],
  ['another domain', { type: 'domain', domain: 'evil.example' }],
  ['everybody with the link', { type: 'anyone' }],
] as const
const acme = { allowed_domains: ['acme.example'] }

describe.each([
  ['docs_create', googleDocs],
  ['sheets_append', googleSheets],
] as const)('`allowed_domains` of %s', (tool, service) => {
  let google: GoogleEmulator
  const proxied = useProxied(
    watched<GoogleEmulator>(service, (stand) => (google = stand)),
    () => engine,
  )
  const share = (permissions: DriveFile['permissions'], more: Partial<DriveFile> = {}) =>
    google.state.files.set(service.place, {
      ...{ id: service.place, name: 'Reports', mimeType: folderType, parents: ['root'], text: '' },
      ...{ appProperties: {}, permissions: permissions ?? [], ...more },
    })

  test.each([{}, { driveId: 'drive-1' }])('lets through what only its domains read: %j', async (where) => {
    await limit(tool, acme)
    share(inside, where)
    expect(await ended(await proxied.start(tool))).toEqual(once)
  })

  describe.each([{}, { driveId: 'drive-1' }])('%j', (where) => {
    test.each(outsiders)('refuses what %s reads', async (_, reader) => {
      await limit(tool, acme)
      share([...inside, reader], where)
      const started = await proxied.start(tool)
      expect(await ended(started)).toEqual(failedWith('readers_outside_policy'))
    })
  })

  test('refuses a place whose readers Google does not show', async () => {
    await limit(tool, acme)
    share(inside, { hidesPermissions: true })
    expect(await ended(await proxied.start(tool))).toEqual(failedWith('google_readers_hidden'))
  })

  test('holds for one role alone, and both for a role and the organization', async () => {
    share([...inside, person('cy@lab.example')])
    await limit(tool, acme, 'admin')
    expect(await ended(await proxied.start(tool))).toEqual(once)
    await limit(tool, { allowed_domains: ['acme.example', 'lab.example'] })
    expect(await ended(await proxied.start(tool))).toEqual(once)
    await limit(tool, acme, 'member')
    expect(await ended(await proxied.start(tool))).toEqual(failedWith('readers_outside_policy'))
  })

  test('is asked again if the policy is saved right before the call is sent', async () => {
    share([...inside, { type: 'anyone' }])
    const started = await proxied.start(tool)
    const answer = await started.attempt(passing(tool, (commit) => limit(tool, acme).then(commit)))
    expect(answer).toBe('over')
    expect(await started.ended()).toEqual(failedWith('readers_outside_policy'))
  })

  test('is asked once Google can be reached again', async () => {
    await limit(tool, acme)
    share([...inside, { type: 'anyone' }])
    let asked = 0
    proxied.ofReads = () => ((asked += 1) === 1 ? { status: 503 } : 'pass')
    expect(await ended(await proxied.start(tool))).toEqual(failedWith('readers_outside_policy'))
  })

  test('does not stop the look for a call that was made before the sharing', async () => {
    await limit(tool, acme)
    share(inside)
    const started = await proxied.start(tool)
    proxied.ofWrites = () => 'lose answer'
    expect(await started.attempt()).toBe('again')
    share([...inside, { type: 'anyone' }])
    expect(await ended(started)).toEqual(once)
  })
})

describe('a label rule on a file', () => {
  let google: GoogleEmulator
  useProxied(
    watched<GoogleEmulator>(googleSheets, (stand) => (google = stand)),
    () => engine,
  )
  const { place } = googleSheets
  const link = `https://docs.google.com/spreadsheets/d/${place}/edit#gid=0`
  const forms = [
    place,
    link,
    `https://docs.google.com/a/acme.example/spreadsheets/u/1/d/${place}`,
    `https://drive.google.com/open?id=${place}`,
    `https://sheets.googleapis.com/v4/spreadsheets/${place}`,
  ]

  test.each(forms.flatMap((ruled) => forms.map((called) => [ruled, called] as const)))(
    'names it as %s, and holds for a call that names it as %s, also in a shared drive',
    async (ruled, called) => {
      google.state.files.set(place, {
        ...{ id: place, name: 'Orders', mimeType: 'x', parents: [], appProperties: {}, text: '' },
        driveId: 'drive-1',
      })
      const params = [{ param: 'spreadsheet', operator: 'equals', value: ruled }]
      const rule = { name: 'salaries', tools: ['sheets_read'], params, add_labels: ['salaries'] }
      const { id } = await createRule(engine.context, 'label_rule', engine.caller('admin'), labelRuleInput.parse(rule)) // prettier-ignore
      try {
        const started = await call('sheets_read', { spreadsheet: called }, async () => [])
        await started.untilOver()
        const effect = await effectOf(engine.context, opOf(started.runId))
        expect([effect?.state, effect?.output_labels]).toEqual(['completed', ['internal', 'salaries']])
      } finally {
        await deleteRule(engine.context, 'label_rule', engine.caller('admin'), id)
      }
    },
  )
})
