import { z } from 'zod'
import { previewRun } from '../../governance/runs/start/preview.ts'
import type { JsonObject } from '../../policy/types.ts'
import { inputsBodyLimit } from '../json-body.ts'
import { ok, route } from '../route.ts'
import { destination, id, labels, riskLevel, side, verdict } from '../schemas/common.ts'
import { previewBody, versionChange } from '../schemas/runs.ts'

const certainty = z.enum(['definite', 'possible'])
const sentence = z.string().nullable()

const step = z.strictObject({
  step_id: z.string(),
  tool: z.string(),
  side_effect: side,
  destination,
  verdict: verdict.describe('the strictest verdict that the step can get'),
  certainty: certainty.describe('`definite`: every run gets this verdict'),
  at_least: verdict.describe(
    'the least strict verdict that the step can get; a skipped step counts as allowed',
  ),
  runs: z.enum(['certainly', 'possibly', 'never']),
  labels: z.strictObject({
    definite: labels.describe('every run brings them to the step'),
    possible: labels.describe('some run brings them to the step; contains the definite ones'),
    others_from: z
      .array(z.string())
      .describe('steps and inputs (`input.NAME`) that can bring further labels, which nothing declares'),
    left_out: z.int().min(0).describe('labels of a very large plan that are not shown'),
  }),
  rules: z.array(
    z.strictObject({
      rule_id: id,
      name: z.string(),
      verdict,
      certainty,
      because: z.string().describe('one sentence'),
      shadow: z.boolean().describe('true: the rule is recorded and never enforced'),
    }),
  ),
  rules_left_out: z.int().min(0).describe('matching rules of a very large plan that are not shown'),
  role_policy: z
    .strictObject({
      verdict: z.literal('deny'),
      certainty,
      reason: z.string(),
      explanation: z.string(),
    })
    .nullable()
    .describe(
      'what tool policies say against the call for your role, or for the role of an author of the step',
    ),
  frozen: sentence.describe('why a freeze denies every call of the step; null without a freeze'),
  checked_during_call: z
    .array(z.string())
    .describe('limits of tool policies that only the call itself can check, one sentence each'),
  connected: z.boolean(),
  available: z.boolean(),
  unavailable_because: sentence,
})

const preview = z
  .strictObject({
    verdict: verdict.describe('the strictest verdict of all steps'),
    executable: z.boolean().describe('false: `execute` would answer `run_denied`'),
    not_executable_because: sentence,
    unknown_inputs: z.array(z.string()),
    run_approval: z.strictObject({
      required: z.boolean().describe('every run would wait for approval before it starts'),
      certainty: certainty.describe(
        '`possible`: some runs would wait and others would not; inputs or dates that are not known decide',
      ),
      risk_level: riskLevel.describe('the least risk that a run can have'),
      highest_risk_level: riskLevel.describe('the highest risk that a run can have'),
      reasons: z.array(z.string()).describe('hold for every run'),
      possible_reasons: z.array(z.string()).describe('hold for some runs, each with what decides'),
      approver: z
        .enum(['admin', 'owner'])
        .nullable()
        .describe('the strictest that a run can need; null if no run would wait'),
      approvals_needed: z.int().nullable(),
    }),
    steps: z.array(step),
    changed_since_your_last_run: versionChange.describe(
      'a version that another person saved and you have not run yet',
    ),
  })
  .meta({ id: 'AuthorizationPreview' })

export const postPreview = route({
  key: 'POST /workflows/{id}/authorization-preview',
  summary: 'Ask what would be decided for every step of a run, without running anything',
  description:
    'Without `inputs` their values are unknown. `definition` is previewed in place of a saved version, and checked as on save.',
  tag: 'Runs',
  bodyLimit: inputsBodyLimit,
  bodyValues: 40_000,
  body: previewBody,
  responses: { 200: preview },
  async handle({ context, caller, params, body }) {
    const request = {
      caller,
      workflowId: params.id,
      inputs: body.inputs as JsonObject | undefined,
      inputLabels: body.input_labels,
      files: body.files,
      version: body.version,
      definition: body.definition,
    }
    return ok(await previewRun(context, request))
  },
})
