import { beforeEach, describe, expect, test } from '@jest/globals'
import {
  answerTo,
  byOther,
  certificates,
  samlAddress,
  samlIssuer,
  withOtherId,
  type SamlPerson,
} from '../../support/saml-provider.ts'
import { Browser } from '../browser.ts'
import type { TestServer } from '../server.ts'
import { codeOf, useServer } from '../use-server.ts'

/* People sign in with SAML: the messages of a real provider, and forged ones. */

let server: TestServer
let organizationId = ''
const { ours } = useServer((started) => {
  server = started
  organizationId = server.identities.organization_id
})
const setting = {
  kind: 'saml',
  issuer: samlIssuer,
  sso_url: samlAddress,
  certificates: [certificates.own],
  domains: ['acme.example'],
  default_role: 'viewer',
}

async function save(more: object = {}) {
  const { pool } = server.context
  await pool.query('delete from auth_rate_limits')
  const answer = await ours('owner', 'PUT', '/sign-in', { ...setting, ...more })
  await pool.query(
    `update sign_in_domains set proven_at = now(), proven_by = 'operator' where proven_at is null`,
  )
  return answer
}
beforeEach(async () => {
  await server.context.pool.query('delete from sign_in_providers')
  await save()
})

let people = 0
function employ(attributes: object = {}): SamlPerson & { readonly email: string } {
  people += 1
  const email = `saml-${people}@acme.example`
  return { id: `person-${people}`, email, attributes: { email, name: `Person ${people}`, ...attributes } }
}

async function begin(email: string, browser = new Browser(server)) {
  const { body } = await browser.auth('sign-in/provider', { email, place: '/console/runs' })
  return { browser, url: body.url as string, state: new URL(body.url).searchParams.get('RelayState') ?? '' }
}

const encoded = (xml: string): string => Buffer.from(xml).toString('base64')
const bring = (browser: Browser, state: string, xml: string, organization = organizationId) =>
  browser.auth('sign-in/provider/assertion', { organization, state, response: encoded(xml) })

/** Begins, lets the provider answer, and brings what `change` makes of it. */
async function signIn(
  person: SamlPerson & { readonly email: string },
  options: object = {},
  change = (xml: string) => xml,
) {
  const { browser, url, state } = await begin(person.email)
  const answer = await bring(browser, state, change(await answerTo(url, person, options)))
  return { answer, browser }
}

const me = async (browser: Browser) => (await browser.send('GET', '/me')).body

describe('with the answer of a provider', () => {
  test('a new person joins, and the same subject comes back as the same person', async () => {
    const person = employ()
    const { answer, browser } = await signIn(person)
    expect([answer.status, answer.body]).toEqual([
      200,
      { place: '/console/runs', organization_id: organizationId },
    ])
    const first = await me(browser)
    expect(first).toMatchObject({
      user: { email: person.email },
      session_opened_with: 'provider',
      has_second_factor: false,
    })
    const other = { ...person, attributes: { email: 'other@acme.example' } }
    const { browser: again } = await signIn(other)
    expect((await me(again)).user.id).toBe(first.user.id)
  })

  test('groups give roles, and the response may be signed too', async () => {
    await save({
      groups_claim: 'groups',
      role_map: { finance: 'member', admins: 'admin' },
      default_role: null,
    })
    const { browser } = await signIn(employ({ groups: ['finance', 'admins'] }), { signResponse: true })
    expect(
      (await me(browser)).organizations.find(({ id }: { id: string }) => id === organizationId).role,
    ).toBe('admin')
    const { answer } = await signIn(employ())
    expect(answer.status).toBe(403)
  })

  test('the pages carry it from the provider’s site to ours', async () => {
    const person = employ()
    const { browser, url, state } = await begin(person.email)
    const form = (fields: Record<string, string>) => new URLSearchParams(fields).toString()
    const fields = { SAMLResponse: encoded(await answerTo(url, person)), RelayState: state }
    const type = { 'content-type': 'application/x-www-form-urlencoded' }
    const path = `/console/sign-in/saml/${organizationId}`
    const foreign = { ...type, origin: 'https://idp.acme.example', 'sec-fetch-site': 'cross-site' }
    const send = (place: string, headers: object) =>
      fetch(`${server.base}${place}`, {
        method: 'POST',
        headers: { ...headers },
        body: form(fields),
        redirect: 'manual',
      })
    const page = await send(path, foreign)
    expect(page.status).toBe(200)
    expect(await page.text()).toContain(`action="${path}/continue"`)
    expect((await send(`${path}/continue`, { ...foreign, cookie: browser.cookie })).status).toBe(403)
    const own = { ...type, origin: server.base, cookie: browser.cookie }
    const done = await send(`${path}/continue`, own)
    expect([done.status, done.headers.get('location')]).toEqual([303, '/console/runs'])
  })

  test('our metadata names our address', async () => {
    const { body } = await ours('owner', 'GET', '/sign-in')
    const { pathname } = new URL(body.metadata_url)
    const answer = await fetch(`${server.base}${pathname}`)
    expect([answer.headers.get('content-type'), await answer.text()]).toEqual([
      'application/samlmetadata+xml',
      expect.stringContaining(`Location="${body.acs_url}"`),
    ])
    expect((await fetch(`${server.base}/api/auth/saml/x"y/metadata`)).status).toBe(404)
  })
})

