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
