import type { WorkflowDefinition, WorkflowStep } from '../../../contract/definition.ts'
import { kindOf } from '../../../steps/index.ts'
import { getTool } from '../../../tools/index.ts'
import type { Certainty } from '../../../policy/plan.ts'
import { roleOf, shownSeats, type ShownSeat } from '../../../policy/seats.ts'
import type { GovernanceSettings } from '../../../policy/settings.ts'
import { headlineWithField, mostIssues, shownPath } from '../../../policy/issues.ts'
import { joinPath, type Issue } from '../../../contract/json.ts'
import { outputIssues } from '../../../contract/tool-params.ts'
import { DomainError } from '../../errors.ts'
import type { Json, RiskLevel, Verdict, JsonObject } from '../../../policy/types.ts'
import { filesInput } from '../../../policy/templates.ts'
import { confirmFirst } from '../../access/address-proof.ts'
import { whyMayNotRun } from '../../access/groups.ts'
import type { Caller } from '../../access/identity.ts'
import { policySnapshot } from '../../audit/combiner.ts'
import type { ChangingRuns, Configured } from '../../context.ts'
import { requireSound, toolStanding, type ToolStanding } from '../../tools/connections.ts'
import { explainFrozen } from '../../../policy/decide.ts'
import { readVersion, rolesOfSteps, type FrozenVersion } from '../values/version-cache.ts'
import { authorsOf, originOf } from '../values/authors.ts'
import { findVersion, readChange, type VersionChange } from '../values/version-change.ts'
import { givenInputs, type InputsOfRequest } from './given-inputs.ts'
import { gateOf, possibleReasons } from './gate.ts'
import { planRun, type PlannedRun } from './plan-run.ts'
import { denialOf } from './refusal.ts'
import { viewSteps, type PreviewedStep } from './preview-steps.ts'

export interface PreviewRequest extends Omit<InputsOfRequest, 'inputs'> {
  readonly caller: Caller
  /** Null: only `definition` is there. */
  readonly workflowId: string | null
  /** If absent, nothing is known about the inputs. */
  readonly inputs?: InputsOfRequest['inputs'] | undefined
  /** The default is the current version. */
  readonly version?: number | undefined
  /** Outputs that are assumed, by the id of the step. Then each step shows its resolved parameters. */
  readonly mocks?: JsonObject | undefined
  /** Is unsaved, and used instead of a version. */
  readonly definition?: WorkflowDefinition | undefined
}

export interface Preview {
  readonly verdict: Verdict
  /** Is false if the run would be refused with `run_denied`. */
  readonly executable: boolean
  readonly not_executable_because: string | null
  /** They can change a step's verdict, but only between `at_least` and `verdict`. */
  readonly unknown_inputs: readonly string[]
  readonly run_approval: RunApprovalPreview
  readonly steps: readonly PreviewedStep[]
  /** The newest change by another person since the caller's last run. Is null if there is none. */
  readonly changed_since_your_last_run: VersionChange | null
}

export interface RunApprovalPreview {
  /** Whether every run would wait for approval before it starts. */
  readonly required: boolean
  /** `possible`: the unknown inputs decide. */
  readonly certainty: Certainty
  /** The lowest risk that a run can have. */
  readonly risk_level: RiskLevel
  readonly highest_risk_level: RiskLevel
  /** The reasons of the risk that apply to every run. */
  readonly reasons: readonly string[]
  readonly possible_reasons: readonly string[]
  /** The strictest role and the highest number of votes that a run can need. Null if no run would wait. */
  readonly approver: 'admin' | 'owner' | null
  readonly approvals_needed: number | null
  /** Empty if no run would wait. */
  readonly approvers: readonly ShownSeat[]
}

/** Records nothing. Throws `not_found`, or `validation_error` for a bad definition or bad inputs. */
export async function previewRun(context: ChangingRuns, request: PreviewRequest): Promise<Preview> {
  const { caller, inputs, workflowId } = request
  const saved = workflowId === null ? null : await findVersion(context.db, { ...request, workflowId })
  const { definition, rolesOf } = await versionOf(context, request, saved?.current ?? null)
  if (request.mocks !== undefined) refuseWrongMocks(definition, request.mocks)
  const wanted = {
    inputs: inputs ?? {},
    inputLabels: request.inputLabels,
    files: request.files,
  }
  const given = await givenInputs(context, caller, { definition }, wanted, {
    mayLack: true,
  })
  const areInputsComplete = inputs !== undefined && given.areComplete
  const known = inputs === undefined ? filesOf(given.inputs) : given.inputs
  const policy = await policySnapshot(context, caller.organizationId)
  const planned = planRun(policy, context.config.tools, {
    definition,
    inputs: known,
    areInputsComplete,
    labels: given.labels,
    mocks: request.mocks,
    requester: { userId: caller.userId, role: caller.role, email: caller.email },
    authorRoles: rolesOf,
  })
  const standingOf = (name: string): ToolStanding => {
    const tool = getTool(name)
    if (tool !== undefined) return toolStanding(context.config.tools, policy.connections, tool, caller.userId)
    return { connected: false, unavailable: `there is no tool \`${name}\` any more` }
  }
  const kinds = new Map(
    definition.steps.map((step) => {
      const kind = kindOf(step)
      return [step.id, { kind: kind.name, waits: kind.waits(step) }]
    }),
  )
  const unknown = Object.keys(definition.inputs ?? {}).filter((name) => !Object.hasOwn(known, name))
  return {
    verdict: planned.analysis.verdict,
    steps: viewSteps(planned.analysis.steps, {
      policy: { ...policy, toolAccess: policy.toolAccess.of(caller.userId) },
      role: caller.role,
      authorRoles: rolesOf,
      standingOf,
      kindOf: (id) => kinds.get(id) ?? { kind: '', waits: null },
    }),
    run_approval: approvalView(policy.settings, definition, planned),
    ...(await executability(
      context,
      caller,
      { ...planned, frozen: policy.compiled.frozen },
      await runByOf(context, request, definition, saved?.current),
    )),
    unknown_inputs: areInputsComplete ? [] : unknown,
    changed_since_your_last_run:
      workflowId === null || saved === null
        ? null
        : await readChange(context.db, workflowId, saved.changedIn, caller.userId),
  }
}

