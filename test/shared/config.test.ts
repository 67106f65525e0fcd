import { describe, expect, test } from '@jest/globals'
import { publicBase, readConfig } from '../../src/shared/config.ts'
import { priceOf } from '../../src/shared/model-prices.ts'
import { isOfDomain } from '../../src/shared/sign-up-setting.ts'

const key = Buffer.alloc(32, 7).toString('base64')
const least = { DATABASE_URL: 'postgresql://db/countersign', DATA_ENCRYPTION_KEY: key }
const production = {
  ...least,
  APP_ENV: 'production',
  SESSION_SECRET_KEY: 's'.repeat(32),
  TRUSTED_PROXY_HOSTS: '10.0.0.7',
  PUBLIC_URL: 'https://countersign.acme.com',
  SMTP_URL: 'smtp://mail.acme.com',
}

describe('readConfig', () => {
  test('fills in defaults', () => {
    const config = readConfig(least)
    expect(config).toMatchObject({ env: 'development', http: { port: 8080, docs: true } })
    expect(config.runApprovalSeconds).toBe(604_800)
    expect(config.encryptionKeys).toEqual([Buffer.alloc(32, 7)])
  })

  test('takes a certificate and its key together or not at all; links use https then', () => {
    expect(publicBase(readConfig(least))).toBe('http://127.0.0.1:8080')
    const both = { ...least, TLS_CERT_FILE: 'a.pem', TLS_KEY_FILE: 'b.pem' }
    expect(readConfig(both).http.tls).toEqual({ certFile: 'a.pem', keyFile: 'b.pem' })
    expect(publicBase(readConfig(both))).toBe('https://127.0.0.1:8080')
    for (const name of ['TLS_CERT_FILE', 'TLS_KEY_FILE'])
      expect(() => readConfig({ ...both, [name]: '' })).toThrow('set both, or neither')
  })

  test('derives the session secret if none is set, so that all processes agree', () => {
    const { sessionSecret } = readConfig(least)
    expect(sessionSecret.length).toBeGreaterThanOrEqual(32)
    expect(readConfig(least).sessionSecret).toBe(sessionSecret)
    expect(sessionSecret).not.toContain(readConfig(least).encryptionKeys[0].toString('base64url'))
    expect(readConfig(production).sessionSecret).toBe('s'.repeat(32))
  })

  test('earlier session secrets are those in the variable, and those derived from encryption keys', () => {
    const own = readConfig(least).sessionSecret
    expect(readConfig(least)).toMatchObject({ oldSessionSecrets: [] })
    const [current, second] = ['c'.repeat(32), 'b'.repeat(32)]
    const set = { ...least, SESSION_SECRET_KEY: current }
    expect(readConfig(set)).toMatchObject({ sessionSecret: current, oldSessionSecrets: [own] })
    expect(readConfig({ ...set, SESSION_SECRET_KEY_OLD: ` ${second}, a,` })).toMatchObject({
      sessionSecret: current,
      oldSessionSecrets: [second, 'a', own],
    })
    const newKey = { DATA_ENCRYPTION_KEY: Buffer.alloc(32, 9).toString('base64'), DATA_ENCRYPTION_KEY_OLD: least.DATA_ENCRYPTION_KEY } // prettier-ignore
    expect(readConfig({ ...least, ...newKey })).toMatchObject({ oldSessionSecrets: [own] })
  })

  test('an unknown backend of secrets, or one without its region, prevents the start', () => {
    expect(readConfig(least).secrets).toEqual({ backend: 'db' })
    const aws = { ...least, SECRETS_BACKEND: 'aws_secrets_manager' }
    expect(readConfig({ ...aws, AWS_REGION: 'eu-central-1' }).secrets).toEqual({
      backend: 'aws_secrets_manager',
      region: 'eu-central-1',
      prefix: 'countersign/',
    })
    expect(() => readConfig(aws)).toThrow('AWS_REGION is missing: SECRETS_BACKEND')
    expect(() => readConfig({ ...least, SECRETS_BACKEND: 'vault' })).toThrow(
      'SECRETS_BACKEND is wrong: `vault` is not one of db, aws_secrets_manager',
    )
    expect(() => readConfig({ ...aws, AWS_REGION: 'x', AWS_SECRETS_PREFIX: 'a b' })).toThrow(
      /AWS_REGION is wrong.*AWS_SECRETS_PREFIX is wrong/,
    )
  })

  test('treats an empty variable as not set', () => {
    const config = readConfig({ ...least, SMTP_URL: '', PORT: '' })
    expect(config).toMatchObject({ tools: { smtpUrl: null }, http: { port: 8080 } })
  })

  test('names every missing or invalid variable in one error', () => {
    expect(() => readConfig({ PORT: 'none' })).toThrow(/DATABASE_URL.*PORT.*DATA_ENCRYPTION_KEY/)
    expect(() => readConfig({ ...least, DATA_ENCRYPTION_KEY: 'short' })).toThrow('32 bytes')
  })

  test.each([
    ['no session key', { SESSION_SECRET_KEY: undefined }, 'SESSION_SECRET_KEY'],
    ['a short session key', { SESSION_SECRET_KEY: 's'.repeat(31) }, 'SESSION_SECRET_KEY'],
    ['docs', { ENABLE_DOCS: 'true' }, 'ENABLE_DOCS'],
    ['developer routes', { ENABLE_DEVELOPER_ROUTES: '1' }, 'ENABLE_DEVELOPER_ROUTES'],
    ['plain HTTP to a network', { HOST: '0.0.0.0', TRUSTED_PROXY_HOSTS: undefined }, 'TRUSTED_PROXY_HOSTS'],
    ['plain HTTP on the default address', { TRUSTED_PROXY_HOSTS: '' }, 'TRUSTED_PROXY_HOSTS'],
    ['Jira over plain HTTP', { TRACKER_BASE_URL: 'http://127.0.0.1:4010' }, 'TRACKER_BASE_URL'],
    ['plain HTTP on loopback', { HOST: 'localhost', TRUSTED_PROXY_HOSTS: undefined }, 'TRUSTED_PROXY_HOSTS'],
  ])('with %s production does not start and staging warns', (_what, change, named) => {
    expect(() => readConfig({ ...production, ...change })).toThrow(named)
    const { warnings } = readConfig({ ...production, ...change, APP_ENV: 'staging' })
    expect(warnings).toContainEqual(expect.stringContaining(`production would not start: ${named}`))
    expect(readConfig({ ...production, ...change, APP_ENV: 'development' }).warnings).toEqual([])
  })

  test.each(['http://jira.acme.com', 'http://10.0.0.7:8080', 'http://127.0.0.1.acme.com'])(
    'Jira at %s prevents the start everywhere, also if the operator names its host',
    (TRACKER_BASE_URL) => {
      const given = { TRACKER_BASE_URL, CONNECTION_HOSTS: 'jira.acme.com,10.0.0.7,127.0.0.1.acme.com' }
      for (const all of [least, production, { ...production, APP_ENV: 'staging' }])
        expect(() => readConfig({ ...all, ...given })).toThrow('TRACKER_BASE_URL is wrong: write `https://`')
    },
  )

  const local = ['http://127.0.0.1:4010/', 'http://localhost:4010', 'http://[::1]:4010']
  test.each([...local, 'https://jira.acme.com'])(
    'Jira at %s is accepted in development',
    (TRACKER_BASE_URL) => {
      const { trackerBaseUrl } = readConfig({ ...least, TRACKER_BASE_URL }).connections
      expect(trackerBaseUrl).toBe(TRACKER_BASE_URL.replace(/\/$/, ''))
    },
  )

  test.each([
    ['a named proxy', { HOST: '0.0.0.0' }],
    [
      'its own certificate',
      { HOST: '0.0.0.0', TRUSTED_PROXY_HOSTS: '', TLS_CERT_FILE: 'a.pem', TLS_KEY_FILE: 'b.pem' },
    ],
    ['a named proxy on this machine', { TRUSTED_PROXY_HOSTS: '127.0.0.1' }],
  ])('with %s production starts', (_what, change) => {
    expect(readConfig({ ...production, ...change }).env).toBe('production')
  })

  test('warns if no mail can be sent, in staging and production', () => {
    expect(readConfig(production).warnings).toEqual([])
    const silent = { ...production, SMTP_URL: '', ENABLE_DOCS: 'false' }
    for (const APP_ENV of ['staging', 'production'])
      expect(readConfig({ ...silent, APP_ENV }).warnings).toEqual([expect.stringContaining('SMTP_URL')])
    expect(readConfig({ ...silent, APP_ENV: 'development' }).warnings).toEqual([])
  })

  test('warns if links use plain HTTP, in staging and production', () => {
    const plain = { ...production, PUBLIC_URL: 'http://countersign.acme.com' }
    expect(readConfig(plain).warnings).toEqual([expect.stringContaining('PUBLIC_URL')])
    expect(readConfig({ ...production, PUBLIC_URL: '' }).warnings).toEqual([
      expect.stringContaining('PUBLIC_URL'),
      expect.stringContaining('neither PUBLIC_URL nor ALLOWED_HOSTS is set'),
    ])
    const named = { ...production, PUBLIC_URL: '', ALLOWED_HOSTS: 'countersign.internal' }
    expect(readConfig(named).warnings).toHaveLength(1)
    expect(readConfig({ ...plain, APP_ENV: 'development' }).warnings).toEqual([])
  })

  test('hides the docs in production and on request, and warns in staging if nobody has chosen', () => {
    const staging = { ...production, APP_ENV: 'staging' }
    expect(readConfig(staging)).toMatchObject({ http: { docs: true }, warnings: [expect.stringContaining('ENABLE_DOCS is not set')] }) // prettier-ignore
    expect(readConfig({ ...staging, ENABLE_DOCS: 'false' })).toMatchObject({
      http: { docs: false },
      warnings: [],
    })
    expect(readConfig({ ...least, ENABLE_DOCS: 'false' }).http.docs).toBe(false)
    for (const APP_ENV of ['production', 'development', 'test'])
      expect(readConfig({ ...production, APP_ENV })).toMatchObject({
        http: { docs: APP_ENV !== 'production' },
        warnings: [],
      })
  })

  test('metrics are on loopback, wherever the API listens, unless METRICS_HOST says otherwise', () => {
    const wide = { ...least, HOST: '0.0.0.0', METRICS_PORT: '9100' }
    expect(readConfig(wide).metrics).toEqual({ host: '127.0.0.1', port: 9100, names: ['127.0.0.1'] })
    expect(readConfig({ ...wide, METRICS_HOST: '10.0.0.9' }).metrics?.host).toBe('10.0.0.9')
    expect(readConfig({ ...wide, METRICS_PORT: '' }).metrics).toBeNull()
  })

  test('the API and its metrics cannot have one port; a worker elsewhere can have the same', () => {
    expect(() => readConfig({ ...least, METRICS_PORT: '8080' })).toThrow(
      'PORT and METRICS_PORT are both 8080: set METRICS_PORT to another port',
    )
    const same = readConfig({ ...least, METRICS_PORT: '9100', WORKER_METRICS_PORT: '9100' })
    expect(same.workerMetrics).toEqual(same.metrics)
  })

  test.each([
    ['development', 'all', { mode: 'open' }, null, false],
    ['test', 'all', { mode: 'open' }, null, false],
    ['staging', 'named', { mode: 'invited' }, 3, true],
    ['production', 'named', { mode: 'invited' }, 3, true],
  ])(
    'in %s an installation is open or closed by default',
    (APP_ENV, installationTools, signUp, most, must) => {
      const config = readConfig({ ...production, APP_ENV })
      expect(config.tools.installationTools).toBe(installationTools)
      expect(config.people).toEqual({
        signUp,
        organizationsPerPerson: most,
        mustBeConfirmed: must,
        strangersPerDay: 10,
        invitationsNameOrganizations: false,
        invitedMayInvite: false,
      })
      expect(config.quotaOverrides).toBe('owner')
    },
  )

  test.each(['development', 'production'])('explicit settings win in %s too', (APP_ENV) => {
    const config = readConfig({
      ...production,
      APP_ENV,
      INSTALLATION_TOOLS: 'all',
      SIGN_UP: 'domain:Acme.com, bücher.example',
      ORGANIZATIONS_PER_PERSON: '0',
      QUOTA_OVERRIDES: 'operator',
    })
    expect(config).toMatchObject({
      tools: { installationTools: 'all' },
      people: {
        signUp: { mode: 'domain', domains: ['acme.com', 'xn--bcher-kva.example'] },
        organizationsPerPerson: 0,
      },
      quotaOverrides: 'operator',
    })
    const unlimited = readConfig({ ...production, APP_ENV, ORGANIZATIONS_PER_PERSON: 'unlimited' })
    expect(unlimited.people.organizationsPerPerson).toBeNull()
  })

  test.each([
    ['INSTALLATION_TOOLS', 'some'],
    ['SIGN_UP', 'everybody'],
    ['SIGN_UP', 'domain:'],
    ['SIGN_UP', 'domain:*.acme.com'],
    ['SIGN_UP', 'domain:acme.com,,acme.org'],
    ['SIGN_UP', 'domain:com'],
    ['SIGN_UP', 'domain:@acme.com'],
    ['ORGANIZATIONS_PER_PERSON', '-1'],
    ['ORGANIZATIONS_PER_PERSON', '1.5'],
    ['ORGANIZATIONS_PER_PERSON', 'many'],
    ['QUOTA_OVERRIDES', 'admin'],
  ])('%s=%s is refused by name', (name, value) => {
    expect(() => readConfig({ ...least, [name]: value })).toThrow(`${name} is wrong`)
  })

  test('the API answers under the hosts of ALLOWED_HOSTS, PUBLIC_URL and HOST, and metrics under that of METRICS_HOST', () => {
    const named = {
      ...least,
      ALLOWED_HOSTS: 'Countersign.internal, 10.0.0.7,[FD00:0::7],fd00::8',
      PUBLIC_URL: 'https://BÜRO.acme.com:8443/console',
      HOST: 'api.acme.internal',
      METRICS_PORT: '9100',
      METRICS_HOST: '10.0.0.9',
    }
    const both = ['countersign.internal', '10.0.0.7', 'fd00::7', 'fd00::8']
    const { http, metrics } = readConfig(named)
    expect(http.names).toEqual([...both, 'api.acme.internal', 'xn--bro-hoa.acme.com'])
    expect(metrics?.names).toEqual([...both, '10.0.0.9', 'xn--bro-hoa.acme.com'])
    const ports = ['a:80', '[::1]:80', 'https://a']
    for (const wrong of [...ports, '*', '*.acme.com', 'a b', 'büro.acme.com', 'a/b', 'a@b', '[::', '.'])
      expect(() => readConfig({ ...least, ALLOWED_HOSTS: `ok,${wrong}` })).toThrow(
        `ALLOWED_HOSTS is wrong: \`${wrong}\` is not a host`,
      )
  })

  test('accepts addresses and ranges of proxies, but no range that trusts everybody', () => {
    const proxies = (hosts: string) =>
      readConfig({ ...least, TRUSTED_PROXY_HOSTS: hosts }).http.trustedProxies
    expect(proxies('')).toEqual([])
    const narrow = ['10.0.0.7', '10.1.0.0/16', '10.0.0.0/8', 'fd00::/16', '::1', '::ffff:10.0.0.0/104']
    expect(proxies(narrow.join(', '))).toEqual(narrow)
    expect(proxies('::1,10.0.0.7')).toEqual(['::1', '10.0.0.7'])
    for (const wrong of ['*', 'proxy.internal', '10.0.0.0/33', '10.0.0', '10.0.0.7/', '10.0.0.7 10.0.0.8'])
      expect(() => proxies(`10.0.0.7,${wrong}`)).toThrow(/TRUSTED_PROXY_HOSTS is wrong: .* is not an address/)
    const mapped = ['::ffff:0:0/96', '::ffff:8.0.0.0/103']
    const ofIpv6 = ['::/0', '8000::/1', 'fd00::/15', '::/16', ...mapped]
    for (const wide of ['0.0.0.0/0', '0.0.0.0/1', '128.0.0.0/7', ...ofIpv6])
      expect(() => proxies(`10.0.0.7,${wide}`)).toThrow(`\`${wide}\` trusts too many addresses`)
    for (const none of ['0.0.0.0', '0.0.0.0/8', '::', '0:0::0'])
      expect(() => proxies(`10.0.0.7,${none}`)).toThrow(`no connection comes from \`${none}\``)
  })
})

