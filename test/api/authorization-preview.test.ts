import { beforeAll, describe, expect, test } from '@jest/globals'
import { definition, outside, usePreviews, type Previews } from './previews.ts'

let ask: Previews['ask']
let preview: Previews['preview']
let saved: Previews['saved']
let organization: string
usePreviews((started) => ({ ask, preview, saved, organization } = started))

describe('a preview', () => {
  let id: string
  beforeAll(async () => {
    id = await saved()
    await ask('admin', 'POST', `${organization}/rules`, outside)
  })

  test('without inputs shows what is definite and what is possible', async () => {
    const { status, body } = await preview(id)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      verdict: 'deny',
      executable: true,
      not_executable_because: null,
      unknown_inputs: ['to', 'cc'],
      run_approval: {
        required: false,
        certainty: 'definite',
        risk_level: 'high',
        highest_risk_level: 'critical',
      },
      steps: [
        {
          step_id: 'read',
          tool: 'file_read',
          side_effect: 'read',
          verdict: 'allow',
          certainty: 'definite',
          labels: { definite: [], possible: [], others_from: [], left_out: 0 },
          rules: [],
          role_policy: null,
          frozen: null,
          checked_during_call: [],
          connected: true,
          available: true,
        },
        {
          step_id: 'send',
          side_effect: 'egress',
          verdict: 'deny',
          certainty: 'possible',
          labels: { definite: ['internal'], possible: ['internal'] },
          rules: [
            {
              name: outside.name,
              verdict: 'deny',
              certainty: 'possible',
              because:
                'it sends data out, the data is labelled internal and `to` is outside `acme.com` if `input.to` is',
            },
          ],
        },
      ],
    })
  })

  test('with inputs is the run with these inputs, and agrees with `execute`', async () => {
    const inside = await preview(id, { inputs: { to: 'a@acme.com' } })
    expect(inside.body).toMatchObject({ verdict: 'allow', executable: true, unknown_inputs: [] })
    const denied = await preview(id, { inputs: { to: 'b@evil.net' } })
    expect(denied.body).toMatchObject({
      verdict: 'deny',
      executable: false,
      not_executable_because: 'step `send` would be denied by `internal data stays inside`',
      steps: [{}, { verdict: 'deny', certainty: 'definite', rules: [{ certainty: 'definite' }] }],
    })
    const run = (to: string) => ask('member', 'POST', `/workflows/${id}/execute?wait=0`, { inputs: { to } })
    expect((await run('b@evil.net')).body.error.code).toBe('run_denied')
    expect((await run('a@acme.com')).status).toBe(202)
  })

  test('while a required input is missing, the inputs that are not given are unknown', async () => {
    const { body } = await preview(id, { inputs: { cc: 'a@acme.com' } })
    expect(body).toMatchObject({ unknown_inputs: ['to'], steps: [{}, { certainty: 'possible' }] })
  })

  test('shows a saved version, or a definition that is not saved', async () => {
    const changed = structuredClone(definition)
    ;(changed.steps[1] as { params: { to: string } }).params.to = 'b@evil.net'
    const unsaved = await preview(id, { definition: changed })
    expect(unsaved.body.steps[1]).toMatchObject({ verdict: 'deny', certainty: 'definite' })
    await ask('member', 'PUT', `/workflows/${id}`, { definition: changed })
    expect((await preview(id)).body.executable).toBe(false)
    expect((await preview(id, { version: 1 })).body.executable).toBe(true)
    expect((await preview(id, { version: 9 })).status).toBe(404)
  })

  test.each<[string, object, string]>([
    [
      'an unknown tool',
      { definition: { steps: [{ id: 's', tool: 'none', params: {} }] } },
      'definition.steps.0.tool',
    ],
    [
      'an unknown reference',
      { definition: { steps: [{ id: 's', tool: 'memory_get', params: { key: '{{input.x}}' } }] } },
      'definition.steps.0.params.key',
    ],
    ['a definition without steps', { definition: { steps: [] } }, 'definition.steps'],
    ['an input that the workflow has not', { inputs: { none: 1 } }, 'inputs.none'],
    ['an input of another type', { inputs: { to: 7 } }, 'inputs.to'],
    [
      'labels of an input that the workflow has not',
      { input_labels: { none: ['pii'] } },
      'input_labels.none',
    ],
    ['a version beside a definition', { version: 1, definition }, 'version'],
    ['an unknown field', { colour: 'red' }, 'colour'],
  ])('refuses %s and names its place', async (_, body, path) => {
    const { status, body: answer } = await preview(id, body)
    expect(status).toBe(422)
    expect(answer.error.details.map((detail: { path: string }) => detail.path)).toContain(path)
  })

  test('records nothing', async () => {
    const total = async () => (await ask('admin', 'GET', `${organization}/governance/audit`)).body.total
    const before = await total()
    await preview(id)
    expect(await total()).toBe(before)
  })
})
