import { describe, expect, test } from '@jest/globals'
import { until } from '../../stack/until.ts'
import { catalog, getTool, type ToolName } from '../../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../../src/catalog/tool.ts'
import { google as googleIntegration } from '../../../src/catalog/integrations/google.ts'
import { beginAuthorization } from '../../../src/governance/connections/authorize.ts'
import { revokeConnection } from '../../../src/governance/connections/connections.ts'
import { finishAuthorization } from '../../../src/governance/connections/finish-authorization.ts'
import { readConnected } from '../../../src/governance/tools/connections.ts'
import { toolView } from '../../../src/governance/tools/tool-view.ts'
import type { Scripted } from '../../support/scripted-server.ts'
import { effectOf, opOf } from '../runs/engine-fixture.ts'
import { ana, client, tokenAnswer, useGoogle, type GoogleStand } from './google-fixture.ts'

let google: GoogleStand
useGoogle((started) => (google = started))

describe('a refresh token of somebody’s own client', () => {
  const own = () => ({
    client_id: 'c',
    client_secret: 's3cret',
    refresh_token: 'r1',
    base_url: google.server.url,
  })
  /** Simulates Google without checking requests against Google's description. */
  const play = (token: Scripted, account: Scripted = { status: 200, body: { email: ana } }) => {
    google.server.answer = ({ path }) =>
      path === '/token' ? token : path === '/oauth2/v2/userinfo' ? account : { status: 404, body: {} }
  }

  test('is checked by a refresh, and the account is named', async () => {
    play(tokenAnswer('a1', { refresh_token: 'r2' }))
    expect(await google.connect(own())).toMatchObject({ account: ana, name: `Google (${ana})` })
    const sent = google.server.arrived.find(({ path }) => path === '/token')
    expect(Object.fromEntries(new URLSearchParams(sent?.body))).toMatchObject({
      grant_type: 'refresh_token',
      refresh_token: 'r1',
      client_secret: 's3cret',
    })
    const { credential, headers } = await google.use()
    expect(credential).toMatchObject({ refresh_token: 'r2' })
    expect(headers).toMatchObject({ authorization: 'Bearer a1' })
  })

  test('without the scope that names the person has no account', async () => {
    play(tokenAnswer('a1'), { status: 401, body: {} })
    expect(await google.connect(own())).toMatchObject({ account: null, name: 'Google' })
  })

  const refusals: [string, string][] = [
    ['invalid_grant', 'make a new one'],
    ['invalid_client', 'check `client_id`'],
    ['s3cret is wrong', 'an unknown error'],
  ]
  test.each(refusals)('that Google refuses with %s is not connected', async (code, words) => {
    play({ status: 400, body: { error: code, error_description: 'r1 s3cret' } })
    const thrown = await google.connect(own()).catch((each: unknown) => each)
    expect(thrown).toMatchObject({ code: 'validation_error', message: expect.stringContaining(words) })
    expect(JSON.stringify([thrown, (thrown as Error).message])).not.toMatch(/s3cret|r1/)
  })

  test('is not sent to an endpoint elsewhere that the server’s description names', async () => {
    google.server.answer = () => ({
      status: 200,
      body: {
        issuer: google.server.url,
        authorization_endpoint: `${google.server.url}/a`,
        token_endpoint: 'http://localhost:1/token',
      },
    })
    await expect(google.connect(own())).rejects.toMatchObject({ code: 'validation_error' })
    expect(google.server.arrived.map(({ path }) => path)).toEqual(['/.well-known/openid-configuration'])
  })

  test('is not revoked at Google when the connection is: it was not made for this service', async () => {
    play(tokenAnswer('a1'))
    const { id } = await google.connect(own())
    google.server.arrived.length = 0
    await revokeConnection(google.engine.context, google.engine.caller('member'), id)
    expect(google.server.arrived).toEqual([])
  })

  test('cannot be given in the form of an authorization', async () => {
    const authorized = { authorized: { client_id: client.id, refresh_token: 'stolen' } }
    await expect(google.connect(authorized)).rejects.toMatchObject({ code: 'validation_error' })
  })
})