const of = (prices: Parameters<typeof priceOf>[0], provider: string, model: string) =>
  priceOf(prices, { provider, model })
const pricesOf = (text: string) => readConfig({ ...least, LLM_PRICES: text }).tools.modelPrices

test('the first price that names the model counts', () => {
  const prices = pricesOf(
    ' openai/gpt-5=1.25/10, openai/gpt-*=2/8,,anthropic/*=3/15,openai/a/b:8b=0/0.000001 ',
  )
  const rows: [string, string, { input: number; output: number } | null][] = [
    ['openai', 'gpt-5', { input: 1.25, output: 10 }],
    ['openai', 'gpt-5-mini', { input: 2, output: 8 }],
    ['anthropic', 'anything', { input: 3, output: 15 }],
    ['openai', 'a/b:8b', { input: 0, output: 0.000001 }],
    ['ollama', 'gpt-5', null],
    ['openai', 'GPT-5', null],
  ]
  const found = rows.map(([provider, model]) => [provider, model, of(prices, provider, model)])
  expect(found).toMatchObject(rows)
})

test('without the setting, only Ollama is free', () => {
  expect(of(pricesOf(''), 'ollama', 'm')).toMatchObject({ input: 0, output: 0 })
  expect(of(pricesOf(''), 'openai', 'm')).toMatchObject({ input: 5, output: 25 })
})

