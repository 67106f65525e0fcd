import { afterAll, describe, expect, test } from '@jest/globals'
import { routes } from '../../../src/api/routes/index.ts'
import { splitKey, type RouteKey } from '../../../src/api/access.ts'
import { useTestStack } from '../../workflows/worker-fixture.ts'
import { fieldsOf } from './fields.ts'
import { memoryProofs, settingProofs } from './governance.ts'
import { overrideProofs, policyProofs } from './policies.ts'
import { quotaProofs } from './quotas.ts'
import { invitationProofs, keyProofs, memberProofs, organizationProofs } from './people.ts'
import { labelRuleProofs, ruleProofs } from './rules.ts'
import {
  connectionProofs,
  fileProofs,
  mailPreferenceProofs,
  rotationProofs,
  slackAccountProofs,
  webhookProofs,
} from './services.ts'
import { executeProofs, workflowProofs } from './workflows.ts'
import { startApi, World, type Api, type Proofs } from './world.ts'

/* Tests every settable field, found from the schemas: two values of the field must have different effects. */

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
  'POST /organizations/{id}/role-policy-overrides': overrideProofs,
  'POST /api-keys': keyProofs,
  'PATCH /api-keys/{id}': keyProofs,
  'POST /organizations': organizationProofs,
  'PATCH /organizations/{id}/members/{user}': memberProofs,
  'POST /organizations/{id}/invitations': invitationProofs,
  'PUT /memory/{key}': memoryProofs,
  'POST /organizations/{id}/webhooks': webhookProofs,
  'PATCH /organizations/{id}/webhooks/{webhook}': webhookProofs,
  'POST /organizations/{id}/webhooks/{webhook}/rotate-secret': rotationProofs,
  'POST /tools/{name}/connect': connectionProofs,
  'PATCH /connections/{id}': connectionProofs,
  'PUT /me/notifications': mailPreferenceProofs,
  'PUT /organizations/{id}/members/{user}/accounts/slack': slackAccountProofs,
  'POST /files': fileProofs,
}

/** Questions, votes and single actions. Their bodies have no lasting effect, and other tests cover them. */
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
  'POST /workflows/{id}/authorization-preview',
  'POST /organizations/{id}/rules/test',
  'POST /organizations/{id}/rules/backtest',
  'POST /organizations/{id}/rules/diff',
  'POST /authorize',
  'POST /authorize/observe',
  'POST /authorize/sessions/end',
  'POST /authorize/approvals/{id}/cancel',
  'POST /api-keys/{id}/confirm',
  'POST /hooks/claude-code',
  'POST /agent-sessions/{id}/revoke',
  'POST /organizations/{id}/freeze',
  'POST /organizations/{id}/unfreeze',
  'POST /invitations/accept',
  'POST /organizations/{id}/webhooks/{webhook}/test',
  'POST /organizations/{id}/webhooks/{webhook}/deliveries/{delivery}/redeliver',
]

/** All routes read conditions with the same schema, so each operator is tested only when a rule is created. */
const isLookedAtElsewhere = (method: string, field: string): boolean =>
  method !== 'POST' && field.includes('.operator=')

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

test('every route with a body is a single act, or every field of it is tested here', () => {
  const known = [...acts, ...Object.keys(settable)]
  expect(withBody.map(({ key }) => key).filter((key) => !known.includes(key))).toEqual([])
  expect(known.filter((key) => !withBody.some((each) => each.key === key))).toEqual([])
})

test('every tested field exists in a schema', () => {
  for (const proofs of new Set(Object.values(settable))) {
    const fields = withBody.filter(({ key }) => settable[key] === proofs).flatMap((each) => each.fields)
    expect(Object.keys(proofs).filter((field) => !fields.includes(field))).toEqual([])
  }
})

describe.each(withBody.filter(({ key }) => settable[key] !== undefined))('$key', ({ key, fields }) => {
  const { method } = splitKey(key)
  const looked = fields.filter((field) => !isLookedAtElsewhere(method, field))
  test.each(looked)('%s', async (field) => {
    const found = settable[key]?.[field]
    if (found === undefined) throw new Error(`no test shows the effect of \`${field}\` of ${key}`)
    const { values, seen, observe } = found
    expect(seen[0]).not.toEqual(seen[1])
    const one = await observe(await World.make(api), values[0], method)
    const other = await observe(await World.make(api), values[1], method)
    expect([one, other]).toEqual(seen)
  })
})
