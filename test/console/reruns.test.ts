import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { newId } from '../../src/contract/ids.ts'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'

/* The pages on which many ended runs are made again. No worker starts them here: test/workflows/reruns.test.ts does. */

const place = '/console/reruns'
let home: PagesHome
let run = ''

beforeAll(async () => {
  home = await startPages()
  const { body: workflow } = await home.call('admin', 'POST', '/workflows', {
    name: 'Report',
    definition: { steps: [{ id: 'read', tool: 'file_read', params: { path: 'a.md' } }] },
  })
  const started = await home.call('member', 'POST', `/workflows/${workflow.id}/execute?wait=0`, {})
  run = started.body.execution_id
  await home.call('member', 'POST', `/runs/${run}/cancel`, {})
})
afterAll(() => home?.server.close())

test('the list of runs leads to it, and the page says how many match before anything starts', async () => {
  expect(await home.main('/console/runs?status=cancelled', 'member')).toContain(`${place}?status=cancelled`)
  expect(await home.main('/console/runs', 'viewer')).not.toContain(place)
  expect(plain(await home.main(place, 'member'))).toContain('Nobody has asked for this yet.')
  expect(plain(await home.main(`${place}?status=cancelled`, 'member'))).toContain('One run matches.')
  expect(plain(await home.main(`${place}?status=cancelled&whose=mine`, 'admin'))).toContain('No run matches.')
  expect(plain(await home.main(`${place}?status=failed`, 'member'))).toContain('No run matches.')
  expect(plain(await home.main(`${place}?status=cancelled&from=soon`, 'member'))).toContain('filter.since')
})

test('the form starts it once, its page shows progress and stops it', async () => {
  const cookie = await home.cookieOf('member')
  const token = await home.tokenOf(`${place}?status=cancelled`, 'member')
  const fields = { token, once: newId('run'), status: 'cancelled', version: 'latest', on_repeat: 'skip' }
  const [first, second] = [
    await home.post(place, fields, {}, cookie),
    await home.post(place, fields, {}, cookie),
  ]
  const made = first.headers.get('location') ?? ''
  expect([made, second.headers.get('location')]).toEqual([
    expect.stringMatching(/^\/console\/reruns\/rrn_/),
    made,
  ])
  const { body } = await home.call(
    'member',
    'GET',
    `/organizations/${home.server.identities.organization_id}/reruns`,
  )
  expect(body.data).toMatchObject([
    {
      filter: { status: 'cancelled' },
      options: { from: 'failed', version: 'latest', on_repeat: 'skip' },
      counts: { total: 1, waiting: 1 },
    },
  ])
  const page = plain(await home.main(made, 'member'))
  expect(page).toContain('Going on: 0 of 1')
  expect(page).toContain('Waits for its turn')
  expect(await home.main(made, 'viewer')).not.toContain('Start no further run')
  const stopped = await home.post(made, { token: await home.tokenOf(made, 'member') }, {}, cookie)
  expect(stopped.headers.get('location')).toBe(`${made}?done=cancel`)
  expect(plain(await home.main(`${made}?done=cancel`, 'member'))).toContain('Ended: 1 not started')
})
