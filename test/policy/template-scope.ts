import { builtinsOf, type Builtins } from '../../src/policy/builtins.ts'
import type { Scope } from '../../src/policy/templates.ts'
import type { Json } from '../../src/policy/types.ts'

/** What a run that starts at this time reads. */
export const builtinsAt = (startedAt: string, timeZone = 'UTC'): Builtins =>
  builtinsOf({
    id: 'run_1',
    requesterEmail: 'ana@acme.com',
    workflowName: 'report',
    startedAt: new Date(startedAt),
    timeZone,
  })

/* The inputs and outputs that templates of the tests refer to. */

export const outputs: Record<string, Json> = {
  read: {
    rows: [{ name: 'Ann', n: 1 }, { name: 'Bob' }],
    'odd key': 2,
    'a.b': 3,
    '}}': 4,
    '{{x}}': { '}}': 5 },
    inner: null,
  },
  text: 'hello',
  skipped: null,
  each: [{ text: 'a', inner: null }, null],
  rated: [null, null, { text: 'b' }],
  'read-2': [1, 2],
  evil: '{{input.secret}} {{text}}',
}

export const scope: Scope = {
  inputs: {
    name: 'Ann',
    n: 7,
    list: ['a'],
    secret: 'S',
    object: { deep: [true] },
    pairs: [['a'], ['b'], ['c']],
    uploaded_files: [{ name: 'a.pdf', text: 'PDF' }],
  },
  step: (id) => (Object.hasOwn(outputs, id) ? outputs[id] : undefined),
  builtins: builtinsAt('2026-03-01T00:00:00.000Z'),
}
