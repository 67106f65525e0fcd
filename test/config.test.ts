import { describe, expect, test } from '@jest/globals'
import { publicBase, readConfig } from '../src/config.ts'

const key = Buffer.alloc(32, 7).toString('base64')
const least = { DATABASE_URL: 'postgresql://db/countersign', DATA_ENCRYPTION_KEY: key }
const production = {
  ...least,
  APP_ENV: 'production',
  SESSION_SECRET_KEY: 's'.repeat(32),
  TRUSTED_PROXY_HOSTS: '10.0.0.7',
}

describe('readConfig', () => {
  test('fills in defaults', () => {
    const config = readConfig(least)
    expect(config).toMatchObject({ env: 'development', http: { port: 8080, docs: true } })
    expect(config.runApprovalSeconds).toBe(604_800)
    expect(config.encryptionKeys).toEqual([Buffer.alloc(32, 7)])
  })

  test('takes a certificate and its key together or not at all; links follow', () => {
    expect(publicBase(readConfig(least))).toBe('http://127.0.0.1:8080')
    const both = { ...least, TLS_CERT_FILE: 'a.pem', TLS_KEY_FILE: 'b.pem' }
    expect(readConfig(both).http.tls).toEqual({ certFile: 'a.pem', keyFile: 'b.pem' })
    expect(publicBase(readConfig(both))).toBe('https://127.0.0.1:8080')
    for (const name of ['TLS_CERT_FILE', 'TLS_KEY_FILE'])
      expect(() => readConfig({ ...both, [name]: '' })).toThrow('set both, or neither')
  })

  test('derives the session secret, where none is set, so that all processes agree', () => {
    const { sessionSecret } = readConfig(least)
    expect(sessionSecret.length).toBeGreaterThanOrEqual(32)
    expect(readConfig(least).sessionSecret).toBe(sessionSecret)
    expect(sessionSecret).not.toContain(readConfig(least).encryptionKeys[0].toString('base64url'))
    expect(readConfig(production).sessionSecret).toBe('s'.repeat(32))
  })

  test('counts a variable that is set to nothing as not set', () => {
    const config = readConfig({ ...least, SMTP_URL: '', PORT: '' })
    expect(config).toMatchObject({ tools: { smtpUrl: null }, http: { port: 8080 } })
  })

  test('names every variable that is missing or wrong in one error', () => {
    expect(() => readConfig({ PORT: 'none' })).toThrow(/DATABASE_URL.*PORT.*DATA_ENCRYPTION_KEY/)
    expect(() => readConfig({ ...least, DATA_ENCRYPTION_KEY: 'short' })).toThrow('32 bytes')
  })

  test.each([
    ['no session key', { SESSION_SECRET_KEY: undefined }, 'SESSION_SECRET_KEY'],
    ['a short session key', { SESSION_SECRET_KEY: 's'.repeat(31) }, 'SESSION_SECRET_KEY'],
    ['docs', { ENABLE_DOCS: 'true' }, 'ENABLE_DOCS'],
    ['developer routes', { ENABLE_DEVELOPER_ROUTES: '1' }, 'ENABLE_DEVELOPER_ROUTES'],
  ])('with %s production does not start and staging warns', (_what, change, named) => {
    expect(() => readConfig({ ...production, ...change })).toThrow(named)
    const { warnings } = readConfig({ ...production, ...change, APP_ENV: 'staging' })
    expect(warnings).toEqual([expect.stringContaining(named)])
    expect(readConfig({ ...production, ...change, APP_ENV: 'development' }).warnings).toEqual([])
  })

  test('takes addresses and ranges of proxies, and nothing that trusts everybody', () => {
    const proxies = (hosts: string) =>
      readConfig({ ...least, TRUSTED_PROXY_HOSTS: hosts }).http.trustedProxies
    expect(proxies('')).toEqual([])
    expect(proxies('10.0.0.7, 10.1.0.0/16,fd00::/8,::1')).toEqual([
      '10.0.0.7',
      '10.1.0.0/16',
      'fd00::/8',
      '::1',
    ])
    for (const wrong of [
      '*',
      'proxy.internal',
      '0.0.0.0/0',
      '::/0',
      '10.0.0.0/33',
      '10.0.0',
      '10.0.0.7/',
      '10.0.0.7 10.0.0.8',
    ])
      expect(() => proxies(`10.0.0.7,${wrong}`)).toThrow(/TRUSTED_PROXY_HOSTS is wrong: .* is no address/)
  })

  test('recommends naming the proxies where TLS is left to one, in staging and production', () => {
    const unnamed = { ...production, TRUSTED_PROXY_HOSTS: '' }
    expect(readConfig(unnamed).warnings).toEqual([expect.stringContaining('TRUSTED_PROXY_HOSTS')])
    expect(readConfig({ ...unnamed, TLS_CERT_FILE: 'a.pem', TLS_KEY_FILE: 'b.pem' }).warnings).toEqual([])
    expect(readConfig(production).warnings).toEqual([])
    expect(readConfig({ ...unnamed, APP_ENV: 'development' }).warnings).toEqual([])
  })

  test('hides the docs in production, and elsewhere when told so', () => {
    expect(readConfig(production).http.docs).toBe(false)
    expect(readConfig({ ...least, ENABLE_DOCS: 'false' }).http.docs).toBe(false)
  })
})
