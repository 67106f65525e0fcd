import { z } from 'zod'
import { actOnce } from '../../governance/idempotency.ts'
import { labelRuleShape, ruleKinds, ruleShape, type RuleKindName } from '../../governance/rules/rule-kinds.ts'
import {
  createRule,
  deleteRule,
  listRules,
  patchRule,
  readRule,
  replaceRule,
} from '../../governance/rules/rules.ts'
import { created, noContent, ok, route, type Route } from '../route.ts'
import { id, listOf, listQuery, time } from '../schemas/common.ts'
import { ruleBodies } from '../schemas/rules.ts'

/** The status of a saved rule. In a request the status may be missing, but a saved rule always has a status. */
const ruleStatus = ruleShape.status.unwrap()
const added = { id, organization_id: id, created_by: id, created_at: time, updated_at: time }
const schemas = {
  rule: z.strictObject({ ...ruleShape, status: ruleStatus, ...added }).meta({ id: 'Rule' }),
  label_rule: z.strictObject({ ...labelRuleShape, status: ruleStatus, ...added }).meta({ id: 'LabelRule' }),
} as const

const tag = 'Rules'

function allRules(path: 'rules' | 'label-rules', kind: RuleKindName): Route[] {
  const { word } = ruleKinds[kind]
  const { body: input } = ruleBodies[kind]
  const view = schemas[kind]
  return [
    route({
      key: `POST /organizations/{id}/${path}`,
      summary: `Save a ${word}; it applies from the next decision on`,
      tag,
      body: input,
      responses: { 201: view },
      async handle({ context, caller, body, once }) {
        return created(await actOnce(once, () => createRule(context, kind, caller, body, once)))
      },
    }),
    route({
      key: `GET /organizations/{id}/${path}`,
      summary: `The organization’s ${word}s, newest first`,
      tag,
      query: listQuery.omit({ organization_id: true }),
      responses: { 200: listOf(view) },
      async handle({ context, caller, query }) {
        const { limit, cursor = null } = query
        return ok(await listRules(context.db, kind, caller.organizationId, { limit, cursor }))
      },
    }),
  ]
}

function oneRule(path: 'rules' | 'label-rules', kind: RuleKindName): Route[] {
  const { word } = ruleKinds[kind]
  const { body: input, changes } = ruleBodies[kind]
  const view = schemas[kind]
  return [
    route({
      key: `GET /organizations/{id}/${path}/{rule}`,
      summary: `One ${word}`,
      tag,
      responses: { 200: view },
      async handle({ context, caller, params }) {
        return ok(await readRule(context.db, kind, caller.organizationId, params.rule))
      },
    }),
    route({
      key: `PUT /organizations/{id}/${path}/{rule}`,
      summary: `Replace a ${word}`,
      tag,
      body: input,
      responses: { 200: view },
      async handle({ context, caller, params, body }) {
        return ok(await replaceRule(context, kind, caller, params.rule, body))
      },
    }),
    route({
      key: `PATCH /organizations/{id}/${path}/{rule}`,
      summary: `Change fields of a ${word}; null removes an optional field`,
      tag,
      body: changes,
      responses: { 200: view },
      async handle({ context, caller, params, body }) {
        return ok(await patchRule(context, kind, caller, params.rule, body))
      },
    }),
    route({
      key: `DELETE /organizations/{id}/${path}/{rule}`,
      summary: `Delete a ${word}`,
      tag,
      responses: { 204: null },
      async handle({ context, caller, params }) {
        await deleteRule(context, kind, caller, params.rule)
        return noContent
      },
    }),
  ]
}

/** Returns the six routes of one kind of rules: action rules or label rules. */
const rulesOf = (path: 'rules' | 'label-rules', kind: RuleKindName): Route[] => [
  ...allRules(path, kind),
  ...oneRule(path, kind),
]

export const ruleRoutes: readonly Route[] = [
  ...rulesOf('rules', 'rule'),
  ...rulesOf('label-rules', 'label_rule'),
]
