import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { routes, type RouteKey } from '../../../src/api/routes/index.ts'
import { splitKey } from '../../../src/api/route.ts'
import { useTestStack } from '../../workflows/worker-fixture.ts'
import { ownActivities } from '../../../src/steps/index.ts'
import { fieldsOf } from './fields.ts'
import { memoryProofs, quotaProofs, settingProofs } from './governance.ts'
import * as people from './people.ts'
import { labelRuleProofs, overrideProofs, policyProofs, ruleProofs } from './rules.ts'
import * as services from './services.ts'
import { providerProofs, scimTokenProofs } from './sign-in.ts'
import { triggerProofs } from './triggers.ts'
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
  'POST /api-keys': people.keyProofs,
  'PATCH /api-keys/{id}': people.keyProofs,
  'POST /organizations': people.organizationProofs,
  'POST /organizations/{id}/service-accounts': people.serviceAccountProofs,
  'PATCH /organizations/{id}/service-accounts/{account}': people.serviceAccountProofs,
  'PATCH /organizations/{id}/members/{user}': people.memberProofs,
  'POST /organizations/{id}/groups': people.groupProofs,
  'PATCH /organizations/{id}/groups/{group}': people.groupProofs,
  'POST /organizations/{id}/invitations': people.invitationProofs,
  'PUT /organizations/{id}/sign-in': providerProofs,
  'POST /organizations/{id}/scim-tokens': scimTokenProofs,
  'POST /organizations/{id}/invite': people.invitationsProofs,
  'PUT /memory/{key}': memoryProofs,
  'POST /organizations/{id}/webhooks': services.webhookProofs,
  'PATCH /organizations/{id}/webhooks/{webhook}': services.webhookProofs,
  'POST /organizations/{id}/webhooks/{webhook}/rotate-secret': services.rotationProofs,
  'POST /workflows/{id}/triggers': triggerProofs,
  'PATCH /workflows/{id}/triggers/{trigger}': triggerProofs,
  'POST /tools/{name}/connect': services.connectionProofs,
  'PATCH /connections/{id}': services.connectionProofs,
  'PUT /me/notifications': people.mailPreferenceProofs,
  'PUT /me/absence': people.absenceProofs,
  'PUT /organizations/{id}/members/{user}/accounts/slack': people.slackAccountProofs,
  'POST /files': services.fileProofs,
}

/** Questions, votes and single actions. Their bodies have no lasting effect, and other tests cover them. */
const acts: readonly RouteKey[] = [
  'POST /workflows/{id}/versions/{version}/rollback',
  ...(['approve-template', 'deprecate', 'archive', 'use'] as const).map(
    (act) => `POST /workflow-registry/{id}/${act}` as const,
  ),
  ...([
    'POST /runs/{id}/cancel',
    'POST /runs/{id}/rerun',
    'POST /runs/rerun',
    'POST /organizations/{id}/reruns/{rerun}/cancel',
    'POST /executions/{id}/cancel',
    'POST /runs/{id}/steps/{step}/resolve',
  ] as const),
  ...([
    'POST /approvals/{id}/approve',
    'POST /approvals/{id}/reject',
    'POST /approvals/{id}/answer',
    'POST /approvals/{id}/revise',
    'POST /approvals/{id}/withdraw',
  ] as const),
  'POST /workflows/{id}/authorization-preview',
  ...(['POST /workflows/validate', 'POST /workflows/preview', 'POST /tools/{name}/try'] as const),
  ...(['test', 'backtest', 'diff'] as const).map((act) => `POST /organizations/{id}/rules/${act}` as const),
  ...(['POST /authorize', 'POST /authorize/observe', 'POST /authorize/sessions/end'] as const),
  ...(['POST /authorize/approvals/{id}/cancel', 'POST /hooks/claude-code'] as const),
  ...([
    'POST /api-keys/{id}/confirm',
    'POST /terminal-logins/look',
    'POST /terminal-logins/approve',
    'POST /terminal-logins/deny',
    'POST /agent-sessions/{id}/revoke',
    'POST /invitations/accept',
  ] as const),
  // test/api/declared
  ...(['POST /organizations/{id}/apply', 'POST /organizations/{id}/release'] as const),
  ...(['POST /organizations/{id}/freeze', 'POST /organizations/{id}/unfreeze'] as const),
  ...(['rules/{rule}', 'label-rules/{rule}', 'tool-policies/{tool}'] as const).map(
    (object) => `POST /organizations/{id}/${object}/versions/{version}/restore` as const,
  ),
  'POST /workflows/{id}/triggers/{trigger}/test',
  'POST /organizations/{id}/webhooks/{webhook}/test',
  'POST /organizations/{id}/webhooks/{webhook}/deliveries/{delivery}/redeliver',
]

/**
 * All routes read conditions with the same schema, so each operator is tested only when a rule is created. The fields of
 * a step that calls no tool are tested in test/steps, in the file of the kind.
 */
const isLookedAtElsewhere = (method: string, field: string): boolean =>
  // Only editors read it.
  field === 'definition.$schema' ||
  (method !== 'POST' && field.includes('.operator=')) ||
  ownActivities.some((kind) => field.startsWith(`definition.steps[].${kind}.`))

const withBody = routes.flatMap(({ key, body }) =>
  body === undefined ? [] : [{ key, fields: fieldsOf(body) }],
)

let api: Api
let started: Awaited<ReturnType<typeof startApi>> | undefined
useTestStack(
  (stack, reads) => {
    api = { ...(started as Api), stack, reads }
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

test.each(ownActivities)('the fields of a step `%s` have their tests', (kind) => {
  expect(existsSync(join(import.meta.dirname, `../../steps/${kind}.test.ts`))).toBe(true)
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
