import type { Route } from '../route.ts'
import { agentSessionRoutes } from './agent-sessions.ts'
import { agentRoutes } from './agents.ts'
import { deleteApiKey, getApiKeys, patchApiKey, postApiKey, postApiKeyConfirm } from './api-keys.ts'
import { getApproval, getApprovals, postApprove, postReject } from './approvals.ts'
import { getVerify } from './audit-verify.ts'
import { postClaudeCode } from './claude-code.ts'
import { docsRoutes } from './docs.ts'
import { freezeRoutes } from './freeze.ts'
import { getAudit, getGovernance, patchGovernance } from './governance.ts'
import { getHealth } from './health.ts'
import { integrationRoutes } from './integrations.ts'
import { getMe, getScopes } from './me.ts'
import { memberRoutes } from './members.ts'
import { deleteMemoryRoute, getMemory, putMemory } from './memory.ts'
import { getQuota, patchQuota } from './quota.ts'
import { postOrganization } from './organizations.ts'
import { getRuleTemplates } from './rule-templates.ts'
import { postRuleTrial } from './rule-trial.ts'
import { ruleRoutes } from './rules.ts'
import { getReceipt, getStepOutput, postResolve } from './run-details.ts'
import { getRunEvents } from './run-events.ts'
import { postExecute, runRoutes } from './runs.ts'
import { toolPolicyRoutes } from './tool-policies.ts'
import { getToolRoute, getTools } from './tools.ts'
import { registryRoutes } from './workflow-registry.ts'
import { getVersion, getVersions, postRollback } from './workflow-versions.ts'
import { deleteWorkflowRoute, getWorkflow, getWorkflows, postWorkflow, putWorkflow } from './workflows.ts'

const workflowRoutes = [
  postWorkflow,
  getWorkflows,
  getWorkflow,
  putWorkflow,
  deleteWorkflowRoute,
  getVersions,
  getVersion,
  postRollback,
]
const runDetailRoutes = [getReceipt, getRunEvents, getStepOutput, postResolve]
const approvalRoutes = [getApprovals, getApproval, postApprove, postReject]
const governanceRoutes = [getGovernance, patchGovernance, getQuota, patchQuota, getAudit, getVerify]
const dataRoutes = [getTools, getToolRoute, getMemory, putMemory, deleteMemoryRoute]
const identityRoutes = [
  getMe,
  getScopes,
  postOrganization,
  postApiKey,
  getApiKeys,
  patchApiKey,
  deleteApiKey,
  postApiKeyConfirm,
]

/** Every route that is mounted, in the order of its description. */
export const routes: readonly Route[] = [
  ...workflowRoutes,
  ...registryRoutes,
  postExecute,
  ...runRoutes,
  ...runDetailRoutes,
  ...approvalRoutes,
  // Before the rules' own: `/rules/test` is not the rule called `test`.
  postRuleTrial,
  ...ruleRoutes,
  getRuleTemplates,
  ...agentRoutes,
  postClaudeCode,
  ...agentSessionRoutes,
  ...governanceRoutes,
  ...freezeRoutes,
  ...toolPolicyRoutes,
  ...dataRoutes,
  ...identityRoutes,
  ...memberRoutes,
  ...integrationRoutes,
  getHealth,
  ...docsRoutes(() => routes),
]
