import type { Route } from '../route.ts'
import { agentSessionRoutes } from './agent-sessions.ts'
import { agentRoutes } from './agents.ts'
import { deleteApiKey, getApiKeys, patchApiKey, postApiKey, postApiKeyConfirm } from './api-keys.ts'
import { getApproval, getApprovals, getWaitingSummary, postApprove, postReject } from './approvals.ts'
import { getAuditCheckpoint, getAuditExport } from './audit-proof.ts'
import { getVerify } from './audit-verify.ts'
import { postClaudeCode } from './claude-code.ts'
import { connectionRoutes } from './connections.ts'
import { docsRoutes } from './docs.ts'
import { fileRoutes } from './files.ts'
import { freezeRoutes } from './freeze.ts'
import { getAudit, getGovernance, patchGovernance } from './governance.ts'
import { getHealth } from './health.ts'
import { getSecretsHealth } from './secrets-health.ts'
import { integrationRoutes } from './integrations.ts'
import { getMe, getMyNotifications, getScopes, putMyNotifications } from './me.ts'
import { memberRoutes } from './members.ts'
import { webhookRoutes } from './webhooks.ts'
import { deleteMemoryRoute, getMemory, putMemory } from './memory.ts'
import { getQuota, patchQuota } from './quota.ts'
import { getNotifications } from './notifications.ts'
import { postOrganization } from './organizations.ts'
import { getRuleTemplates } from './rule-templates.ts'
import { postPreview } from './preview.ts'
import { getRuleAnalysis } from './rule-analysis.ts'
import { postRuleBacktest } from './rule-backtest.ts'
import { postRuleDiff } from './rule-diff.ts'
import { postRuleTrial } from './rule-trial.ts'
import { ruleRoutes } from './rules.ts'
import { roleOverrideRoutes } from './role-overrides.ts'
import { getApprovalsReport, getReport } from './reports.ts'
import { getReceipt, getStepCalls, getStepOutput, postResolve } from './run-details.ts'
import { getRunEvents } from './run-events.ts'
import { postExecute, runRoutes } from './runs.ts'
import { toolPolicyRoutes } from './tool-policies.ts'
import { getToolConstraints } from './tool-constraints.ts'
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
const runDetailRoutes = [getReceipt, getRunEvents, getStepOutput, getStepCalls, postResolve]
const approvalRoutes = [
  getApprovals,
  getWaitingSummary,
  getApproval,
  postApprove,
  postReject,
  getNotifications,
]
const governanceRoutes = [
  getGovernance,
  patchGovernance,
  getReport,
  getApprovalsReport,
  getQuota,
  patchQuota,
  getAudit,
  getVerify,
  getAuditCheckpoint,
  getAuditExport,
]
const dataRoutes = [getTools, getToolRoute, getMemory, putMemory, deleteMemoryRoute]
const identityRoutes = [
  getMe,
  getMyNotifications,
  putMyNotifications,
  getScopes,
  postOrganization,
  postApiKey,
  getApiKeys,
  patchApiKey,
  deleteApiKey,
  postApiKeyConfirm,
]

/** Every mounted route, in the order of the OpenAPI document. */
export const routes: readonly Route[] = [
  ...workflowRoutes,
  ...registryRoutes,
  postExecute,
  postPreview,
  ...runRoutes,
  ...runDetailRoutes,
  ...approvalRoutes,
  // These routes must come before `ruleRoutes`. Otherwise `/rules/test` would mean a rule with the id `test`.
  postRuleTrial,
  postRuleBacktest,
  getRuleAnalysis,
  postRuleDiff,
  ...ruleRoutes,
  getRuleTemplates,
  ...agentRoutes,
  postClaudeCode,
  ...agentSessionRoutes,
  ...governanceRoutes,
  ...freezeRoutes,
  ...toolPolicyRoutes,
  ...roleOverrideRoutes,
  getToolConstraints,
  ...dataRoutes,
  ...fileRoutes,
  ...connectionRoutes,
  ...identityRoutes,
  ...memberRoutes,
  ...webhookRoutes,
  ...integrationRoutes,
  getHealth,
  getSecretsHealth,
  ...docsRoutes(() => routes),
]
