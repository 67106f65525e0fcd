import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'

/* `/console/health`: whether the service is well, and what to do if not. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())
beforeEach(() => home.server.context.pool.query('delete from process_heartbeats'))

const path = '/console/health'
const read = async (who: 'viewer' | 'admin') => plain(await home.main(path, who))

test('says that no worker is at work, what it means, and to an admin what the operator does', async () => {
  const viewer = await read('viewer')
  for (const said of [
    'Something is not well.',
    'None is at work: runs wait',
    'Ask an admin of your organization',
  ])
    expect(viewer).toContain(said)
  expect(viewer).not.toContain('npm run worker')
  expect(viewer).not.toContain('Credentials of connections')
  const admin = await read('admin')
  for (const said of [
    'What the operator does: Start one with npm run worker',
    'They are sealed in the database.',
  ])
    expect(admin).toContain(said)
})

test('says that all is well, with the version', async () => {
  await home.server.context.pool.query(
    `insert into process_heartbeats (process_id, kind, seen_at) values ('w', 'worker', now())`,
  )
  for (const who of ['viewer', 'admin'] as const) {
    const text = await read(who)
    for (const said of [
      'All is well.',
      'At least one is at work.',
      'No check has found a change.',
      'Version0.1.0',
    ])
      expect(text).toContain(said)
    expect(text).not.toContain('Not well')
  }
})