const ofNoModel = ['gpt-5=1/2', 'openai/g*t=1/2', 'other/m=1/2', '**=1/2']
const ofNoPrice = ['openai/gpt=1', 'openai/gpt=-1/2', 'openai/gpt=1/2/3', 'openai/gpt=1e3/2']
test.each([...ofNoModel, ...ofNoPrice])('refuses `%s`', (text) => {
  expect(() => pricesOf(text)).toThrow(`LLM_PRICES is wrong: \`${text}\` is no price`)
})

test('refuses more than 200 prices', () => {
  const text = (count: number) => Array.from({ length: count }, (_, at) => `openai/m${at}=1/2`).join(',')
  expect(pricesOf(text(200))).toHaveLength(200)
  expect(() => pricesOf(text(201))).toThrow('LLM_PRICES is wrong: it has more than 200 prices')
})

test.each([
  ['ana@acme.com', true],
  ['ana@ACME.com', true],
  ['"ana@elsewhere.test"@acme.com', true],
  ['ana@xn--bcher-kva.example', true],
  ['ana@bücher.example', true],
  ['ana@mail.acme.com', false],
  ['ana@acme.com.evil.test', false],
  ['ana@evilacme.com', false],
  ['ana@acme.com@evil.test', false],
  ['ana@acme.com.', false],
  ['acme.com@evil.test', false],
  ['ana@', false],
  ['', false],
])('whether `%s` is in acme.com or bücher.example: %s', (email, expected) => {
  expect(isOfDomain(email, ['acme.com', 'xn--bcher-kva.example'])).toBe(expected)
})
