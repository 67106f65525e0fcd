import { z } from 'zod'
import { actOnce } from '../../governance/idempotency.ts'
import { ruleKinds, type RuleKindName } from '../../governance/rule-kinds.ts'
import {
  createRule,
  deleteRule,
  listRules,
  patchRule,
  readRule,
  replaceRule,
} from '../../governance/rules.ts'
import { created, noContent, ok, route, type Route } from '../route.ts'
import { id, listOf, listQuery, time } from '../schemas/common.ts'

const added = { id, organization_id: id, created_by: id, created_at: time, updated_at: time }
const schemas = {
  rule: z.strictObject({ ...ruleKinds.rule.input.shape, ...added }).meta({ id: 'Rule' }),
  label_rule: z.strictObject({ ...ruleKinds.label_rule.input.shape, ...added }).meta({ id: 'LabelRule' }),
} as const

/** Action rules and label rules have the same six routes. */
function rulesOf(path: 'rules' | 'label-rules', kind: RuleKindName): Route[] {
  const { input, patch, word } = ruleKinds[kind]
  const view = schemas[kind]
  const tag = 'Rules'
  return [
    route({
      key: `POST /organizations/{id}/${path}`,
      summary: `Save a ${word}; it holds from the next decision on`,
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
        return ok(await listRules(context, kind, caller.organizationId, { limit, cursor }))
      },
    }),
    route({
      key: `GET /organizations/{id}/${path}/{rule}`,
      summary: `One ${word}`,
      tag,
      responses: { 200: view },
      async handle({ context, caller, params }) {
        return ok(await readRule(context, kind, caller.organizationId, params.rule))
      },
    }),
    route({
      key: `PUT /organizations/{id}/${path}/{rule}`,
      summary: `Put another ${word} in its place`,
      tag,
      body: input,
      responses: { 200: view },
      async handle({ context, caller, params, body }) {
        return ok(await replaceRule(context, kind, caller, params.rule, body))
      },
    }),
    route({
      key: `PATCH /organizations/{id}/${path}/{rule}`,
      summary: `Change fields of a ${word}; null takes an optional one away`,
      tag,
      body: patch,
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

export const ruleRoutes: readonly Route[] = [
  ...rulesOf('rules', 'rule'),
  ...rulesOf('label-rules', 'label_rule'),
]