const assertionOf = (xml: string): string => /<saml:Assertion.*<\/saml:Assertion>/s.exec(xml)?.[0] ?? ''
const unsigned = (xml: string): string => xml.replaceAll(/<(\w+:)?Signature .*?<\/(\w+:)?Signature>/gs, '')
/** What an attacker wants to be believed. */
const forged = (xml: string): string =>
  unsigned(assertionOf(xml))
    .replace(/ID="[^"]+"/, 'ID="_forged"')
    .replaceAll(/person-\d+/g, 'person-1')
    .replaceAll(/saml-\d+@/g, 'saml-1@')
const signatureOf = (xml: string): string => /<(\w+:)?Signature .*?<\/(\w+:)?Signature>/s.exec(xml)?.[0] ?? ''
const put = (xml: string, text: string): string => xml.replace(assertionOf(xml), () => text)

const forgeries: readonly (readonly [string, (xml: string) => string])[] = [
  ['another name', (xml) => xml.replaceAll(/person-\d+/g, 'person-1')],
  ['another attribute', (xml) => xml.replaceAll(/saml-\d+@/g, 'saml-1@')],
  ['no signature', unsigned],
  ['a second assertion before', (xml) => put(xml, forged(xml) + assertionOf(xml))],
  ['a second assertion behind', (xml) => put(xml, assertionOf(xml) + forged(xml))],
  [
    'the signed one inside the forged one',
    (xml) =>
      put(
        xml,
        forged(xml).replace('</saml:Assertion>', () => `${assertionOf(xml)}</saml:Assertion>`),
      ),
  ],
  [
    'the signed one in an object of its signature',
    (xml) =>
      put(
        xml,
        forged(xml).replace(
          '<saml:Subject>',
          () =>
            `${signatureOf(xml).replace('</Signature>', () => `<Object>${unsigned(assertionOf(xml))}</Object></Signature>`)}<saml:Subject>`,
        ),
      ),
  ],
  [
    'the signed one in extensions',
    (xml) => put(xml, `<samlp:Extensions>${assertionOf(xml)}</samlp:Extensions>${forged(xml)}`),
  ],
  [
    'the signature moved to a forged assertion',
    (xml) =>
      put(
        xml,
        forged(xml).replace('<saml:Subject>', () => `${signatureOf(xml)}<saml:Subject>`),
      ),
  ],
  [
    'the signed response inside another',
    (xml) =>
      xml.replace(
        /^(<samlp:Response[^>]*>)/,
        (root) => `${root.replace(/ID="[^"]+"/, 'ID="_outer"')}${forged(xml)}${root}`,
      ) + '</samlp:Response>',
  ],
  [
    'two elements with one id',
    (xml) =>
      xml.replace(
        /<samlp:StatusCode /,
        () => `<samlp:StatusCode ID="${/Assertion [^>]*ID="([^"]+)"/.exec(xml)?.[1] ?? ''}" `,
      ),
  ],
  ['a comment in the name', (xml) => xml.replace(/(person-\d)/, '$1<!---->')],
  ['an entity', (xml) => `<!DOCTYPE x [<!ENTITY e "person-1">]>${xml.replace(/person-\d+/, '&e;')}`],
  ['CDATA', (xml) => xml.replace(/(person-\d+)/, '<![CDATA[$1]]>')],
  ['an instruction', (xml) => xml.replace(/(person-\d)/, '$1<?x?>')],
  ['another destination', (xml) => xml.replace(/Destination="[^"]+"/, 'Destination="https://evil.example/"')],
  ['another request in the response', (xml) => xml.replace(/InResponseTo="[^"]+"/, 'InResponseTo="_other"')],
  ['text behind', (xml) => `${xml}<x/>`],
  ['nothing', () => ''],
  ['no XML', () => 'no XML'],
]

describe('a forged answer opens nothing:', () => {
  const refusedOf = async (given: { answer: { status: number }; browser: Browser }) => {
    expect([403, 409]).toContain(given.answer.status)
    expect((await given.browser.send('GET', '/me')).status).toBe(401)
  }

  test.each(forgeries)('%s', async (_what, change) => {
    const person = employ()
    await refusedOf(await signIn(person, {}, change))
    await refusedOf(await signIn(person, { signResponse: true }, change))
    const { rows } = await server.context.pool.query('select from users where email = $1', [person.email])
    expect(rows).toEqual([])
  })

  test.each<[string, object]>([
    ['another key, with its certificate', byOther],
    ['SHA-1', { signatureAlgorithm: 'rsa-sha1', digestAlgorithm: 'sha1' }],
    ['a signature of the response alone', { signResponse: true, signAssertion: false }],
    ['another audience', { audience: 'https://other.example' }],
    ['another recipient', { recipient: 'https://other.example' }],
    ['another provider', { issuer: 'https://evil.example' }],
    ['no request', { inResponseTo: '_other' }],
    ['an assertion that has expired', { lifetimeInSeconds: -600 }],
    ['a refusal', { samlStatusCode: 'urn:oasis:names:tc:SAML:2.0:status:Responder' }],
  ])('%s', async (_what, options) => refusedOf(await signIn(employ(), options)))

  test('a name that changes each time', async () => {
    const format = 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient'
    const given = await signIn({ ...employ(), format })
    await refusedOf(given)
    expect(given.answer.text).toContain('persistent')
  })

  test('a second time, in another browser, for another request or another organization', async () => {
    const person = employ()
    const { browser, url, state } = await begin(person.email)
    const xml = await answerTo(url, person)
    const { cookie } = browser
    expect((await bring(new Browser(server), state, xml)).status).toBe(404)
    expect((await bring(browser, '', xml)).status).toBe(404)
    const other = await begin(person.email)
    await refusedOf({ answer: await bring(other.browser, other.state, xml), browser: other.browser })
    const elsewhere = await begin(person.email)
    const there = await bring(
      elsewhere.browser,
      elsewhere.state,
      await answerTo(elsewhere.url, person),
      'org_01',
    )
    expect(there.status).toBe(404)
    const third = await begin(person.email)
    const asked = await answerTo(withOtherId(third.url), person)
    await refusedOf({ answer: await bring(third.browser, third.state, asked), browser: third.browser })
    const body = { organization: organizationId, state, response: encoded(xml) }
    for (const status of [200, 404])
      expect((await new Browser(server).auth('sign-in/provider/assertion', body, { cookie })).status).toBe(
        status,
      )
  })
})

describe('certificates', () => {
  test('one that has expired signs nobody in, and the answers say what to do; a second one can take over', async () => {
    await save({ certificates: [certificates.expired] })
    const tested = await ours('owner', 'POST', '/sign-in/test')
    expect(tested.body).toEqual({ ok: false, message: expect.stringContaining('has expired') })
    const begun = await new Browser(server).auth('sign-in/provider', { email: employ().email })
    expect([begun.status, begun.text]).toEqual([409, expect.stringContaining('add the new one')])
    await save({ certificates: [certificates.expired, certificates.other, certificates.own] })
    expect((await signIn(employ())).answer.status).toBe(200)
    expect((await signIn(employ(), byOther)).answer.status).toBe(200)
    await save({ certificates: [certificates.other] })
    expect((await signIn(employ())).answer.status).toBe(403)
  })

  test.each<[string, object]>([
    ['certificates', { certificates: [] }],
    ['certificates.0', { certificates: ['no certificate'] }],
    ['sso_url', { sso_url: undefined }],
    ['sso_url', { sso_url: 'javascript:alert(1)' }],
    ['client_secret', { client_secret: 'x' }],
    ['client_id', { client_id: 'x' }],
    ['sso_url', { kind: 'oidc', client_id: 'x', client_secret: 'x', certificates: undefined }],
  ])('a setting is refused at %s', async (path, more) => {
    const answer = await save(more)
    expect([codeOf(answer), answer.body.error.details[0].path]).toEqual(['422 validation_error', path])
  })
})
