import { expect, test } from '@jest/globals'
import { h } from 'preact'
import { Badge } from '../../src/console/parts/state.tsx'
import type { PersonsVisit } from '../../src/console/visit.ts'

/* What a page can read and send. The compiler does the checks: each mistake below would be an error without its line. */

test('a page that reads, sends or shows what does not exist does not compile', () => {
  const page = async ({ api }: PersonsVisit) => {
    const run = await api.call('GET /runs/{id}', { params: { id: 'run_1' } })
    // @ts-expect-error a run has no such field
    const field = run.ok && run.body.statuss
    const part = await api.call('GET /runs/{id}', { params: { id: 'run_1' }, only: ['id', 'status'] })
    // @ts-expect-error the page did not read this field
    const unread = part.ok && part.body.inputs
    // @ts-expect-error a refused call has no body
    const refused = part.body
    // @ts-expect-error there is no such route
    await api.call('GET /runz/{id}', { params: { id: 'run_1' } })
    // @ts-expect-error the route needs the id
    await api.call('GET /runs/{id}')
    // @ts-expect-error there is no such filter
    await api.call('GET /runs', { query: { state: 'paused' } })
    // @ts-expect-error a key has no such field
    await api.call('PATCH /api-keys/{id}', { params: { id: 'key_1' }, body: { label: 'x' } })
    // @ts-expect-error a badge has no such tone
    return [field, unread, refused, h(Badge, { tone: 'blue', word: 'x' })]
  }
  expect(page).toBeInstanceOf(Function)
})
