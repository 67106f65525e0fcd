import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { writeBootstrap, type Identities } from '../../src/stack/bootstrap.ts'
import { temporaryFolder } from './temporary-folder.ts'

const person = (name: string) => ({
  user_id: `usr_${name}`,
  email: `${name}@x`,
  password: name,
  api_key: name,
})
const identities: Identities = {
  organization_id: 'org_1',
  users: {
    owner: person('owner'),
    admin: person('admin'),
    approver: person('approver'),
    member: person('member'),
    viewer: person('viewer'),
  },
  agent_key: 'key',
}
const addresses = (port: number) => ({
  base_url: `http://127.0.0.1:${port}`,
  console_url: `http://127.0.0.1:${port}/console/`,
  temporal_ui_url: null,
  worker_metrics_url: 'http://127.0.0.1:2/metrics',
  metrics_url: 'http://127.0.0.1:9/metrics',
  database_url: 'postgresql://app',
  database_admin_url: 'postgresql://admin',
  temporal_address: '127.0.0.1:1',
  temporal_namespace: 'default',
})
const quiet = (): void => undefined

describe('bootstrap.json', () => {
  test('later starts refresh the addresses and keep the identities', () => {
    const dataDir = temporaryFolder()
    const path = join(dataDir, 'bootstrap.json')
    expect(writeBootstrap(dataDir, addresses(1), identities, quiet)).toBe(true)
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ ...addresses(1), ...identities })
    expect(writeBootstrap(dataDir, addresses(2), null, quiet)).toBe(true)
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ ...addresses(2), ...identities })
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  test.each([
    ['gone', null],
    ['torn', '{"organization_id": "org'],
  ])('a file that is %s gets new addresses, and the loss is reported', (_, content) => {
    const dataDir = temporaryFolder()
    if (content !== null) writeFileSync(join(dataDir, 'bootstrap.json'), content)
    const lines: string[] = []
    expect(writeBootstrap(dataDir, addresses(1), null, (line) => lines.push(line))).toBe(false)
    expect(JSON.parse(readFileSync(join(dataDir, 'bootstrap.json'), 'utf8'))).toEqual(addresses(1))
    expect(lines).toHaveLength(1)
  })
})
