import { mostRevisions } from '../src/governance/approvals/edits.ts'
import { longestPath } from '../src/api/object-kinds.ts'
import { mostExternalTools, mostFlags } from '../src/api/routes/governance.ts'
import { mostSamples } from '../src/governance/backtests/backtest.ts'
import { mostParamBytes } from '../src/governance/backtests/backtest.ts'
import { mostToolGlobs } from '../src/policy/external-tools.ts'
import { mostFindings, mostSteps } from '../src/governance/rules/analysis.ts'
import { mostChanges, mostTried } from '../src/governance/rules/diff.ts'
import { limits } from '../src/governance/limits/shares.ts'
import { mostWork } from '../src/governance/rules/long-work.ts'
import { mostShown } from '../src/governance/declared/apply.ts'
import { mostLines } from '../src/governance/declared/lines.ts'
import { mostRoleOverrides } from '../src/governance/rules/role-overrides.ts'
import { mostRuleBytes, mostRuleValues } from '../src/governance/rules/size-limit.ts'
import { mostToolPolicies } from '../src/governance/rules/tool-policies.ts'
import { mostDeletedObjects, mostVersions } from '../src/governance/rules/versions.ts'
import { mostWebhooks } from '../src/governance/webhooks/webhooks.ts'
import { comparisonBudget } from '../src/policy/budget.ts'
import { mostOfTry } from '../src/policy/example-calls.ts'
import { bytes, characters, count, numberAt, type Rows, sameAt } from './limits-numbers.ts'

/** The limits of rules, policies and webhooks. */
export const rules: Rows = [
  ['name of a rule', characters('RuleRequest.name')],
  [
    '`tools`, `params` of a rule',
    `${sameAt('RuleRequest.tools.maxItems', 'RuleRequest.params.maxItems')} each`,
  ],
  [
    'values of one condition',
    `${numberAt('ListCondition.value.maxItems')} of ${sameAt('EqualsCondition.value.maxLength', 'ListCondition.value.items.maxLength')} characters`,
  ],
  ['labels of one condition', numberAt('LabelConditions.any_of.maxItems')],
  ['`add_labels` of a label rule', numberAt('LabelRuleRequest.add_labels.maxItems')],
  ['`param` of a condition', characters('EqualsCondition.param')],
  [
    'name of a tool, in a step, a rule or a policy',
    `${sameAt('RuleRequest.tools.items.maxLength', 'ToolPolicyRequest.tool_name.maxLength', 'WorkflowStep.tool.maxLength', 'TrialCall.tool.maxLength')} characters`,
  ],
  [
    '`approvals_needed`, `approval_threshold`',
    sameAt('RuleRequest.approvals_needed.maximum', 'GovernanceChanges.approval_threshold.maximum'),
  ],
  [
    '`approvers` of a rule',
    `${numberAt('RuleRequest.approvers.maxItems')}, each with a \`count\` up to ${numberAt('ApproverSeat.properties.count.maximum')}`,
  ],
  [
    '`expires_after_seconds`',
    `${numberAt('RuleRequest.expires_after_seconds.maximum')} (10 years); 0: never`,
  ],
  [
    '`escalate` of a rule; its `after_seconds`, and `remind_after_seconds`',
    `${numberAt('RuleRequest.escalate.maxItems')}; ${numberAt('RuleRequest.remind_after_seconds.minimum')} to ${sameAt('RuleRequest.remind_after_seconds.maximum', 'RuleRequest.escalate.items.after_seconds.maximum')} (30 days)`,
  ],
  [
    '`approver_may_edit` of a rule; edits of one held call',
    `${numberAt('RuleRequest.approver_may_edit.maxItems')} parameters; ${mostRevisions}`,
  ],
  ['all rules of an organization', `${bytes(mostRuleBytes)} of text, ${count(mostRuleValues)} values`],
  ['tool policies of an organization', count(mostToolPolicies)],
  ['overrides of roles of an organization', count(mostRoleOverrides)],
  [
    'objects of an application of files; of a release',
    `${numberAt('ApplyRequest.objects.maxItems')}; ${numberAt('ReleaseRequest.objects.maxItems')}`,
  ],
  [
    '`plan` of an application of files; `name` of an object to release',
    `${numberAt('ApplyRequest.plan.maxLength')}; ${numberAt('ReleaseRequest.objects.items.name.maxLength')} characters`,
  ],
  [
    '`repository`, `commit` of an application of files; `path` of an object',
    `${numberAt('ApplyRequest.repository.maxLength')}, ${numberAt('ApplyRequest.commit.maxLength')}; ${longestPath} characters`,
  ],
  ['changes in the answer of an application of files; lines of one', `${count(mostShown)}; ${mostLines}`],
  ['webhooks of an organization', count(mostWebhooks)],
  ['`url` of a webhook', `${numberAt('WebhookRequest.url.maxLength')} characters`],
  [
    '`allowed_domains` of a policy',
    `${numberAt('ToolRestrictions.allowed_domains.maxItems')} of ${characters('ToolRestrictions.allowed_domains.items')}`,
  ],
  [
    '`allowed_repos`, `allowed_channels` of a policy',
    `${numberAt('ToolRestrictions.allowed_repos.maxItems')}, ${numberAt('ToolRestrictions.allowed_channels.maxItems')} of ${sameAt('ToolRestrictions.allowed_repos.items.maxLength', 'ToolRestrictions.allowed_channels.items.maxLength')} characters`,
  ],
  ['`max_message_length` of a policy', numberAt('ToolRestrictions.max_message_length.maximum')],
  ['`max_response_size_kb` of a policy', numberAt('ToolRestrictions.max_response_size_kb.maximum')],
  ['`category_flags`, `external_tools`', `${count(mostFlags)}, ${count(mostExternalTools)}`],
  ['globs in `external_tools`', count(mostToolGlobs)],
  [
    '`output_labels` of an external tool',
    numberAt('GovernanceChanges.external_tools.additionalProperties.output_labels.maxItems'),
  ],
  ['`restricted_labels`', numberAt('GovernanceChanges.restricted_labels.maxItems')],
  [
    'drafts of `POST /organizations/{id}/rules/test`, `…/backtest` and each list of `…/diff`',
    sameAt(
      'RuleTrialRequest.rules.maxItems',
      'RuleBacktestRequest.rules.maxItems',
      'RuleDiffRequest.from.maxItems',
      'RuleDiffRequest.to.maxItems',
    ),
  ],
  [
    'decisions of one backtest',
    `${numberAt('RuleBacktestRequest.most.maximum')}, with ${bytes(mostParamBytes)} of parameters; the newest ones count`,
  ],
  ['changed calls that a backtest shows', `${mostSamples}`],
  ['findings of one analysis', `${mostFindings}`],
  ['comparisons of one analysis', count(mostSteps)],
  ['calls that one diff tries, and changes that it shows', `${count(mostTried)}, ${mostChanges}`],
  ['comparisons of one call that a diff tries', `${count(mostOfTry)}; a call that needs more is left out`],
  [
    'work of one backtest, analysis or diff',
    `${mostWork / 1_000} seconds; then \`limit_reached\` is \`time\``,
  ],
  ['backtests, analyses and diffs of one organization that wait in a process', count(limits.long.line)],
  [
    'kept versions of a rule, a label rule or a tool policy',
    `${mostVersions}, with ${bytes(mostRuleBytes)} together, and of the ${count(mostDeletedObjects)} such objects that were deleted last`,
  ],
  ['comparisons of one decision', `${count(comparisonBudget)}; a call that needs more is denied`],
]
