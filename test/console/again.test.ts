import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { newId } from '../../src/contract/ids.ts'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'

/* The page on which an ended run is made again. */

let home: PagesHome
let run = ''
let place = ''

beforeAll(async () => {
  home = await startPages()
  const { body: workflow } = await home.call('admin', 'POST', '/workflows', {
    name: 'Report',
    definition: {
      inputs: {
        path: { type: 'string', required: true },
        text: { type: 'string' },
        days: { type: 'number' },
      },
      steps: [{ id: 'read', tool: 'file_read', params: { path: '{{input.path}}' } }],
    },
  })
  const inputs = { path: 'reports/q4.md', text: 'x'.repeat(5_000), days: 3 }
  const started = await home.call('member', 'POST', `/workflows/${workflow.id}/execute?wait=0`, { inputs })
  run = started.body.execution_id
  place = `/console/runs/${run}/again`
})
afterAll(() => home?.server.close())

async function send(fields: Record<string, string>, once = newId('run')): Promise<Response> {
  const token = await home.tokenOf(place, 'member')
  return home.post(place, { token, once, ...fields }, {}, await home.cookieOf('member'))
}

test('a run that goes on has no such page and no link to it', async () => {
  expect(await home.main(`/console/runs/${run}`, 'member')).not.toContain(place)
  const answer = await home.get(place, await home.cookieOf('member'))
  expect([answer.status, answer.headers.get('location')]).toEqual([303, `/console/runs/${run}`])
})

test('the fields have the inputs of the run, and a long text stays as it is', async () => {
  await home.call('member', 'POST', `/runs/${run}/cancel`, {})
  expect(await home.main(`/console/runs/${run}`, 'member')).toContain(place)
  expect((await home.main(`/console/runs/${run}`, 'member')).split('class="columns"')[0]).toContain(place)
  expect(await home.main(`/console/runs/${run}`, 'viewer')).not.toContain(place)
  const page = await home.main(place, 'member')
  expect(page).toMatch(/value="reports\/q4.md"[^>]*name="inputs.path"/)
  expect(page).toMatch(/value="3"[^>]*name="inputs.days"/)
  expect(page).not.toContain('inputs.text')
})

test('a call that was made is named with the inputs that it reads, also through another step', async () => {
  const { body: workflow } = await home.call('admin', 'POST', '/workflows', {
    name: 'Told and failed',
    definition: {
      inputs: { path: { type: 'string', required: true }, other: { type: 'string' } },
      steps: [
        { id: 'note', tool: 'memory_set', params: { key: 'path', value: '{{input.path}}' } },
        { id: 'tell', tool: 'memory_set', params: { key: 'told', value: '{{note.output.key}}' } },
        { id: 'alone', tool: 'memory_set', params: { key: 'alone', value: 'yes' } },
        { id: 'read', tool: 'file_read', params: { path: '{{input.path}}' }, depends_on: ['tell', 'alone'] },
      ],
    },
  })
  const inputs = { path: 'reports/q4.md' }
  const begun = await home.call('member', 'POST', `/workflows/${workflow.id}/execute?wait=0`, { inputs })
  const told: string = begun.body.execution_id
  await home.call('member', 'POST', `/runs/${told}/cancel`, {})
  await home.server.context.db
    .updateTable('run_steps')
    .set({ status: 'completed' })
    .where('run_id', '=', told)
    .where('step_id', '!=', 'read')
    .execute()
  const page = plain(await home.main(`/console/runs/${told}/again`, 'member'))
  expect(page).toContain('note (memory_set) reads path')
  expect(page).toContain('tell (memory_set) reads path')
  expect(page).not.toMatch(/alone \(|read \(/)
})

test('a run whose workflow was deleted says so, in place of the form', async () => {
  const { body: workflow } = await home.call('admin', 'POST', '/workflows', {
    name: 'Deleted later',
    definition: { steps: [{ id: 'read', tool: 'file_read', params: { path: 'a.md' } }] },
  })
  const begun = await home.call('member', 'POST', `/workflows/${workflow.id}/execute?wait=0`, {})
  const orphan: string = begun.body.execution_id
  await home.call('member', 'POST', `/runs/${orphan}/cancel`, {})
  await home.call('admin', 'DELETE', `/workflows/${workflow.id}`)
  const { status, body } = await home.call('member', 'POST', `/runs/${orphan}/rerun`, {})
  expect([status, body.error.message]).toEqual([409, expect.stringContaining('its workflow was deleted')])
  expect(plain(await home.main(`/console/runs/${orphan}/again`, 'member'))).toContain(
    'The workflow of this run was deleted: start the one that took its place.',
  )
})

test('a wrong field is named, and one tap or two make one run, which both pages name', async () => {
  const wrong = await send({ 'inputs.path': 'reports/q3.md', 'inputs.days': 'three' })
  expect([wrong.status, plain(await wrong.text())]).toEqual([
    422,
    expect.stringContaining('Must be a number'),
  ])
  const fields = { 'inputs.path': 'reports/q3.md', 'inputs.days': '4', from: 'start', on_repeat: 'skip' }
  const once = newId('run')
  const [first, second] = [await send(fields, once), await send(fields, once)]
  expect(first.headers.get('location')).toBe(second.headers.get('location'))
  const made = first.headers.get('location')?.split('/').at(-1) ?? ''
  const { body } = await home.call('member', 'GET', `/runs/${made}`)
  expect(body).toMatchObject({
    rerun_of: run,
    inputs: { path: 'reports/q3.md', days: 4, text: 'x'.repeat(5_000) },
  })
  expect(await home.main(`/console/runs/${made}`, 'member')).toContain(`/console/runs/${run}`)
  expect(plain(await home.main('/console/runs', 'member'))).toContain('Made again from an earlier run')
  await home.call('member', 'POST', `/runs/${made}/cancel`, {})
  const emptied = await send({ 'inputs.path': 'reports/q4.md', 'inputs.days': '' })
  const { body: third } = await home.call(
    'member',
    'GET',
    `/runs/${emptied.headers.get('location')?.split('/').at(-1)}`,
  )
  expect(third.inputs).toEqual({ path: 'reports/q4.md', text: 'x'.repeat(5_000) })
  const refused = await send(fields)
  expect([refused.status, plain(await refused.text())]).toEqual([
    409,
    expect.stringContaining('has not ended'),
  ])
})
