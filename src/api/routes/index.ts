import type { z } from 'zod'
import type { PathParams, Route } from '../route.ts'
import { agentSessionRoutes, agentRoutes, postClaudeCode } from './agents.ts'
import { apiKeyRoutes } from './api-keys.ts'
import { applyRoutes } from './apply.ts'
import { approvalRoutes } from './approvals.ts'
import { auditRoutes } from './audit.ts'
import { connectionRoutes } from './connections.ts'
import { docsRoutes } from './docs.ts'
import { fileRoutes } from './files.ts'
import { freezeRoutes, governanceRoutes, getNotifications } from './governance.ts'
import { groupRoutes } from './groups.ts'
import { getHealth, getSecretsHealth, integrationRoutes } from './health.ts'
import { meRoutes } from './me.ts'
import { memberRoutes } from './members.ts'
import { memoryRoutes } from './memory.ts'
import { policyRoutes } from './policies.ts'
import { postDraftPreview, postPreview, runDetailRoutes, postExecute, runRoutes } from './runs.ts'
import { rerunRoutes } from './reruns.ts'
import { ruleQuestionRoutes } from './rule-questions.ts'
import { getRuleTemplates, ruleRoutes } from './rules.ts'
import { scimRoutes, signInRoutes } from './sign-in.ts'
import { serviceAccountRoutes } from './service-accounts.ts'
import { terminalLoginRoutes } from './terminal-logins.ts'
import { toolRoutes } from './tools.ts'
import { triggerRoutes } from './triggers.ts'
import { webhookRoutes } from './webhooks.ts'
import { registryRoutes, workflowRoutes } from './workflows.ts'

const all = [
  // Before `workflowRoutes`: otherwise `/workflows/preview` would mean a workflow with the id `preview`.
  postDraftPreview,
  ...workflowRoutes,
  ...registryRoutes,
  postExecute,
  postPreview,
  // Before `runRoutes`: otherwise `/runs/rerun` would mean a run with the id `rerun`.
  ...rerunRoutes,
  ...runRoutes,
  ...runDetailRoutes,
  ...approvalRoutes,
  getNotifications,
  // Before `ruleRoutes`: otherwise `/rules/test` would mean a rule with the id `test`.
  ...ruleQuestionRoutes,
  ...ruleRoutes,
  getRuleTemplates,
  ...agentRoutes,
  postClaudeCode,
  ...agentSessionRoutes,
  ...governanceRoutes,
  ...auditRoutes,
  ...freezeRoutes,
  ...policyRoutes,
  ...applyRoutes,
  ...toolRoutes,
  ...memoryRoutes,
  ...fileRoutes,
  ...connectionRoutes,
  ...meRoutes(allRoutes),
  ...apiKeyRoutes,
  ...terminalLoginRoutes,
  ...memberRoutes,
  ...groupRoutes,
  ...signInRoutes,
  ...scimRoutes,
  ...serviceAccountRoutes,
  ...webhookRoutes,
  ...triggerRoutes,
  ...integrationRoutes,
  getHealth,
  getSecretsHealth,
  ...docsRoutes(allRoutes),
]

/** Every mounted route, in the order of the OpenAPI document. */
export const routes: readonly (Route & { readonly key: RouteKey })[] = all

function allRoutes(): readonly Route[] {
  return routes
}

/*
 * What a caller sends and gets, by the key of a route such as `GET /approvals/{id}`.
 */

type ByKey = { readonly [R in (typeof all)[number] as R['key']]: R }
export type RouteKey = keyof ByKey
/** A route that is not public. */
export type GuardedKey = { [Key in RouteKey]: ByKey[Key]['needs'] extends null ? never : Key }[RouteKey]

export type ParamsOf<Key extends RouteKey> = PathParams<Key>
/** As texts, as in an address. */
export type QueryOf<Key extends RouteKey> = Sent<ByKey[Key]['query']>
export type BodyOf<Key extends RouteKey> = Sent<ByKey[Key]['body']>
/** The body of a success; undefined for one without a body, and for a stream. */
export type AnswerOf<Key extends RouteKey> = Got<ByKey[Key]['responses']>

type Sent<S> = S extends z.ZodType ? z.input<S> : undefined
type Got<R> = R[keyof R] extends infer S ? (S extends z.ZodType ? z.output<S> : undefined) : never
