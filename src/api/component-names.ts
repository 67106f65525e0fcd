import * as agents from './routes/agents.ts'
import * as approvals from './routes/approvals.ts'
import * as common from './schemas/common.ts'
import * as connections from './routes/connections.ts'
import * as governance from './routes/governance.ts'
import * as people from './routes/members.ts'
import * as runs from './schemas/runs.ts'
import * as webhooks from './routes/webhooks.ts'
import * as workflows from './routes/workflows.ts'
import { zodToOpenAPIRegistry } from '@asteasolutions/zod-to-openapi'
import type { z } from 'zod'
import { limitChanges } from '../contract/plan-limits.ts'
import { workflowDefinition } from '../contract/definition.ts'
import { restrictions } from '../governance/rules/tool-policy-limits.ts'
import { conditionForms, conditionInput } from '../policy/rule.ts'
import { ruleShape } from '../governance/rules/rule-kinds.ts'
import { fileForm } from './routes/files.ts'
import { memoryBody } from './routes/memory.ts'
import { ruleBacktestBody, ruleBodies, ruleDiffBody, ruleTrialBody } from './routes/rules.ts'
import { receipt } from './schemas/runs.ts'

/*
 * Names of schemas of openapi.json that are declared without an `id`. Generated clients use them for their types:
 * without one, a generator makes a type for each use. A published name must not change. A schema that contains another
 * one stands below it.
 */

const { steps, inputs } = workflowDefinition.shape
const step = steps.element
const input = inputs.unwrap().valueType
const { code, details } = common.errorAnswer.shape.error.shape

const names: Readonly<Record<string, z.ZodType>> = {
  // enumerations
  Approver: common.approver,
  ErrorCode: code,
  RiskLevel: common.riskLevel,
  Role: common.role,
  SideEffect: common.side,
  Verdict: common.verdict,
  ApprovalKind: runs.waitingKind,
  ApprovalStatus: runs.approvalStatus,
  RunStatus: runs.runStatus,
  StepStatus: runs.run.shape.steps.element.shape.status,
  AgentSessionStatus: agents.sessionStatus,
  RuleStatus: ruleShape.status.unwrap(),
  RuleSource: ruleShape.applies_to.unwrap().element,
  InputType: input.shape.type,
  Integration: connections.integration,
  ConnectionScope: connections.connectionScope,
  WebhookEvent: webhooks.webhookEvent,
  WebhookMessageType: webhooks.messageType,
  DeliveryState: webhooks.deliveryState,
  ConditionOperator: step.shape.when.unwrap().shape.operator,

  // parts of answers and bodies
  Problem: details.element,
  Risk: runs.run.shape.risk,
  Vote: approvals.approval.shape.votes.element,
  WaitingFor: runs.run.shape.waiting_for.element,
  StepError: runs.run.shape.steps.element.shape.error.unwrap(),
  RunStep: runs.run.shape.steps.element,
  LabelSource: runs.labelSource,
  RunDecision: receipt.shape.decisions.element,
  MatchedRule: common.matchedRule,
  WorkflowDefinition: workflowDefinition,
  WorkflowStep: step,
  WorkflowInput: input,
  StepCondition: step.shape.when.unwrap(),
  RetryPolicy: step.shape.retry.unwrap(),
  ...Object.fromEntries(conditionForms),
  RuleCondition: conditionInput,
  LabelConditions: ruleShape.labels.unwrap(),
  ToolRestrictions: restrictions,
  TrialCall: ruleTrialBody.shape.call,

  // bodies
  EmptyRequest: common.emptyBody,
  ConnectRequest: connections.connectBody,
  ConnectionChanges: connections.connectionChanges,
  WorkflowRequest: workflows.workflowBody,
  WorkflowChanges: workflows.workflowChanges,
  RollbackRequest: workflows.rollbackBody,
  TemplateRequest: workflows.templateBody,
  DeprecateTemplateRequest: workflows.deprecationBody,
  UseTemplateRequest: workflows.templateUseBody,
  ExecuteRequest: runs.executeBody,
  PreviewRequest: runs.previewBody,
  ResolveRequest: runs.resolveBody,
  ApproveRequest: approvals.approveBody,
  RejectRequest: approvals.rejectBody,
  CancelRequest: runs.cancelBody,
  RuleRequest: ruleBodies.rule.body,
  RuleChanges: ruleBodies.rule.changes,
  LabelRuleRequest: ruleBodies.label_rule.body,
  LabelRuleChanges: ruleBodies.label_rule.changes,
  RuleTrialRequest: ruleTrialBody,
  RuleBacktestRequest: ruleBacktestBody,
  RuleDiffRequest: ruleDiffBody,
  ObserveRequest: agents.observeBody,
  SessionEndRequest: agents.sessionEndBody,
  RevokeSessionRequest: agents.revokeBody,
  GovernanceChanges: governance.governancePatch,
  QuotaChanges: limitChanges,
  ToolPolicyRequest: governance.toolPolicyBody,
  ToolPolicyChanges: governance.toolPolicyPatch,
  RoleOverrideRequest: governance.roleOverrideBody,
  FreezeRequest: governance.freezeBody,
  FileForm: fileForm,
  MemoryRequest: memoryBody,
  OrganizationRequest: people.organizationBody,
  MemberChanges: people.memberChanges,
  SlackAccountRequest: people.slackAccountBody,
  InvitationRequest: people.invitationBody,
  AcceptInvitationRequest: people.acceptanceBody,
  WebhookRequest: webhooks.webhookBody,
  WebhookChanges: webhooks.webhookChanges,
  SecretRotationRequest: webhooks.rotationBody,
  MailPreferencesRequest: people.mailPreferencesBody,
  ApiKeyRequest: people.apiKeyBody,
  ApiKeyChanges: people.apiKeyChanges,
}

/**
 * Gives the schemas their names until the process ends. The generator defines a named schema in the form of its first
 * use, and some uses also allow null, which the definition must not. So these come first in the document, each before
 * its uses.
 */
export function namedComponents(): { type: 'schema'; schema: z.ZodType }[] {
  return Object.entries(names).map(([refId, schema]) => {
    zodToOpenAPIRegistry.add(schema, { _internal: { refId } })
    return { type: 'schema', schema }
  })
}
