import { describe, expect, test } from '@jest/globals'
import { note, outside, steps, usePreviews, type Previews, type Who } from './previews.ts'

let ask: Previews['ask']
let preview: Previews['preview']
let saved: Previews['saved']
let organization: string
let id: string
usePreviews((started) => ({ ask, preview, saved, organization, id } = started))

describe('what else a preview shows', () => {
  test('tool policies of the caller’s role: a block, and a limit that an input may break', async () => {
    const at = `${organization}/tool-policies`
    await ask('owner', 'POST', at, { tool_name: 'memory_set', role: 'member', allowed: false })
    const limits = { tool_name: 'mail_send', restrictions: { allowed_domains: ['acme.com'] } }
    await ask('owner', 'POST', at, limits)
    const send = { id: 's', tool: 'mail_send', params: { to: '{{input.v}}', subject: 'x', text: 'y' } }
    const shown = async (who: Who, body: object) => {
      const answer = await preview(id, { ...steps(note, send), ...body }, who)
      return answer.body.steps.map(
        (step: { verdict: string; certainty: string; role_policy: { reason: string } }) => [
          step.verdict,
          step.certainty,
          step.role_policy?.reason ?? null,
        ],
      )
    }
    const beyond = 'outside the limits of the organization'
    expect(await shown('member', {})).toEqual([
      ['deny', 'definite', 'tool blocked for role member'],
      ['deny', 'possible', beyond],
    ])
    expect(await shown('admin', { inputs: { v: 'a@acme.com' } })).toEqual([
      ['allow', 'definite', null],
      ['allow', 'definite', null],
    ])
    expect((await shown('admin', { inputs: { v: 'b@evil.net' } }))[1]).toEqual(['deny', 'definite', beyond])
    await ask('owner', 'DELETE', `${at}/memory_set?role=member`)
    await ask('owner', 'DELETE', `${at}/mail_send`)
  })

  test('a tool that does not work here, and a step that may not run', async () => {
    const definition = {
      inputs: { go: { type: 'boolean' } },
      steps: [
        {
          id: 'never',
          tool: 'memory_get',
          params: { key: 'k' },
          when: { value: 'a', operator: 'equals', compare: 'b' },
        },
        {
          id: 'maybe',
          tool: 'web_search',
          params: { query: 'x' },
          when: { value: '{{input.go}}', operator: 'exists' },
        },
        { id: 'always', tool: 'memory_get', params: { key: 'k' } },
      ],
    }
    const { body } = await preview(id, { definition })
    expect(body.steps).toMatchObject([
      { runs: 'never', available: true },
      {
        runs: 'possibly',
        connected: false,
        available: false,
        unavailable_because: expect.stringContaining('`web_search`'),
      },
      { runs: 'certainly', available: true, labels: { others_from: [] } },
    ])
    expect(body.executable).toBe(true)
  })

  test('limits that only the call can check: who can read a place, and the size of an output', async () => {
    const at = `${organization}/tool-policies`
    const domains = { allowed_domains: ['acme.com'] }
    await ask('owner', 'POST', at, { tool_name: 'docs_create', restrictions: domains })
    await ask('owner', 'POST', at, { tool_name: 'sheets_append', restrictions: domains, role: 'viewer' })
    await ask('owner', 'POST', at, { tool_name: 'file_read', restrictions: { max_response_size_kb: 64 } })
    const doc = { id: 'd', tool: 'docs_create', params: { title: 't', content: 'c', folder: '{{input.v}}' } }
    const row = { id: 'a', tool: 'sheets_append', params: { spreadsheet: 'S', range: 'A1', rows: [['x']] } }
    const file = { id: 'f', tool: 'file_read', params: { path: 'a' } }
    const never = { ...doc, id: 'n', when: { value: 'a', operator: 'equals', compare: 'b' } }
    const { body } = await preview(id, steps(doc, row, file, never))
    const asked = (tool: string) =>
      `The service is asked who can read what \`${tool}\` writes to: only people in \`acme.com\` may (\`allowed_domains\`).`
    expect(body.steps.map((step: { checked_during_call: string[] }) => step.checked_during_call)).toEqual([
      [asked('docs_create')],
      [asked('sheets_append')],
      ['An output of more than 64 KiB as JSON is refused (`max_response_size_kb`).'],
      [],
    ])
    const forMember = await preview(id, steps(row), 'member')
    expect(forMember.body.steps[0].checked_during_call).toEqual([])
    for (const path of ['docs_create', 'sheets_append?role=viewer', 'file_read'])
      await ask('owner', 'DELETE', `${at}/${path}`)
  })

  test('rules that a tool policy leaves unasked, and shadow rules', async () => {
    const save = async (body: object) => (await ask('admin', 'POST', `${organization}/rules`, body)).body.id
    const watched = { name: 'watched', verdict: 'deny', status: 'shadow', tools: ['memory_set'] }
    const held = { name: 'held', verdict: 'require_approval', tools: ['memory_set'], params: [{ param: 'value', operator: 'equals', value: 'x' }] } // prettier-ignore
    const rules = [await save(watched), await save(held)]
    const shown = async () =>
      (await preview(id, steps(note), 'member')).body.steps[0].rules.map((rule: Record<string, unknown>) => [
        rule['name'],
        rule['certainty'],
        rule['shadow'],
      ])
    const both = [
      ['watched', 'definite', true],
      ['held', 'possible', false],
    ]
    expect((await preview(id, steps(note), 'member')).body).toMatchObject({ executable: true, steps: [{ at_least: 'allow' }] }) // prettier-ignore
    expect(await shown()).toEqual(both)
    await ask('owner', 'POST', `${organization}/tool-policies`, { tool_name: 'memory_set', allowed: false })
    expect((await preview(id, steps(note), 'member')).body.steps[0]).toMatchObject({
      certainty: 'definite',
      role_policy: { certainty: 'definite' },
    })
    expect(await shown()).toEqual(both)
    await ask('owner', 'DELETE', `${organization}/tool-policies/memory_set`)
    for (const rule of rules) await ask('admin', 'DELETE', `${organization}/rules/${rule}`)
  })

  test('an organization that is frozen denies every step, and says so', async () => {
    await ask('admin', 'POST', `${organization}/rules`, outside)
    const when = { value: '{{input.v}}', operator: 'exists' }
    const later = { id: 'later', tool: 'memory_get', params: { key: 'k' }, when }
    const skipped = await saved(steps(later).definition)
    await ask('owner', 'POST', `${organization}/freeze`, { reason: 'an incident' })
    const explanation = 'The organization is frozen, so every call is denied: an incident'
    const { body } = await preview(id)
    expect(body).toMatchObject({
      executable: false,
      not_executable_because: 'step `read` would be denied by `organization frozen`',
      steps: [
        { verdict: 'deny', certainty: 'definite', frozen: explanation },
        { verdict: 'deny', certainty: 'definite', frozen: explanation },
      ],
    })
    // The rules are still listed.
    expect(body.steps[1].rules).toMatchObject([{ name: outside.name, certainty: 'possible' }])
    expect((await preview(id, steps(later))).body).toMatchObject({
      verdict: 'deny',
      executable: false,
      not_executable_because: 'step `later` would be denied by `organization frozen`',
      steps: [{ verdict: 'deny', certainty: 'possible', frozen: explanation }],
    })
    const started = await ask('member', 'POST', `/workflows/${skipped}/execute?wait=0`, {})
    expect(started.body.error.code).toBe('run_denied')
    await ask('owner', 'POST', `${organization}/unfreeze`, { reason: 'over' })
  })
})
