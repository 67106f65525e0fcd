import { describe, expect, test } from '@jest/globals'
import { google } from '../../../src/catalog/integrations/google.ts'
import { beginAuthorization } from '../../../src/governance/connections/authorize.ts'
import { revokeConnection } from '../../../src/governance/connections/connections.ts'
import { finishAuthorization } from '../../../src/governance/connections/finish-authorization.ts'
import type { Scripted } from '../../support/scripted-server.ts'
import { ana, client, connectionFor, connectWith as connectIn, tokenAnswer, useGoogle, type GoogleWorld } from './google-fixture.ts' // prettier-ignore

let world: GoogleWorld
useGoogle((started) => (world = started))

const connectWith = (credential: unknown) => connectIn(world, credential)

describe('a refresh token of somebody’s own client', () => {
  const own = () => ({
    client_id: 'c',
    client_secret: 's3cret',
    refresh_token: 'r1',
    base_url: world.server.url,
  })
  /** Simulates Google without checking requests against Google's description. */
  const play = (token: Scripted, account: Scripted = { status: 200, body: { email: ana } }) => {
    world.server.answer = ({ path }) =>
      path === '/token' ? token : path === '/oauth2/v2/userinfo' ? account : { status: 404, body: {} }
  }

  test('is checked by a refresh, and the account is named', async () => {
    play(tokenAnswer('a1', { refresh_token: 'r2' }))
    expect(await connectWith(own())).toMatchObject({ account: ana, name: `Google (${ana})` })
    const sent = world.server.arrived.find(({ path }) => path === '/token')
    expect(Object.fromEntries(new URLSearchParams(sent?.body))).toMatchObject({
      grant_type: 'refresh_token',
      refresh_token: 'r1',
      client_secret: 's3cret',
    })
    const { credential, headers } = await connectionFor(world)
    expect(credential).toMatchObject({ refresh_token: 'r2' })
    expect(headers).toMatchObject({ authorization: 'Bearer a1' })
  })

  test('without the scope that names the person has no account', async () => {
    play(tokenAnswer('a1'), { status: 401, body: {} })
    expect(await connectWith(own())).toMatchObject({ account: null, name: 'Google' })
  })

  const refusals: [string, string][] = [
    ['invalid_grant', 'make a new one'],
    ['invalid_client', 'check `client_id`'],
    ['s3cret is wrong', 'an unknown error'],
  ]
  test.each(refusals)('that Google refuses with %s is not connected', async (code, words) => {
    play({ status: 400, body: { error: code, error_description: 'r1 s3cret' } })
    const thrown = await connectWith(own()).catch((each: unknown) => each)
    expect(thrown).toMatchObject({ code: 'validation_error', message: expect.stringContaining(words) })
    expect(JSON.stringify([thrown, (thrown as Error).message])).not.toMatch(/s3cret|r1/)
  })

  test('is not sent to an endpoint elsewhere that the server’s description names', async () => {
    world.server.answer = () => ({
      status: 200,
      body: {
        issuer: world.server.url,
        authorization_endpoint: `${world.server.url}/a`,
        token_endpoint: 'http://localhost:1/token',
      },
    })
    await expect(connectWith(own())).rejects.toMatchObject({ code: 'validation_error' })
    expect(world.server.arrived.map(({ path }) => path)).toEqual(['/.well-known/openid-configuration'])
  })

  test('is not revoked at Google when the connection is: it was not made for this service', async () => {
    play(tokenAnswer('a1'))
    const { id } = await connectWith(own())
    world.server.arrived.length = 0
    await revokeConnection(world.engine.context, world.engine.caller('admin'), id)
    expect(world.server.arrived).toEqual([])
  })

  test('cannot be given in the form of an authorization', async () => {
    const authorized = { authorized: { client_id: client.id, refresh_token: 'stolen' } }
    await expect(connectWith(authorized)).rejects.toMatchObject({ code: 'validation_error' })
  })
})

test('an authorization at Google’s own protocol, as its emulator speaks it', async () => {
  const caller = world.engine.caller('admin')
  const begun = await beginAuthorization(world.engine.context, caller, {
    tool: 'drive_search',
    scope: 'personal',
    name: undefined,
  })
  const form = new URLSearchParams(new URL(begun.authorization_url).searchParams)
  form.set('email', ana)
  const page = `${world.emulator.url}/o/oauth2/v2/auth/callback`
  const back = await fetch(page, { method: 'POST', body: form, redirect: 'manual' })
  const { searchParams } = new URL(back.headers.get('location') ?? '')
  const { signal } = new AbortController()
  const finished = await finishAuthorization(world.engine.context, caller, 'google', searchParams, signal)
  expect(finished).toMatchObject({ kind: 'connected', connection: { account: ana, integration: 'google' } })
  const answer = await (
    await connectionFor(world, 'drive_search')
  ).fetchWithin({ milliseconds: 30_000, bytes: 1_000_000 })(`${world.emulator.url}/drive/v3/files`, {
    headers: (await connectionFor(world, 'drive_search')).headers,
  })
  expect(answer.status).toBe(200)
})

test('every tool of Google names its scopes', async () => {
  const { catalog } = await import('../../../src/catalog/index.ts')
  for (const tool of Object.values(catalog))
    if (tool.connection === 'google') expect(google.grant?.scopesOf(tool.name)).not.toEqual([])
})