test('an authorization at Google’s own protocol, as its emulator speaks it', async () => {
  const caller = google.engine.caller('member')
  const begun = await beginAuthorization(google.engine.context, caller, {
    tool: 'drive_search',
    scope: 'personal',
    name: undefined,
  })
  const form = new URLSearchParams(new URL(begun.authorization_url).searchParams)
  form.set('email', ana)
  const page = `${google.emulator.url}/o/oauth2/v2/auth/callback`
  const back = await fetch(page, { method: 'POST', body: form, redirect: 'manual' })
  const { searchParams } = new URL(back.headers.get('location') ?? '')
  const { signal } = new AbortController()
  const finished = await finishAuthorization(google.engine.context, caller, 'google', searchParams, signal)
  expect(finished).toMatchObject({ kind: 'connected', connection: { account: ana, integration: 'google' } })
  const answer = await (
    await google.use('drive_search')
  ).fetchWithin({ milliseconds: 30_000, bytes: 1_000_000 })(`${google.emulator.url}/drive/v3/files`, {
    headers: (await google.use('drive_search')).headers,
  })
  expect(answer.status).toBe(200)
})

test('every tool of Google names its scopes', async () => {
  for (const tool of Object.values(catalog))
    if (tool.connection === 'google') expect(googleIntegration.grant?.scopesOf(tool.name)).not.toEqual([])
})

describe('rights that the person has granted', () => {
  const scope = (name: string): string => `https://www.googleapis.com/auth/${name}`
  const grants = (granted: string | undefined) => {
    google.server.answer = ({ path }) => {
      if (path.includes('/.well-known/')) return { status: 404, body: '' }
      if (path === '/token')
        return tokenAnswer('t', { expires_in: 1, ...(granted === undefined ? {} : { scope: granted }) })
      return { status: 200, body: { email: ana } }
    }
  }
  const own = () => ({
    client_id: client.id,
    client_secret: client.secret,
    refresh_token: 'r',
    base_url: google.server.url,
  })

  test('are checked before a call, and the message names the missing one', async () => {
    grants(`openid ${scope('spreadsheets')}`)
    await google.connect(own())
    await google.use('sheets_read')
    google.server.arrived.length = 0
    const thrown = await google.use('docs_read').catch((error: unknown) => error)
    expect(thrown).toMatchObject({ code: 'connection_lacks_scope', retryable: false })
    expect((thrown as Error).message).toContain(scope('documents.readonly'))
    expect((thrown as Error).message).toContain('POST /tools/docs_read/connect')
    expect(google.server.arrived).toEqual([])
    // The connection still works for its other tools.
    await google.use('sheets_append')
  })

  test('are shown by the list of tools: connected, and not available', async () => {
    grants(`openid ${scope('spreadsheets')}`)
    await google.connect(own())
    const shown = async (name: ToolName) => {
      const tool = getTool(name) as ToolDeclaration
      const { organizationId } = google.engine
      const { userId } = google.engine.caller('member')
      const connected = await readConnected(google.engine.context.db, organizationId, userId)
      return toolView(google.engine.context.config.tools, connected, tool, userId)
    }
    expect(await shown('sheets_read')).toMatchObject({ connected: true, available: true })
    expect(await shown('docs_read')).toMatchObject({
      connected: true,
      available: false,
      unavailable_because: expect.stringContaining('without a right that it needs: connect it again'),
    })
    expect(await shown('github_comment')).toMatchObject({ connected: false, available: false })
    const op = opOf(await google.engine.run(), { tool: getTool('docs_read') as ToolDeclaration })
    expect(await google.engine.decide(op)).toMatchObject({ go: false, state: 'failed' })
    expect((await effectOf(google.engine.context, op))?.error).toMatchObject({
      code: 'connection_lacks_scope',
    })
    grants(`${scope('spreadsheets')} ${scope('documents')}`)
    await google.connect(own())
    expect(await shown('docs_read')).toMatchObject({ connected: true, available: true })
  })

  test('include those of a wider right', async () => {
    grants(scope('drive'))
    await google.connect(own())
    for (const tool of ['docs_read', 'docs_create', 'sheets_append', 'drive_search'] as const)
      await google.use(tool)
    await expect(google.use('calendar_create_event')).rejects.toMatchObject({
      code: 'connection_lacks_scope',
    })
  })

  test('follow a refresh, and are not checked if the server names none', async () => {
    grants(undefined)
    await google.connect(own())
    await google.use('docs_read')
    grants(scope('spreadsheets'))
    // Access tokens of these tests are valid for one second.
    await until(
      'the next token lacks the scope',
      async () =>
        (await google.use('docs_read').catch((error: { code: string }) => error.code)) ===
        'connection_lacks_scope',
    )
  })
})
