import { expect, test } from '@jest/globals'
import { h } from 'preact'
import { render } from 'preact-render-to-string'
import { Contents } from '../../../src/console/parts/contents.ts'

test('an approval of a whole run shows every step that it covers, also those after the first hundred', () => {
  const steps = Array.from({ length: 150 }, (_, n) => ({
    id: `step_${n}`,
    tool: n === 149 ? 'mail_send' : 'memory_get',
    summary: null,
    depends_on: [],
    when: null,
    for_each: null,
  }))
  const approval = { kind: 'run', run_id: 'run_x', status: 'pending' }
  const props = { approval, run: { steps, inputs: {} }, mayDecide: true, isDone: false }
  const page = render(h(Contents, props as never))
  for (const { id } of steps) expect(page).toContain(`>${id}<`)
  expect(page).toContain('mail_send')
  expect(page).toContain('50 more steps')
})

const step = (id: string) => ({
  id,
  tool: 'mail_send',
  summary: null,
  depends_on: [],
  when: null,
  for_each: null,
})
const pageOf = (steps: readonly { id: string; params: object }[], more: object = {}) => {
  const approval = { kind: 'run', run_id: 'run_x', status: 'pending' }
  const run = { steps: steps.map(({ id }) => step(id)), inputs: {}, definition: { steps }, ...more }
  return render(h(Contents, { approval, run, mayDecide: true, isDone: false } as never))
}

test('an approval of a whole run shows what each step calls, and says what is missing', () => {
  const page = pageOf([{ id: 'a', params: { to: 'bo@evil.net', text: '{{input.x}}' } }])
  for (const words of ['bo@evil.net', '{{input.x}}', '<code>{{…}}</code> stand for inputs'])
    expect(page).toContain(words)
  expect(pageOf([{ id: 'a', params: { to: 'bo@evil.net' } }])).not.toContain('stand for inputs')
  expect(pageOf([{ id: 'a', params: {} }], { definition: null })).toContain('could not be read')
})

test('the steps of a whole run share the room of one page', () => {
  const text = 'x'.repeat(1_000_000)
  const page = pageOf([
    { id: 'a', params: { text } },
    { id: 'b', params: { text } },
  ])
  expect(page.length).toBeLessThan(2_500_000)
  expect(page).toContain('What this step calls is not on this page.')
})
