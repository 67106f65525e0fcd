import type { EffectKey } from '../../contract/ids.ts'
import type { ApprovalKind } from '../../contract/status.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import type { Question } from '../../steps/ask.ts'
import type { UnsealingRuns } from '../context.ts'
import { readOutputText } from '../runs/values/outputs.ts'
import { readVersion, type VersionReader } from '../runs/values/version-cache.ts'

/* What a step `ask` asks stands in the frozen version of its run. Its row of `approvals` has only the title. */

interface QuestionRow {
  readonly kind: ApprovalKind
  readonly run_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  readonly workflow_id: string | null
  /** The version of the run; null without a run. */
  readonly workflow_version: number | null
}

const keyOf = ({ kind, run_id: runId, step_id: stepId, item_index }: QuestionRow): EffectKey | null =>
  kind === 'ask' && runId !== null && stepId !== null ? { runId, stepId, itemIndex: item_index ?? -1 } : null

/** Null: there is no such approval in the organization. `question` is null for any other kind. */
export async function readQuestion(
  context: VersionReader,
  organizationId: string,
  approvalId: string,
): Promise<{ readonly question: null } | { readonly question: Question; readonly key: EffectKey } | null> {
  const row = await context.db
    .selectFrom('approvals as a')
    .leftJoin('runs as r', 'r.id', 'a.run_id')
    .select(['a.kind', 'a.run_id', 'a.step_id', 'a.item_index', 'a.workflow_id', 'r.workflow_version'])
    .where('a.id', '=', approvalId)
    .where('a.organization_id', '=', organizationId)
    .executeTakeFirst()
  if (row === undefined) return null
  const key = keyOf(row)
  return key === null ? { question: null } : { key, question: await definedQuestion(context, key, row) }
}

async function definedQuestion(
  context: VersionReader,
  { runId, stepId }: EffectKey,
  { workflow_id, workflow_version }: Pick<QuestionRow, 'workflow_id' | 'workflow_version'>,
): Promise<Question> {
  const { definition } = await readVersion(context, workflow_id ?? '', workflow_version ?? 0)
  const asked = definition.steps.find((step) => step.id === stepId)?.ask
  if (asked === undefined) throw new Error(`the step \`${stepId}\` of run \`${runId}\` asks nothing`)
  return asked
}

/** The values of `show` as the author has ordered them. Sealed values have their names sorted. */
export async function inAuthorsOrder(
  context: VersionReader,
  row: QuestionRow,
  values: JsonObject,
): Promise<JsonObject> {
  const key = keyOf(row)
  if (key === null) return values
  const { show = {} } = await definedQuestion(context, key, row)
  return Object.fromEntries(Object.keys(show).map((name) => [name, values[name] ?? null]))
}

/** What the API shows of a question. */
export interface ShownQuestion {
  readonly choices: readonly string[] | null
  readonly form: NonNullable<Question['form']> | null
  /** The answer if nobody answers in time; null: the step then ends as `expired`. */
  readonly otherwise: Json
  /** Null until somebody has answered. */
  readonly answered_by: { readonly user_id: string; readonly email: string } | null
  /** The person who was away, and by whose right they answered; null: by their own. */
  readonly answered_for: { readonly user_id: string; readonly email: string } | null
  /** Only of a single answered question, for people who see `params`. */
  readonly answer?: Json
}

type Answered = QuestionRow & {
  readonly answered: Pick<ShownQuestion, 'answered_by' | 'answered_for'> | null
}

/** Null for any other kind. */
export async function shownQuestion(
  context: UnsealingRuns,
  row: Answered,
  { withAnswer }: { readonly withAnswer: boolean },
): Promise<ShownQuestion | null> {
  const key = keyOf(row)
  if (key === null) return null
  const { choices = null, form = null, otherwise = null } = await definedQuestion(context, key, row)
  const { answered_by = null, answered_for = null } = row.answered ?? {}
  const answer = withAnswer ? await readAnswer(context, key) : undefined
  return { choices, form, otherwise, answered_by, answered_for, ...(answer === undefined ? {} : { answer }) }
}

/** Undefined until the step has an output, and after it was removed. */
async function readAnswer(reader: UnsealingRuns, key: EffectKey): Promise<Json | undefined> {
  const text = await readOutputText(reader, key)
  return text === null ? undefined : (JSON.parse(text) as { answer: Json }).answer
}