/** An output that the tool never returns would promise what no run can do. Throws `validation_error`. */
function refuseWrongMocks({ steps }: WorkflowDefinition, mocks: JsonObject): void {
  const byId = new Map(steps.map((step) => [step.id, step]))
  const issues: Issue[] = []
  for (const [id, output] of Object.entries(mocks)) {
    if (issues.length >= mostIssues) break
    issues.push(...mockIssues(byId.get(id), output, shownPath(['mocks', id])))
  }
  if (issues.length > 0)
    throw new DomainError(
      'validation_error',
      headlineWithField('the mocks are no outputs of these steps', issues),
      issues.slice(0, mostIssues),
    )
}

function mockIssues(step: WorkflowStep | undefined, output: Json, path: string): Issue[] {
  if (step === undefined) return [{ path, message: 'is no step of the definition' }]
  const tool = getTool(step.tool ?? '')
  if (tool === undefined) return []
  if (step.for_each === undefined) return outputIssues(tool, output, path)
  if (!Array.isArray(output))
    return [{ path, message: 'must be a list: a step with `for_each` has an output for each item' }]
  const issues: Issue[] = []
  for (const [index, each] of (output as readonly Json[]).entries()) {
    if (issues.length >= mostIssues) break
    issues.push(...outputIssues(tool, each, joinPath(path, String(index))))
  }
  return issues
}

/** Known even if the request leaves out all inputs. */
const filesOf = (inputs: JsonObject): JsonObject =>
  Object.hasOwn(inputs, filesInput) ? { [filesInput]: inputs[filesInput] ?? null } : {}

/** An unsaved definition has the authors of the text that it takes over, as if the caller saved it. */
async function versionOf(
  context: Parameters<typeof previewRun>[0],
  { caller, workflowId, version, definition }: PreviewRequest,
  current: number | null,
): Promise<Pick<FrozenVersion, 'definition' | 'rolesOf'>> {
  if (definition === undefined) return readVersion(context, workflowId ?? '', version ?? current ?? 0)
  requireSound(definition)
  const origin =
    workflowId === null || current === null
      ? null
      : await originOf(context.db, workflowId, { current, definition })
  const by = { user_id: caller.userId, role: caller.role }
  return { definition, rolesOf: rolesOfSteps(definition, authorsOf(definition, by, origin)) }
}

/** `run_by` of the current version binds older ones too (accept.ts). */
async function runByOf(
  context: ChangingRuns,
  { workflowId, version }: PreviewRequest,
  definition: WorkflowDefinition,
  current: number | undefined,
): Promise<readonly WorkflowDefinition['run_by'][]> {
  if (workflowId === null || current === undefined || version === undefined || version === current)
    return [definition.run_by]
  return [definition.run_by, (await readVersion(context, workflowId, current)).definition.run_by]
}

async function executability(
  { db, config }: Configured,
  caller: Caller,
  { analysis, frozen }: PlannedRun & { readonly frozen: string | null },
  runByOfAll: readonly WorkflowDefinition['run_by'][],
): Promise<Pick<Preview, 'executable' | 'not_executable_because'>> {
  if (config.people.mustBeConfirmed) {
    const user = await db
      .selectFrom('users')
      .select('email_verified')
      .where('id', '=', caller.userId)
      .executeTakeFirst()
    if (user?.email_verified !== true) return { executable: false, not_executable_because: confirmFirst }
  }
  for (const runBy of runByOfAll) {
    const why = await whyMayNotRun(db, caller, runBy)
    if (why !== null) return { executable: false, not_executable_because: why }
  }
  if (!analysis.definitelyDenied) return { executable: true, not_executable_because: null }
  if (frozen !== null)
    return {
      executable: false,
      not_executable_because: `nothing can start until an owner unfreezes. ${explainFrozen(frozen)}`,
    }
  const { stepId, denied, remedy } = denialOf(analysis)
  return {
    executable: false,
    not_executable_because: `step \`${stepId}\` would be ${denied}${remedy}`,
  }
}

function approvalView(
  settings: GovernanceSettings,
  definition: WorkflowDefinition,
  { analysis, gate: most }: PlannedRun,
): RunApprovalPreview {
  const least = gateOf(settings, definition, analysis, 'least')
  const mayWait = most.waits !== null
  return {
    required: least.waits !== null,
    certainty: mayWait === (least.waits !== null) ? 'definite' : 'possible',
    risk_level: least.risk.level,
    highest_risk_level: most.risk.level,
    reasons: least.risk.reasons,
    possible_reasons: possibleReasons(definition, analysis),
    approver: mayWait ? roleOf(most.terms.seats) : null,
    approvals_needed: mayWait ? most.terms.needed : null,
    approvers: mayWait ? shownSeats(most.terms.seats) : [],
  }
}
