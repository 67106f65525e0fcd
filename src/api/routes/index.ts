import type { Route } from '../route.ts'
import { agentSessionRoutes, agentRoutes, postClaudeCode } from './agents.ts'
import { apiKeyRoutes } from './api-keys.ts'
import { approvalRoutes } from './approvals.ts'
import { auditRoutes } from './audit.ts'
import { connectionRoutes } from './connections.ts'
import { docsRoutes } from './docs.ts'
import { fileRoutes } from './files.ts'
import { freezeRoutes, governanceRoutes, getNotifications } from './governance.ts'
import { getHealth, getSecretsHealth, integrationRoutes } from './health.ts'
import { meRoutes } from './me.ts'
import { memberRoutes } from './members.ts'
import { memoryRoutes } from './memory.ts'
import { policyRoutes } from './policies.ts'
import { postPreview, runDetailRoutes, postExecute, runRoutes } from './runs.ts'
import { ruleQuestionRoutes, getRuleTemplates, ruleRoutes } from './rules.ts'
import { toolRoutes } from './tools.ts'
import { webhookRoutes } from './webhooks.ts'
import { registryRoutes, workflowRoutes } from './workflows.ts'

/** Every mounted route, in the order of the OpenAPI document. */
export const routes: readonly Route[] = [
  ...workflowRoutes,
  ...registryRoutes,
  postExecute,
  postPreview,
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
  ...toolRoutes,
  ...memoryRoutes,
  ...fileRoutes,
  ...connectionRoutes,
  ...meRoutes,
  ...apiKeyRoutes,
  ...memberRoutes,
  ...webhookRoutes,
  ...integrationRoutes,
  getHealth,
  getSecretsHealth,
  ...docsRoutes(() => routes),
]
