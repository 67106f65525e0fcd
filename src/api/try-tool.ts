import { typeOfJson } from '../contract/json.ts'
import { workflowDefinition, type WorkflowDefinition } from '../contract/definition.ts'
import { parseParams } from '../contract/tool-params.ts'
import { requireRole, requireScopes } from '../governance/access/recheck.ts'
import type { Caller } from '../governance/access/identity.ts'
import type { ChangingRuns } from '../governance/context.ts'
import { DomainError } from '../governance/errors.ts'
import { actOnce, type Once } from '../governance/idempotency.ts'
import { acceptRun } from '../governance/runs/start/accept.ts'
import { previewRun, type Preview } from '../governance/runs/start/preview.ts'
import { changeWorkflow, createWorkflow } from '../governance/workflows/workflows.ts'
import { headline } from '../policy/issues.ts'
import type { JsonObject, Label } from '../policy/types.ts'
import type { ToolDeclaration } from '../tools/kit/tool.ts'

/*
 * A call is tried as a workflow of one step, so it is previewed and made like every other. Its parameters are inputs: a
 * text with braces stays a text. The run belongs to the workflow `Try TOOL` of the person, which is made at the first
 * time.
 */

export interface Trial {
  readonly verdict: Preview['verdict']
  readonly executable: boolean
  readonly not_executable_because: string | null
  readonly step: Preview['steps'][number]
  readonly run_id: string | null
}

interface TrialRequest {
  readonly tool: ToolDeclaration
  readonly params: JsonObject
  readonly labels: readonly Label[]
  /** The call is really made. */
  readonly run: boolean
  readonly once: Once | null
}

/** Throws `validation_error` for parameters that the tool refuses, and with `run` what `acceptRun` throws. */
export async function tryTool(
  context: ChangingRuns,
  caller: Caller,
  { tool, params, labels, run, once }: TrialRequest,
): Promise<Trial> {
  const parsed = parseParams(tool, params)
  if (!parsed.ok)
    throw new DomainError(
      'validation_error',
      headline('the tool would refuse these parameters', parsed.issues),
      parsed.issues.map(({ path, message }) => ({ path: `params.${path}`, message })),
    )
  const inputs = Object.fromEntries(Object.entries(params).filter(([, value]) => value !== null))
  const inputLabels = Object.fromEntries(Object.keys(inputs).map((name) => [name, labels]))
  const definition = definitionOf(tool, inputs)
  const given = { inputs, inputLabels }
  const preview = await previewRun(context, { caller, workflowId: null, definition, ...given })
  const [step] = preview.steps as [Preview['steps'][number]]
  const { verdict, executable, not_executable_because } = preview
  const trial = { verdict, executable, not_executable_because, step }
  if (!run) return { ...trial, run_id: null }
  const acting = { ...caller, needs: toRun }
  requireScopes(caller.scopes, toRun)
  requireRole(caller.role, toRun.role)
  const { runId } = await actOnce(once, async () => {
    const workflowId = await workflowOf(context, acting, tool, definition)
    return acceptRun(context, { caller: acting, workflowId, ...given, once })
  })
  return { ...trial, run_id: runId }
}

const toRun = { scope: 'workflows:write', further: ['runs:write'], role: 'member' } as const

const definitionOf = ({ name }: ToolDeclaration, inputs: JsonObject): WorkflowDefinition =>
  workflowDefinition.parse({
    inputs: Object.fromEntries(
      Object.entries(inputs).map(([each, value]) => [each, { type: typeOfJson(value), required: true }]),
    ),
    steps: [
      {
        id: 'call',
        tool: name,
        params: Object.fromEntries(Object.keys(inputs).map((each) => [each, `{{input.${each}}}`])),
      },
    ],
  })

/** With other parameters, it gets a new version. */
async function workflowOf(
  context: ChangingRuns,
  caller: Caller,
  { name: tool }: ToolDeclaration,
  definition: WorkflowDefinition,
): Promise<string> {
  const name = `Try ${tool}`
  const found = await context.db
    .selectFrom('workflows')
    .select('id')
    .where('organization_id', '=', caller.organizationId)
    .where('created_by', '=', caller.userId)
    .where('name', '=', name)
    .where('deleted_at', 'is', null)
    .where('poll_of', 'is', null)
    .orderBy('id')
    .executeTakeFirst()
  const { id } =
    found === undefined
      ? await createWorkflow(context, caller, { name, definition, description: '' })
      : await changeWorkflow(context, caller, found.id, { definition })
  return id
}
