import { afterAll, describe, expect, test } from '@jest/globals'
import { routes } from '../../../src/api/routes/index.ts'
import { splitKey, type RouteKey } from '../../../src/api/access.ts'
import { useTestStack } from '../../workflows/worker-fixture.ts'
import { fieldsOf } from './fields.ts'
import { memoryProofs, policyProofs, quotaProofs, settingProofs } from './governance.ts'
import { invitationProofs, keyProofs, memberProofs, organizationProofs } from './people.ts'
import { labelRuleProofs, ruleProofs } from './rules.ts'
import { executeProofs, workflowProofs } from './workflows.ts'
import { startApi, World, type Api, type Proofs } from './world.ts'

/* Every field that can be set, from the schemas themselves: two values of it, and what changes between them. */

const settable: Partial<Record<RouteKey, Proofs>> = {
  'POST /workflows': workflowProofs,
  'PUT /workflows/{id}': workflowProofs,
  'POST /workflows/{id}/execute': executeProofs,
  'POST /organizations/{id}/rules': ruleProofs,
  'PUT /organizations/{id}/rules/{rule}': ruleProofs,
  'PATCH /organizations/{id}/rules/{rule}': ruleProofs,
  'POST /organizations/{id}/label-rules': labelRuleProofs,
  'PUT /organizations/{id}/label-rules/{rule}': labelRuleProofs,
  'PATCH /organizations/{id}/label-rules/{rule}': labelRuleProofs,
  'PATCH /organizations/{id}/governance': settingProofs,
  'PATCH /organizations/{id}/quota': quotaProofs,
  'POST /organizations/{id}/tool-policies': policyProofs,
  'PATCH /organizations/{id}/tool-policies/{tool}': policyProofs,
  'POST /api-keys': keyProofs,
  'PATCH /api-keys/{id}': keyProofs,
  'POST /organizations': organizationProofs,
  'PATCH /organizations/{id}/members/{user}': memberProofs,
  'POST /organizations/{id}/invitations': invitationProofs,
  'PUT /memory/{key}': memoryProofs,
}

/** Questions, votes and single acts: what they carry is used up by them, and their own tests look at it. */
const acts: readonly RouteKey[] = [
  'POST /workflows/{id}/versions/{version}/rollback',
  'POST /workflow-registry/{id}/approve-template',
  'POST /workflow-registry/{id}/deprecate',
  'POST /workflow-registry/{id}/archive',
  'POST /workflow-registry/{id}/use',
  'POST /runs/{id}/cancel',
  'POST /executions/{id}/cancel',
  'POST /runs/{id}/steps/{step}/resolve',
  'POST /approvals/{id}/approve',
  'POST /approvals/{id}/reject',
  'POST /organizations/{id}/rules/test',
  'POST /authorize',
  'POST /authorize/observe',
  'POST /authorize/sessions/end',
  'POST /hooks/claude-code',
  'POST /agent-sessions/{id}/revoke',
  'POST /organizations/{id}/freeze',
  'POST /organizations/{id}/unfreeze',
  'POST /invitations/accept',
]

/** Every route that takes conditions reads them with one schema: each operator is looked at where they are made. */
const isLookedAtElsewhere = (method: string, field: string): boolean =>
  method !== 'POST' && field.includes('.operator=')

/** There are no messages yet that it could turn off. */
const withoutEffect = ['slack_approval_notifications']

const withBody = routes.flatMap(({ key, body }) =>
  body === undefined ? [] : [{ key, fields: fieldsOf(body) }],
)

let api: Api
let started: Omit<Api, 'reads'> | undefined
useTestStack(
  (stack, reads) => {
    api = { ...(started as Omit<Api, 'reads'>), stack, reads }
  },
  {},
  async (stack) => {
    await stack.startWorker()
    started = await startApi(stack)
  },
)
afterAll(() => started?.close())

test('every route that takes a body is an act, or every field of it is looked at here', () => {
  const known = [...acts, ...Object.keys(settable)]
  expect(withBody.map(({ key }) => key).filter((key) => !known.includes(key))).toEqual([])
  expect(known.filter((key) => !withBody.some((each) => each.key === key))).toEqual([])
})

test('nothing is looked at that no schema has', () => {
  for (const proofs of new Set(Object.values(settable))) {
    const fields = withBody.filter(({ key }) => settable[key] === proofs).flatMap((each) => each.fields)
    expect(Object.keys(proofs).filter((field) => !fields.includes(field))).toEqual([])
  }
})

describe.each(withBody.filter(({ key }) => settable[key] !== undefined))('$key', ({ key, fields }) => {
  const { method } = splitKey(key)
  const looked = fields.filter(
    (field) => !withoutEffect.includes(field) && !isLookedAtElsewhere(method, field),
  )
  test.each(looked)('%s', async (field) => {
    const found = settable[key]?.[field]
    if (found === undefined) throw new Error(`nothing says what \`${field}\` of ${key} changes`)
    const { values, seen, observe } = found
    expect(seen[0]).not.toEqual(seen[1])
    const one = await observe(await World.make(api), values[0], method)
    const other = await observe(await World.make(api), values[1], method)
    expect([one, other]).toEqual(seen)
  })
})
