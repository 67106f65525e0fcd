import type { WorkflowDefinition } from '../../../contract/definition.ts'
import { getTool } from '../../../catalog/index.ts'
import type { ToolDeclaration } from '../../../catalog/tool.ts'
import type { RiskLevel, Verdict } from '../../../policy/types.ts'
import type { JsonObject } from '../../../policy/types.ts'
import { filesInput } from '../../../policy/uploaded-files.ts'
import { confirmFirst } from '../../access/address-proof.ts'
import type { Caller } from '../../access/identity.ts'
import { policySnapshot } from '../../audit/policy-snapshot.ts'
import type { Context } from '../../context.ts'
import { notFound } from '../../errors.ts'
import { requireSound } from '../../tools/sound-definition.ts'
import { toolStanding, type ToolStanding } from '../../tools/connections.ts'
import { readVersion } from '../values/version-cache.ts'
import { givenInputs, type InputsOfRequest } from './given-inputs.ts'
import { planRun, type PlannedRun } from './plan-run.ts'
import { denialOf } from './refusal.ts'
import { viewSteps, type PreviewedStep } from './preview-steps.ts'

export interface PreviewRequest extends Omit<InputsOfRequest, 'inputs'> {
  readonly caller: Caller
  readonly workflowId: string
  /** If absent, nothing is known about the inputs. */
  readonly inputs?: InputsOfRequest['inputs'] | undefined
  /** Default: the current version. */
  readonly version?: number | undefined
  /** An unsaved definition that is used instead of a version. */
  readonly definition?: WorkflowDefinition | undefined
}

export interface Preview {
  readonly verdict: Verdict
  /** false: the run would be refused with `run_denied`. */
  readonly executable: boolean
  readonly not_executable_because: string | null
  /** Inputs whose values are not known. Their values can change the verdicts, but only within the shown bounds. */
  readonly unknown_inputs: readonly string[]
  readonly run_approval: {
    readonly required: boolean
    readonly risk_level: RiskLevel
    readonly reasons: readonly string[]
    /** null: the run would not wait for approval. */
    readonly approver: 'admin' | 'owner' | null
    readonly approvals_needed: number | null
  }
  readonly steps: readonly PreviewedStep[]
}

/**
 * The policy's present answer about a run that the caller would start. Nothing is recorded. Throws `not_found` for an
 * unknown version. Throws `validation_error` for a definition that could not be saved and for inputs that do not fit.
 */
export async function previewRun(
  context: Pick<Context, 'db' | 'combiner' | 'config' | 'runCaches' | 'sealer'>,
  request: PreviewRequest,
): Promise<Preview> {
  const { caller, inputs } = request
  const definition = await definitionOf(context, request)
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
  const planned = planRun(policy, {
    definition,
    inputs: known,
    areInputsComplete,
    labels: given.labels,
    requester: { role: caller.role, email: caller.email },
    startsAt: null,
    timeZone: 'UTC',
  })
  const unknown = Object.keys(definition.inputs ?? {}).filter((name) => !Object.hasOwn(known, name))
  return {
    ...previewView(
      (tool) => toolStanding(context.config.tools, policy.connections, tool, caller.userId),
      planned,
    ),
    ...(await executability(context, caller, planned)),
    unknown_inputs: areInputsComplete ? [] : unknown,
  }
}

/** The run's files, which are known even if no inputs are given. */
const filesOf = (inputs: JsonObject): JsonObject =>
  Object.hasOwn(inputs, filesInput) ? { [filesInput]: inputs[filesInput] ?? null } : {}

async function definitionOf(
  context: Parameters<typeof previewRun>[0],
  { caller, workflowId, version, definition }: PreviewRequest,
): Promise<WorkflowDefinition> {
  if (definition !== undefined) {
    requireSound(definition)
    return definition
  }
  const workflow = await context.db
    .selectFrom('workflows')
    .select('current_version')
    .where('id', '=', workflowId)
    .where('organization_id', '=', caller.organizationId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst()
  if (workflow === undefined) throw notFound('workflow', workflowId)
  return (await readVersion(context, workflowId, version ?? workflow.current_version)).definition
}

async function executability(
  { db, config }: Pick<Context, 'db' | 'config'>,
  caller: Caller,
  { analysis }: PlannedRun,
): Promise<Pick<Preview, 'executable' | 'not_executable_because'>> {
  if (config.people.mustBeConfirmed) {
    const user = await db
      .selectFrom('users')
      .select('email_verified')
      .where('id', '=', caller.userId)
      .executeTakeFirst()
    if (user?.email_verified !== true) return { executable: false, not_executable_because: confirmFirst }
  }
  if (!analysis.definitelyDenied) return { executable: true, not_executable_because: null }
  const { stepId, denied, remedy } = denialOf(analysis)
  return {
    executable: false,
    not_executable_because: `step \`${stepId}\` would be ${denied}${remedy}`,
  }
}

const previewView = (
  standingOf: StandingOf,
  { analysis, gate }: PlannedRun,
): Pick<Preview, 'verdict' | 'run_approval' | 'steps'> => ({
  verdict: analysis.verdict,
  run_approval: {
    required: gate.waits !== null,
    risk_level: gate.risk.level,
    reasons: gate.risk.reasons,
    approver: gate.waits === null ? null : gate.terms.approver,
    approvals_needed: gate.waits === null ? null : gate.terms.needed,
  },
  steps: viewSteps(analysis.steps, (name) => standingByName(standingOf, name)),
})

type StandingOf = (tool: ToolDeclaration) => ToolStanding

function standingByName(standingOf: StandingOf, name: string): ToolStanding {
  const tool = getTool(name)
  if (tool === undefined)
    return {
      connected: false,
      unavailable: `there is no tool \`${name}\` any more`,
    }
  return standingOf(tool)
}
