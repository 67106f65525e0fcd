import { describe, expect, test } from '@jest/globals'
import { isWithinAudience, type Audience, type Reader } from '../../src/policy/audience.ts'

const address = (text: string): Reader => ({ kind: 'address', address: text })
const domain = (text: string): Reader => ({ kind: 'domain', domain: text })
const acme: Audience = [['acme.com']]

describe('everybody who can read is within the domains of each policy', () => {
  test.each<[string, Audience, readonly Reader[], boolean]>([
    ['nobody', acme, [], true],
    ['no policy', [], [{ kind: 'anybody' }], true],
    ['people and the whole domain', acme, [address('a@acme.com'), domain('acme.com')], true],
    ['a domain below', acme, [address('a@mail.acme.com'), domain('mail.acme.com')], true],
    ['capitals', [['ACME.com']], [address('A@Acme.COM')], true],
    ['several domains', [['acme.com', 'acme.org']], [address('a@acme.org'), domain('acme.com')], true],
    ['one outside', acme, [address('a@acme.com'), address('b@evil.test')], false],
    ['another domain', acme, [domain('evil.test')], false],
    ['everybody', acme, [{ kind: 'anybody' }], false],
    ['a domain above', [['mail.acme.com']], [domain('acme.com')], false],
    ['a domain that goes on', acme, [address('a@acme.com.evil.test')], false],
    ['a domain that ends alike', acme, [domain('evilacme.com')], false],
    ['mixed scripts', acme, [address('a@аcme.com')], false],
    ['two addresses in one', acme, [address('b@evil.test,a@acme.com')], false],
    ['two signs', acme, [address('b@evil.test@acme.com')], false],
    ['a name around it', acme, [address('"a@acme.com" <b@evil.test>')], false],
    ['no address', acme, [address('acme.com')], false],
    ['an empty domain', acme, [domain('')], false],
    ['a bucket that anybody can make', [['amazonaws.com']], [domain('evil.s3.amazonaws.com')], false],
    ['in both lists', [['acme.com', 'acme.org'], ['acme.com']], [address('a@acme.com')], true],
    ['in one of two lists', [['acme.com', 'acme.org'], ['acme.com']], [address('a@acme.org')], false],
  ])('%s', (_, audience, readers, isWithin) => {
    expect(isWithinAudience(audience, readers)).toBe(isWithin)
  })
})
