import { describe, expect, test } from '@jest/globals'
import { Browser } from '../browser.ts'
import { addOrganization, addPerson } from '../fixtures.ts'
import type { Answer } from '../server.ts'
import { publicUrl, useAuthorizing, type Authorizing } from './authorizing.ts'

/* Answers of an authorization server that somebody has changed, stolen or sent again. */

let server: Authorizing['server']
let google: Authorizing['google']
let keyOf: Authorizing['keyOf']
let begin: Authorizing['begin']
let signedIn: Authorizing['signedIn']
let agreed: Authorizing['agreed']
useAuthorizing((started) => ({ server, google, keyOf, begin, signedIn, agreed } = started))

/** The path with another value of a parameter, or without the parameter. */
const changed = (path: string, name: string, value: string | null): string => {
  const url = new URL(path, publicUrl)
  if (value === null) url.searchParams.delete(name)
  else url.searchParams.set(name, value)
  return url.pathname + url.search
}

describe('an answer is refused, and nothing is connected,', () => {
  /**
   * Columns: the attack, how the answer reaches the service, the status, and whether the code reached the authorization
   * server.
   */
  const attacks: [string, () => Promise<Answer>, number, boolean][] = [
    [
      'when its state was used before',
      async () => {
        const [back, browser] = [await agreed(), await signedIn('member')]
        expect((await browser.send('GET', back)).status).toBe(200)
        await server.context.db.deleteFrom('connections').execute()
        google.requests.length = 0
        return browser.send('GET', back)
      },
      404,
      false,
    ],
    [
      'when its state was used by a second request at the same moment',
      async () => {
        const [back, browser] = [await agreed(), await signedIn('member')]
        const answers = await Promise.all([1, 2, 3, 4].map(() => browser.send('GET', back)))
        expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
        expect(google.requests).toHaveLength(1)
        await server.context.db.deleteFrom('connections').execute()
        google.requests.length = 0
        return answers.find(({ status }) => status === 404) as Answer
      },
      404,
      false,
    ],
    [
      'when another person of the organization brings it',
      async () => (await signedIn('admin')).send('GET', await agreed('member')),
      404,
      false,
    ],
    [
      'when a person of another organization brings it',
      async () => {
        const elsewhere = await addOrganization(server.context)
        return server.call(elsewhere.owner.key, 'GET', await agreed())
      },
      404,
      false,
    ],
    ['when nobody is signed in', async () => new Browser(server).send('GET', await agreed()), 401, false],
    [
      'when its key has another scope',
      async () => {
        const body = { name: 'k', scopes: ['tools:read'] }
        const made = await server.call(keyOf('member'), 'POST', '/api-keys', body)
        return server.call(made.body.api_key, 'GET', await agreed())
      },
      403,
      false,
    ],
    [
      'when it comes too late',
      async () => {
        const back = await agreed()
        await server.context.pool.query(
          `update connection_attempts set expires_at = clock_timestamp() - interval '1 second'`,
        )
        return (await signedIn('member')).send('GET', back)
      },
      404,
      false,
    ],
    [
      'when it names another issuer',
      async () =>
        (await signedIn('member')).send('GET', changed(await agreed(), 'iss', 'https://evil.example')),
      422,
      false,
    ],
    [
      'when it lacks the issuer that the server always names',
      async () => (await signedIn('member')).send('GET', changed(await agreed(), 'iss', null)),
      422,
      false,
    ],
    [
      'when an error names another issuer',
      async () => {
        const path = changed(changed(await agreed(), 'code', null), 'error', 'access_denied')
        return (await signedIn('member')).send('GET', changed(path, 'iss', 'https://evil.example'))
      },
      422,
      false,
    ],
    [
      'when it comes to the address of another integration',
      async () =>
        (await signedIn('member')).send('GET', (await agreed()).replace('callback/google', 'callback/slack')),
      404,
      false,
    ],
    [
      'when its state is unknown',
      async () => (await signedIn('member')).send('GET', changed(await agreed(), 'state', 'x'.repeat(43))),
      404,
      false,
    ],
    [
      'when it has no state',
      async () => (await signedIn('member')).send('GET', changed(await agreed(), 'state', null)),
      404,
      false,
    ],
    [
      'when its code belongs to another authorization',
      async () => {
        const other = new URL(await agreed('admin'), publicUrl).searchParams.get('code') as string
        return (await signedIn('member')).send('GET', changed(await agreed(), 'code', other))
      },
      422,
      true,
    ],
    [
      'when its code was used before',
      async () => {
        const [back, browser] = [await agreed(), await signedIn('member')]
        expect((await browser.send('GET', back)).status).toBe(200)
        await server.context.db.deleteFrom('connections').execute()
        const code = new URL(back, publicUrl).searchParams.get('code') as string
        return browser.send('GET', changed(await agreed(), 'code', code))
      },
      422,
      true,
    ],
    [
      'when another redirect address was sent to the server',
      async () => {
        const back = await agreed()
        await server.context.pool.query(
          `update connection_attempts set redirect_uri = redirect_uri || '/elsewhere'`,
        )
        return (await signedIn('member')).send('GET', back)
      },
      422,
      true,
    ],
    [
      'when the person has left the organization meanwhile',
      async () => {
        const { organization_id: organization } = server.identities
        const leaver = await addPerson(server.context, organization, 'member')
        const { body } = await begin(leaver.key)
        const back = await google.authorize(body.authorization_url)
        await server.call(keyOf('owner'), 'DELETE', `/organizations/${organization}/members/${leaver.userId}`)
        return server.call(leaver.key, 'GET', back.pathname + back.search)
      },
      404,
      true,
    ],
    [
      'when the state is given twice',
      async () => (await signedIn('member')).send('GET', `${await agreed()}&state=other`),
      422,
      false,
    ],
    [
      'when the server does not answer',
      async () => {
        const back = await agreed()
        google.onToken = async () => 'lost'
        return (await signedIn('member')).send('GET', back)
      },
      503,
      true,
    ],
  ]
  test.each(attacks)('%s', async (_, attack, status, reached) => {
    const answer = await attack()
    expect([answer.status, google.requests.length > 0]).toEqual([status, reached])
    expect(answer.text).not.toContain(google.client.secret)
    const rows = await server.context.db.selectFrom('connections').selectAll().execute()
    expect(rows.filter(({ status: each }) => each !== 'revoked')).toEqual([])
  })

  test('from anybody but its person, and its person can still bring it', async () => {
    const back = await agreed()
    const elsewhere = await addOrganization(server.context)
    const strangers = [await signedIn('admin'), new Browser(server)]
    for (const browser of strangers) expect((await browser.send('GET', back)).status).not.toBe(200)
    expect((await server.call(elsewhere.owner.key, 'GET', back)).status).toBe(404)
    expect(google.requests).toEqual([])
    expect((await (await signedIn('member')).send('GET', back)).status).toBe(200)
  })

  test('and the server sends nobody to an address that is not registered', async () => {
    const url = new URL((await begin(keyOf('member'))).body.authorization_url)
    url.searchParams.set('redirect_uri', 'http://127.0.0.1:9/evil')
    await expect(google.authorize(url.href)).rejects.toThrow('redirect_uri')
  })

  test('and the server refuses an answer without the verifier of its browser', async () => {
    const url = new URL((await begin(keyOf('member'))).body.authorization_url)
    url.searchParams.set('code_challenge', 'A'.repeat(43))
    const back = await google.authorize(url.href)
    const answer = await (await signedIn('member')).send('GET', back.pathname + back.search)
    expect([answer.status, answer.body.error.message]).toEqual([
      422,
      expect.stringContaining('invalid_grant'),
    ])
  })
})
