import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { readConfig } from '../../../src/shared/config.ts'
import { isNamed, isPublicAddress, loopbackHosts } from '../../../src/shared/outgoing/hosts.ts'

const least = {
  DATABASE_URL: 'postgresql://db/x',
  DATA_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
}
const hostsOf = (text: string) => readConfig({ ...least, CONNECTION_HOSTS: text }).connections.hosts

describe('an address is public', () => {
  test.each(['8.8.8.8', '140.82.121.6', '2606:4700::6810:84e5', '::ffff:8.8.8.8'])('%s', (address) => {
    expect(isPublicAddress(address)).toBe(true)
  })
})

describe('an address is not public', () => {
  test.each([
    '127.0.0.1',
    '127.255.0.9',
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '0.0.0.0',
    '224.0.0.1',
    '255.255.255.255',
    '192.0.2.1',
    '198.18.0.1',
    '::',
    '::1',
    'fe80::1',
    'fe80::1%eth0',
    'fc00::1',
    'fd12:3456::1',
    'ff02::1',
    '2001:db8::1',
    '::ffff:10.0.0.1',
    '::ffff:7f00:1',
    // NAT64, 6to4 and Teredo forms contain an IPv4 address.
    '64:ff9b::a00:1',
    '2002:a00:1::1',
    '2001:0:4136:e378:8000:63bf:3fff:fdd2',
    // Reserved: an old form of an embedded IPv4 address, a site-local address, and an unassigned address.
    '::7f00:1',
    'fec0::1',
    '4000::1',
    // Azure's address of a service on the host.
    '168.63.129.16',
    '::ffff:168.63.129.16',
    'localhost',
    '',
    '127.1',
    '0x7f000001',
    '2130706433',
  ])('%s', (address) => {
    expect(isPublicAddress(address)).toBe(false)
  })

  test('every address of the private ranges, in both forms', () => {
    const byte = fc.integer({ min: 0, max: 255 })
    const inside = fc.oneof(
      fc.tuple(fc.constant(10), byte, byte, byte),
      fc.tuple(fc.constant(127), byte, byte, byte),
      fc.tuple(fc.constant(192), fc.constant(168), byte, byte),
      fc.tuple(fc.constant(172), fc.integer({ min: 16, max: 31 }), byte, byte),
      fc.tuple(fc.constant(169), fc.constant(254), byte, byte),
    )
    fc.assert(
      fc.property(inside, (bytes) => {
        const address = bytes.join('.')
        expect([address, isPublicAddress(address), isPublicAddress(`::ffff:${address}`)]).toEqual([
          address,
          false,
          false,
        ])
      }),
    )
  })
})

describe('CONNECTION_HOSTS', () => {
  test('names hosts with and without a port', () => {
    const hosts = hostsOf('git.Internal, 10.0.0.7:8443,[FD00:0::7]:443,[fd00::8]')
    const rows: [string, number, boolean][] = [
      ['git.internal', 443, true],
      ['GIT.internal', 8080, true],
      ['a.git.internal', 443, false],
      ['10.0.0.7', 8443, true],
      ['10.0.0.7', 443, false],
      ['[fd00::7]', 443, true],
      ['fd00:0:0::7', 443, true],
      ['[fd00::7]', 444, false],
      ['[fd00::8]', 1, true],
    ]
    expect(rows.map(([host, port]) => [host, port, isNamed(hosts, host, port)])).toEqual(rows)
  })

  test.each(['http://a', 'a:0', 'a:70000', 'a/b', '10.0.0.0/8', '[10.0.0.1]', '*', 'a b', '::1'])(
    'refuses `%s`',
    (text) => {
      expect(() => hostsOf(text)).toThrow(`CONNECTION_HOSTS is wrong: \`${text}\` is not a host`)
    },
  )

  test('is loopback in development, and nothing where many can reach the service', () => {
    expect(readConfig(least).connections.hosts).toEqual(loopbackHosts)
    expect(readConfig({ ...least, APP_ENV: 'staging' }).connections.hosts).toEqual([])
    expect(hostsOf('git.internal')).toEqual([{ host: 'git.internal', port: null }])
  })
})
