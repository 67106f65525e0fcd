import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { createToolServices } from '../../../src/activities/tool-services.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { catalog } from '../../../src/tools/index.ts'
import { auditOf } from '../../governance/support.ts'
import { emulatorToken, startEmulator, type Emulator } from '../../support/emulators.ts'
import { startGoogle } from '../../support/google/emulator.ts'
import { jiraCredential, jiraWith, startJira } from '../../support/jira-emulator.ts'
import { startScriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { shownOutputs } from '../../support/shell-blocks.ts'
import { startSlack } from '../../support/slack-emulator.ts'
import { startTrello, trelloCredential, trelloWith } from '../../support/trello-emulator.ts'
import { credentialAt } from '../../tools/faults/ask.ts'
import type { FaultService } from '../../tools/faults/service.ts'
import { apart } from '../../tools/faults/services.ts'
import { jira } from '../../tools/services/jira.ts'
import { readDocsPage } from '../docs-page.ts'
import { addKey, addOrganization, addPerson, everyScope } from '../fixtures.ts'
import { startTestServer, type Answer, type TestServer } from '../server.ts'
import { codeOf, placesOf, useServer } from '../use-server.ts'

/* Connections to services with a credential. */

let server: TestServer
let github: Emulator
let scripted: ScriptedServer
const secretToken = 'ghp_4f2ac91be7d05tokenthatnobodymaysee'

const { as, ours, keyOf, personOf } = useServer(async (started) => {
  server = started
  ;[github, scripted] = await Promise.all([startEmulator('github'), startScriptedServer()])
})
beforeEach(async () => {
  await server.context.db.deleteFrom('connections').execute()
  scripted.arrived.length = 0
  scripted.answer = () => ({ status: 200, body: { login: 'octo' } })
})
afterAll(() => Promise.all([github?.close(), scripted?.close()]))

/** Connects GitHub with the token, for this person. */
const connect = (who: BootstrapName, more: object = {}, headers?: Record<string, string>): Promise<Answer> =>
  as(who, 'POST', '/tools/github_list_issues/connect', { ...aConnection(), ...more }, headers)
const aConnection = () => ({
  credential: { token: secretToken, base_url: scripted.url },
  scope: 'personal',
})
const changeFreeze = (verb: 'freeze' | 'unfreeze') =>
  ours('owner', 'POST', `/${verb}`, { reason: 'an incident' })
const list = async (key: string) => (await server.call(key, 'GET', '/connections')).body.data
const toolOf = async (key: string, name = 'github_get_issue') =>
  (await server.call(key, 'GET', `/tools/${name}`)).body

describe('connecting', () => {
  test('a real GitHub API: the account is named, and all tools of the service are connected', async () => {
    expect(await toolOf(keyOf('approver'))).toMatchObject({ needs_connection: true, connected: false })
    const credential = { token: emulatorToken, base_url: github.url }
    const { status, body } = await connect('approver', { credential })
    expect(status).toBe(201)
    const named = { name: 'GitHub (admin)', account: 'admin', last_used_at: null, status: 'active' }
    const id = expect.stringMatching(/^con_/)
    expect(body).toMatchObject({ id, integration: 'github', scope: 'personal', ...named })
    expect(await list(keyOf('approver'))).toEqual([body])
    expect(await toolOf(keyOf('approver'))).toMatchObject({ connected: true })
    expect(await toolOf(keyOf('admin'))).toMatchObject({ connected: false })
  })

  test('asks the service with the credential, once, below its address', async () => {
    const credential = { token: secretToken, base_url: `${scripted.url}/api/v3/` }
    expect((await connect('approver', { credential })).body.account).toBe('octo')
    expect(scripted.arrived).toMatchObject([
      { method: 'GET', path: '/api/v3/user', headers: { authorization: `Bearer ${secretToken}` } },
    ])
  })

  test('for the organization needs an admin and connects everybody', async () => {
    const refused = await connect('member', { scope: 'organization' })
    expect(codeOf(refused)).toBe('403 insufficient_role')
    expect(scripted.arrived).toEqual([])
    const { body } = await connect('admin', { scope: 'organization' })
    expect(body).toMatchObject({ scope: 'organization', owner_id: null })
    for (const name of ['owner', 'member', 'viewer'] as const)
      expect(await toolOf(keyOf(name))).toMatchObject({ connected: true })
  })

  test('is refused while the organization is frozen, and the service is not asked', async () => {
    const { id } = (await connect('admin')).body
    await changeFreeze('freeze')
    scripted.arrived.splice(0)
    try {
      const refused = await connect('admin', { scope: 'organization' })
      expect(codeOf(refused)).toBe('409 conflict')
      expect(refused.body.error.message).toContain('the organization is frozen (an incident)')
      expect(scripted.arrived).toEqual([])
      expect((await as('admin', 'DELETE', `/connections/${id}`)).status).toBe(204)
    } finally {
      await changeFreeze('unfreeze')
    }
  })

  test('is not saved if the organization is frozen when the service answers', async () => {
    const write = async (response: ServerResponse): Promise<void> => {
      await changeFreeze('freeze')
      response.end('{"login":"octo"}')
    }
    scripted.answer = () => ({ status: 200, write: (response) => void write(response) })
    const refused = await connect('admin')
    await changeFreeze('unfreeze')
    expect([refused.status, await list(keyOf('admin'))]).toEqual([409, []])
  })

  test('again replaces the connection of the same scope, and no other', async () => {
    const shared = (await connect('admin', { scope: 'organization' })).body
    const first = (await connect('approver')).body
    const second = (await connect('approver', { name: 'second' })).body
    expect(await list(keyOf('approver'))).toMatchObject([
      { id: second.id, name: 'second', status: 'active' },
      { id: first.id, status: 'revoked' },
      { id: shared.id, status: 'active' },
    ])
    const rows = await server.context.db.selectFrom('connections').selectAll().execute()
    expect(rows.find(({ id }) => id === first.id)?.credential_sealed).toBeNull()
  })

  test('of many at once leaves one connection', async () => {
    await Promise.all(Array.from({ length: 8 }, () => connect('approver')))
    const statuses = (await list(keyOf('approver'))).map(({ status }: { status: string }) => status)
    expect(statuses.filter((status: string) => status === 'active')).toHaveLength(1)
  })

  test('with the same `Idempotency-Key` gives the same connection', async () => {
    const headers = { 'idempotency-key': 'one' }
    const first = await connect('approver', {}, headers)
    const again = await connect('approver', {}, headers)
    expect(again.body).toEqual(first.body)
    expect(await list(keyOf('approver'))).toHaveLength(1)
  })
})

describe('a credential is refused', () => {
  const refusals = [
    [{ status: 401, body: { message: 'Bad credentials' } }, 422, 'validation_error', '401'],
    [{ status: 404, body: 'not here' }, 422, 'validation_error', 'status 404'],
    [{ status: 200, body: '<html>' }, 422, 'validation_error', 'could not be checked'],
    [{ status: 302, headers: { location: 'https://b.example/' } }, 422, 'validation_error', 'redirects'],
    [{ status: 500, body: {} }, 503, 'unavailable', 'try again later'],
    [{ status: 429, headers: { 'retry-after': '17' }, body: {} }, 503, 'unavailable', 'try again later'],
  ] as const
  test.each(refusals)('by %j', async (answer, status, code, words) => {
    scripted.answer = () => answer
    const refused = await connect('approver')
    expect(codeOf(refused)).toBe(`${status} ${code}`)
    expect(refused.body.error.message).toContain(words)
    expect(refused.text).not.toContain(secretToken)
    if (answer.status === 429) expect(refused.headers.get('retry-after')).toBe('17')
    expect(await list(keyOf('approver'))).toEqual([])
  })

  test('unless it is the token of an app, which belongs to no user', async () => {
    scripted.answer = () => ({ status: 403, body: { message: 'Resource not accessible by integration' } })
    expect((await connect('approver')).body).toMatchObject({ account: null, name: 'GitHub' })
  })

  test.each([
    ...[{}, { token: 1 }, { token: 'a\nb' }, { token: 'a b' }].map(
      (each) => [each, 'credential.token'] as const,
    ),
    [{ token: secretToken, pass: 'x' }, 'credential.pass'] as const,
    ...[
      ...['git.acme.com', 'https://u:p@git.acme.com', 'https://git.acme.com?x', 'ftp://git.acme.com'],
      ...['http://git.acme.com', 'https://10.0.0.1', 'https://169.254.169.254/latest'],
    ].map((base_url) => [{ token: secretToken, base_url }, 'credential.base_url'] as const),
  ])('whose form is wrong: %j', async (credential, path) => {
    const refused = await connect('approver', { credential })
    expect(codeOf(refused)).toBe('422 validation_error')
    expect(placesOf(refused)).toContain(path)
    expect(refused.text).not.toContain(secretToken)
  })

  test.each([
    ['memory_get', 400, 'needs no connection'],
    ['file_read', 400, 'connect-installation'],
    ['no_such_tool', 404, 'no tool'],
    ['constructor', 404, 'no tool'],
  ])('for the tool `%s`', async (name, status, words) => {
    const body = { credential: { token: 'x' }, scope: 'personal' }
    const refused = await as('approver', 'POST', `/tools/${name}/connect`, body)
    expect([refused.status, refused.body.error.message]).toEqual([status, expect.stringContaining(words)])
  })
})

describe('a connection', () => {
  /** A new name, and a revocation. */
  const changes = [
    ['PATCH', { name: 'x' }],
    ['DELETE', undefined],
  ] as const

  test('of a person is seen by them and by admins alone', async () => {
    const { id } = (await connect('approver')).body
    const other = await addPerson(server.context, server.identities.organization_id, 'member')
    expect(await list(other.key)).toEqual([])
    expect(await list(keyOf('admin'))).toMatchObject([{ id }])
    for (const [method, body] of changes) {
      const answer = await server.call(other.key, method, `/connections/${id}`, body)
      expect(answer.body.error.message).toBe(`no connection \`${id}\``)
    }
  })

  test('is renamed by its person, not by an admin’s lower colleague', async () => {
    const { id } = (await connect('admin', { scope: 'organization' })).body
    const refused = await as('member', 'PATCH', `/connections/${id}`, { name: 'x' })
    expect(refused.body.error.code).toBe('insufficient_role')
    const renamed = await as('owner', 'PATCH', `/connections/${id}`, { name: '  bots ' })
    expect(renamed.body).toMatchObject({ id, name: 'bots' })
    expect(await list(keyOf('viewer'))).toMatchObject([{ id, name: 'bots' }])
  })

  test('is revoked: its credential is gone, and it stays in the list', async () => {
    const { id } = (await connect('approver')).body
    expect((await as('approver', 'DELETE', `/connections/${id}`)).status).toBe(204)
    expect((await as('approver', 'DELETE', `/connections/${id}`)).status).toBe(204)
    expect(await list(keyOf('approver'))).toMatchObject([{ id, status: 'revoked' }])
    expect(await toolOf(keyOf('approver'))).toMatchObject({ connected: false })
    const row = await server.context.db.selectFrom('connections').selectAll().executeTakeFirstOrThrow()
    expect(row.credential_sealed).toBeNull()
    const renamed = await as('approver', 'PATCH', `/connections/${id}`, { name: 'x' })
    expect(renamed.body.error.code).toBe('conflict')
  })

  describe('of another organization', () => {
    /** Another organization: its owner, and a member who is also a member of our organization. */
    const others = async () => {
      const { id: organizationId, owner } = await addOrganization(server.context)
      const { userId } = personOf('approver')
      const membership = { organization_id: organizationId, user_id: userId, role: 'member' as const }
      await server.context.db.insertInto('memberships').values(membership).execute()
      const both = await addKey(server.context, organizationId, userId, everyScope)
      return { organizationId, stranger: owner.key, both: both.secret, userId }
    }
    const connections = async () => [
      (await connect('admin', { scope: 'organization' })).body.id as string,
      (await connect('approver')).body.id as string,
    ]
    const untouched = () =>
      server.context.db
        .selectFrom('connections')
        .select(['id', 'name', 'status', 'last_used_at'])
        .orderBy('id')
        .execute()

    test('is not seen, renamed, revoked or replaced', async () => {
      const ids = await connections()
      const before = await untouched()
      const { stranger, both } = await others()
      for (const key of [stranger, both]) {
        expect(await list(key)).toEqual([])
        expect(await toolOf(key)).toMatchObject({ connected: false, available: false })
      }
      for (const id of ids)
        for (const [method, body] of changes) {
          const answer = await server.call(stranger, method, `/connections/${id}`, body)
          expect([answer.status, answer.body.error.message]).toEqual([404, `no connection \`${id}\``])
        }
      const here = `organization_id=${server.identities.organization_id}`
      expect((await server.call(stranger, 'GET', `/connections?${here}`)).status).toBe(404)
      const credential = { token: 'other', base_url: scripted.url }
      const connecting = { credential, scope: 'organization' }
      const path = `/tools/github_comment/connect?${here}`
      expect((await server.call(stranger, 'POST', path, connecting)).status).toBe(404)
      expect(await untouched()).toEqual(before)
    })

    test('is used by no run, also not of its person', async () => {
      await connections()
      const before = await untouched()
      const { organizationId, userId } = await others()
      scripted.arrived.length = 0
      const use = (id: string) => {
        const run = { organizationId: id, requester: { userId } }
        return createToolServices(server.context).connection(run, 'github_get_issue', 'github')
      }
      await expect(use(organizationId)).rejects.toMatchObject({ code: 'tool_not_available' })
      expect(await untouched()).toEqual(before)
      expect(scripted.arrived).toEqual([])
      expect((await use(server.identities.organization_id)).credential.token).toBe(secretToken)
    })
  })

  test('ends when its person leaves the organization', async () => {
    const leaver = await addPerson(server.context, server.identities.organization_id, 'admin')
    const path = '/tools/github_list_issues/connect'
    const { id } = (await server.call(leaver.key, 'POST', path, aConnection())).body
    expect((await ours('owner', 'DELETE', `/members/${leaver.userId}`)).status).toBe(204)
    expect(await list(keyOf('owner'))).toMatchObject([{ id, status: 'revoked' }])
  })

  test('is in the audit log with its account, never with its credential', async () => {
    const { id } = (await connect('approver')).body
    await as('approver', 'PATCH', `/connections/${id}`, { name: 'mine' })
    await as('approver', 'DELETE', `/connections/${id}`)
    const entries = await auditOf(server.context, server.identities.organization_id, 3)
    const about = { connection_id: id, integration: 'github', scope: 'personal', account: 'octo' }
    const created = { tool: 'github_list_issues', replaced_id: null }
    expect(entries).toMatchObject([
      { event_type: 'connection.created', metadata: { ...about, ...created } },
      { event_type: 'connection.renamed', metadata: { ...about, name: 'mine' } },
      { event_type: 'connection.revoked', metadata: about },
    ])
    expect(JSON.stringify(entries)).not.toContain(secretToken)
  })
})

/* Each tool that the contract names is tested with a stand-in for its service. */
describe('all tools', () => {
  const stands = new Map<FaultService, Emulator>()
  /** A server that knows the address of Jira's stand-in. */
  let tracked: TestServer
  beforeAll(async () => {
    for (const service of apart) stands.set(service, await service.start())
    tracked = await startTestServer({ env: { TRACKER_BASE_URL: (stands.get(jira) as Emulator).url } })
  })
  afterAll(() => Promise.all([tracked?.close(), ...[...stands.values()].map((each) => each.close())]))

  /** These tools need no external service. Mails go through the mail server of the installation. */
  const ofInstallation = ['file_read', 'memory_get', 'memory_set', 'mail_send']

  interface Tool {
    readonly name: string
    readonly available: boolean
    readonly unavailable_because: string | null
  }
  const toolsOf = async (key: string): Promise<readonly Tool[]> =>
    (await tracked.call(key, 'GET', '/tools?limit=100')).body.data
  const availableTo = async (key: string): Promise<string[]> =>
    (await toolsOf(key)).flatMap(({ name, available }) => (available ? [name] : []))

  test('every tool of the contract is available once its service is connected, and to nobody else', async () => {
    scripted.answer = () => ({ status: 200, body: { results: [] } })
    const { approver, admin } = tracked.identities.users
    const stranger = await addOrganization(tracked.context)
    const before = await toolsOf(approver.api_key)
    expect(before.map(({ name }) => name).toSorted()).toEqual(Object.keys(catalog).toSorted())
    for (const { name, unavailable_because } of before.filter(({ available }) => !available))
      expect(unavailable_because).toContain(`POST /tools/${name}/connect`)
    const others = [await availableTo(admin.api_key), await availableTo(stranger.owner.key)]

    const credentials: Readonly<Record<string, object>> = {
      ...Object.fromEntries(
        [...stands].map(([service, { url }]) => [Object.keys(service.tools)[0], credentialAt(service, url)]),
      ),
      web_search: { provider: 'searxng', base_url: scripted.url },
      llm_generate: { provider: 'ollama', model: 'm', base_url: scripted.url },
    }
    for (const [tool, credential] of Object.entries(credentials)) {
      const body = { credential, scope: 'personal' }
      const path = `/tools/${tool}/connect`
      const { status, body: made } = await tracked.call(approver.api_key, 'POST', path, body)
      expect([tool, status, made.status]).toEqual([tool, 201, 'active'])
    }
    const connected = await toolsOf(approver.api_key)
    expect(connected.filter(({ available }) => !available)).toEqual([])
    expect(connected).toHaveLength(before.length)

    expect([await availableTo(admin.api_key), await availableTo(stranger.owner.key)]).toEqual(others)
    for (const available of others)
      expect(available.filter((name) => !ofInstallation.includes(name))).toEqual([])
  })
})

/* Each service has a stand-in. */
describe('the commands of docs/connections.md and docs/services.md', () => {
  const folder = mkdtempSync(join(tmpdir(), 'reader-'))
  const services = new Map<string, Emulator>()

  beforeAll(async () => {
    const starting: Readonly<Record<string, Promise<Emulator>>> = {
      slack: startSlack(),
      google: startGoogle(),
      jira: startJira(jiraWith([])),
      trello: startTrello(trelloWith([])),
      resend: startEmulator('resend'),
    }
    for (const [name, service] of Object.entries(starting)) services.set(name, await service)
  })
  afterAll(async () => {
    await Promise.all([...services.values()].map((each) => each.close()))
    rmSync(folder, { recursive: true })
  })

  const at = (name: string): string => (services.get(name) as Emulator).url

  /** The shell variables that a reader would set instead of the page's examples. */
  function variables(): string {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
    const keyFile = {
      type: 'service_account',
      client_email: 'robot@acme.iam.gserviceaccount.com',
      private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
      token_uri: `${at('google')}/token`,
    }
    const path = join(folder, 'key.json')
    writeFileSync(path, JSON.stringify(keyFile))
    const all = {
      GITHUB_URL: github.url,
      GITHUB_TOKEN: emulatorToken,
      SLACK_URL: at('slack'),
      SLACK_TOKEN: emulatorToken,
      RESEND_URL: at('resend'),
      RESEND_KEY: emulatorToken,
      SEARXNG_URL: scripted.url,
      ANTHROPIC_URL: scripted.url,
      ANTHROPIC_KEY: 'key',
      JIRA_EMAIL: jiraCredential.email,
      JIRA_TOKEN: jiraCredential.token,
      TRELLO_URL: at('trello'),
      TRELLO_KEY: trelloCredential.key,
      TRELLO_TOKEN: trelloCredential.token,
      GOOGLE_KEY_FILE: path,
    }
    return Object.entries(all)
      .map(([name, value]) => `${name}=${value}`)
      .join('\n')
  }

  test.each([
    ['docs/connections.md', 5],
    ['docs/services.md', 7],
  ])('%s: they do what the page says', async (page, count) => {
    // A search returns no results, and a list of models is empty.
    scripted.answer = () => ({ status: 200, body: { results: [], data: [] } })
    const env = { TRACKER_BASE_URL: at('jira'), GOOGLE_BASE_URL: at('google') }
    const [, ...outputs] = await readDocsPage(page, { before: variables(), env })
    expect(outputs).toHaveLength(count)
    expect(outputs).toEqual(shownOutputs(page))
  })
})
