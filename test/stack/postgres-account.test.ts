import { chmodSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { accountFor, giveTo, type System } from '../../src/stack/postgres-account.ts'
import { temporaryFolder } from './temporary-folder.ts'

const passwd = 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/:/sbin/nologin\n'

function system(change: Partial<System>): System {
  return { uid: 0, accounts: () => passwd, works: () => true, ...change }
}

describe('the account that PostgreSQL runs as', () => {
  test('is the user’s own, except for root', () => {
    expect(accountFor('/nowhere', system({ uid: 1000 }))).toEqual({ wrap: [] })
    expect(accountFor('/nowhere', system({ uid: undefined }))).toEqual({ wrap: [] })
  })

  test('for root is an existing account in a user namespace', () => {
    const wrap = ['unshare', '--user', '--map-user=65534', '--map-group=65533', '--']
    const asked: string[] = []
    const works = (command: readonly string[]): boolean => asked.push(command.join(' ')) > 0
    expect(accountFor('/nowhere', system({ works }))).toEqual({ wrap })
    expect(asked).toEqual([[...wrap, 'true'].join(' ')])
  })

  test('prefers `postgres` over `nobody`', () => {
    const accounts = (): string => `${passwd}postgres:x:70:71:p:/:/bin/sh\n`
    expect(accountFor('/nowhere', system({ accounts, works: () => false }))).toEqual({
      wrap: [],
      uid: 70,
      gid: 71,
    })
  })

  test('without namespaces is switched to; without an account either, root is told what to do', () => {
    expect(accountFor('/nowhere', system({ works: () => false }))).toEqual({
      wrap: [],
      uid: 65534,
      gid: 65533,
    })
    expect(() => accountFor('/nowhere', system({ accounts: () => '' }))).toThrow(/start as another user, or set DATABASE_URL/) // prettier-ignore
  })

  test('a cluster is handed over completely, and the folders above it are opened no further than needed', () => {
    const dataDir = temporaryFolder()
    chmodSync(dataDir, 0o700)
    const cluster = join(dataDir, 'postgres')
    mkdirSync(join(cluster, 'base'), { recursive: true, mode: 0o700 })
    writeFileSync(join(cluster, 'base', '1'), '')
    giveTo({ wrap: [] }, cluster, dataDir)
    expect(statSync(dataDir).mode & 0o777).toBe(0o700)
    const { uid, gid } = statSync(cluster)
    giveTo({ wrap: [], uid, gid }, cluster, dataDir)
    expect(statSync(dataDir).mode & 0o777).toBe(0o711)
    expect(statSync(cluster).mode & 0o777).toBe(0o700)
  })
})
