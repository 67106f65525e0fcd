import { sql } from 'kysely'
import type { Db } from '../../../db/schema/index.ts'
import type { WorkflowDefinition } from '../../../contract/definition.ts'
import { checkInputs, type CheckedInputs } from '../../../contract/inputs.ts'
import { isObject, type Issue } from '../../../contract/json.ts'
import type { Unsealing } from '../../context.ts'
import type { InputLabels } from '../../../db/schema/runs.ts'
import { headline } from '../../../policy/issues.ts'
import { parseText } from '../../../policy/template-syntax.ts'
import { pathAt } from '../../../policy/reference.ts'
import { TemplateError, descend, inputSource, filesInput } from '../../../policy/templates.ts'
import {
  mostLabels,
  tooManyLabels,
  unionLabels,
  type Json,
  type JsonObject,
  type Label,
} from '../../../policy/types.ts'
import { DomainError } from '../../errors.ts'
import type { Caller } from '../../access/identity.ts'
import { covers } from '../../access/scopes.ts'
import { readRunFiles } from '../../files/run-files.ts'
import { sightOf } from '../../approvals/sight.ts'
import { readStepOutput } from '../read/read.ts'
import type { FrozenVersion } from '../values/version-cache.ts'

/** For all outputs to which the inputs of one run refer. The body of a request has the same limit. */
export const mostReferredBytes = 8 * 1024 ** 2
export const mostReferences = 20
/** JSON values in one output that is referred to. The body of a request has the same limit. */
const mostValues = 100_000

export interface GivenInputs {
  /** With defaults, and with the values in place of the references to them. */
  readonly inputs: JsonObject
  /** With defaults, and with the references as given. `input_hash` is the hash of these inputs. */
  readonly given: JsonObject
  readonly labels: InputLabels
  readonly refersToRuns: boolean
  /** Whether a run could start with these inputs. Is always true without `mayLack`. */
  readonly areComplete: boolean
}

export interface InputsOfRequest {
  /** A value such as `{"from_run": "run_…", "step": "read"}` refers to the output of a step of an earlier run. */
  readonly inputs: JsonObject
  /** Those of an earlier run, which `inputs` replace. They are values, and refer to nothing. */
  readonly former?: JsonObject | undefined
  readonly inputLabels?: Readonly<Record<string, readonly Label[]>> | undefined
  /** Ids of uploaded files. */
  readonly files?: readonly string[] | undefined
}

interface Reference {
  readonly name: string
  readonly runId: string
  readonly stepId: string
  readonly path: readonly string[]
}

interface Referred {
  readonly value: Json
  readonly labels: readonly Label[]
  readonly from: string
}

/**
 * With `mayLack`, for a preview, the inputs need not be complete. A reference (`from_run`) gets the labels of
 * its output and those of `inputLabels`. Throws `validation_error`, with the same message for a run that the
 * caller cannot see and for a run that does not exist.
 */
export async function givenInputs(
  context: Unsealing,
  caller: Caller,
  { definition }: Pick<FrozenVersion, 'definition'>,
  request: InputsOfRequest,
  { mayLack = false } = {},
): Promise<GivenInputs> {
  const { inputLabels = {} } = request
  const references = referencesIn(request.inputs)
  const unknown = Object.keys(inputLabels)
    .filter((name) => !Object.hasOwn(definition.inputs ?? {}, name))
    .map((name) => ({
      path: `input_labels.${name}`,
      message: `the workflow has no input \`${name}\``,
    }))
  refuse(unknown)
  const referred = await follow(context, caller, references)
  const values = [...referred].map(([name, { value }]) => [name, value] as const)
  const checked = checkInputs(
    definition,
    { ...request.former, ...request.inputs, ...Object.fromEntries(values) },
    { mayLack },
  )
  if (!('inputs' in checked)) refuse(checked)
  const { inputs: declared, areComplete } = checked as CheckedInputs
  const files = await readRunFiles(context, caller.organizationId, request.files ?? [])
  const inputs = files === null ? declared : { ...declared, [filesInput]: files.value }
  const labels = {
    ...labelsOf(withDeclared(definition, inputLabels, checked as CheckedInputs), referred),
    ...(files === null ? {} : { [filesInput]: files.labels }),
  }
  refuse(moreThanCarried(labels))
  const asGiven = references.map(({ name }) => [name, request.inputs[name] ?? null] as const)
  return {
    inputs,
    given: {
      ...inputs,
      ...Object.fromEntries(asGiven),
      ...(files === null ? {} : { [filesInput]: files.given }),
    },
    labels,
    refersToRuns: references.length > 0,
    areComplete,
  }
}

/** Throws `validation_error`. The message is the same for an output that the caller cannot see. */
export function refuseReferences(inputs: JsonObject): never {
  throw refusal(referencesIn(inputs).map(unseen))
}

function refusal(issues: Issue[]): DomainError {
  return new DomainError('validation_error', headline('the inputs do not fit the workflow', issues), issues)
}

function refuse(issues: Issue[]): void {
  if (issues.length > 0) throw refusal(issues)
}

const shape =
  'an object with `from_run` refers to an output: give only `from_run`, `step` and optionally `path`, as text'

function referencesIn(inputs: JsonObject): Reference[] {
  const issues: Issue[] = []
  const found = Object.entries(inputs).flatMap(([name, value]) => {
    if (!isObject(value) || !Object.hasOwn(value, 'from_run')) return []
    const reference = referenceOf(name, value)
    if (typeof reference !== 'string') return [reference]
    issues.push({ path: `inputs.${name}`, message: reference })
    return []
  })
  if (found.length > mostReferences)
    issues.push({
      path: 'inputs',
      message: `at most ${mostReferences} inputs can refer to outputs`,
    })
  refuse(issues)
  return found
}

/** If the result is a text, it is an error message. */
function referenceOf(name: string, value: JsonObject): Reference | string {
  const { from_run: runId, step: stepId, path = '' } = value
  const hasOthers = Object.keys(value).some((key) => !['from_run', 'step', 'path'].includes(key))
  if (hasOthers || typeof runId !== 'string' || typeof stepId !== 'string' || typeof path !== 'string')
    return shape
  if (path.length > 1_000) return '`path` has more than 1,000 characters'
  // `path` is parsed as the end of a template path. Example: `rows[0]` is parsed as `{{step.output.rows[0]}}`.
  const [read, ...more] = parseText(`{{step.output${path === '' || path.startsWith('[') ? '' : '.'}${path}}}`)
  const segments =
    typeof read === 'object' && read.kind === 'step' && read.of === 'output'
      ? pathAt(read.path, undefined)
      : null
  if (segments === null || more.length > 0) return 'write `path` as in templates, e.g. `rows[0].name`'
  return { name, runId, stepId, path: segments }
}

async function follow(
  context: Unsealing,
  caller: Caller,
  references: readonly Reference[],
): Promise<Map<string, Referred>> {
  const referred = new Map<string, Referred>()
  const issues: Issue[] = []
  let left = mostReferredBytes
  for (const reference of references) {
    const output = covers(caller.scopes, 'runs:read') ? await outputOf(context.db, caller, reference) : null
    left -= output?.bytes ?? 0
    if (output === null) issues.push(unseen(reference))
    else if (left < 0) {
      const message = `the outputs that inputs refer to take more than ${mostReferredBytes / 1024 ** 2} MiB`
      issues.push({ path: `inputs.${reference.name}`, message })
      break
    } else {
      const value = await valueOf(context, caller, reference)
      if (typeof value === 'string') issues.push({ path: `inputs.${reference.name}`, message: value })
      else
        referred.set(reference.name, {
          ...value,
          labels: output.labels,
          from: `${reference.runId}/${reference.stepId}`,
        })
    }
  }
  refuse(issues)
  return referred
}

const quotedStart = (text: string): string => `\`${text.slice(0, 200)}\``

const unseen = ({ name, runId, stepId }: Reference): Issue => ({
  path: `inputs.${name}`,
  message: `you can see no completed step ${quotedStart(stepId)} of a run ${quotedStart(runId)}, or its output was removed`,
})

/** Null if the caller cannot see the output. */
async function outputOf(
  db: Db,
  caller: Caller,
  { runId, stepId }: Reference,
): Promise<{ labels: readonly Label[]; bytes: number } | null> {
  const step = await db
    .selectFrom('run_steps as s')
    .innerJoin('runs as r', 'r.id', 's.run_id')
    .select([
      's.labels',
      'r.id',
      'r.requested_by',
      sql<string | null>`(select sum(value_bytes(e.output_sealed)) from effects e
                          where e.run_id = s.run_id and e.step_id = s.step_id)`.as('bytes'),
    ])
    .where('r.id', '=', runId)
    .where('r.organization_id', '=', caller.organizationId)
    .where('r.data_removed_at', 'is', null)
    .where('s.step_id', '=', stepId)
    .where('s.status', '=', 'completed')
    .where('s.finished_at', 'is not', null)
    .executeTakeFirst()
  if (step === undefined || (await sightOf(db, caller, step)).hidden !== null) return null
  return { labels: step.labels, bytes: Number(step.bytes ?? 0) }
}

/** If the result is a text, it is an error message. */
async function valueOf(
  context: Unsealing,
  caller: Caller,
  { runId, stepId, path }: Reference,
): Promise<{ value: Json } | string> {
  const output = await readStepOutput(context, caller.organizationId, runId, stepId)
  try {
    const value = descend(output, path, `${stepId}.output`)
    return hasMoreValues(value) ? `has more than ${mostValues.toLocaleString('en-US')} values` : { value }
  } catch (error) {
    if (error instanceof TemplateError) return error.message
    throw error
  }
}

function hasMoreValues(value: Json): boolean {
  const open: Json[] = [value]
  let count = 0
  for (let each = open.pop(); each !== undefined; each = open.pop()) {
    count += 1
    if (count > mostValues) return true
    if (typeof each === 'object' && each !== null) for (const child of Object.values(each)) open.push(child)
  }
  return false
}

/** Those that the definition declares for the input, and those that this start names. */
function withDeclared(
  { inputs: declarations = {} }: Pick<WorkflowDefinition, 'inputs'>,
  given: Readonly<Record<string, readonly Label[]>>,
  { inputs, areComplete }: CheckedInputs,
): Readonly<Record<string, readonly Label[]>> {
  const declared = Object.entries(declarations).filter(
    ([name, { labels }]) => labels !== undefined && (!areComplete || Object.hasOwn(inputs, name)),
  )
  const all = declared.map(
    ([name, { labels }]) => [name, unionLabels(labels ?? [], given[name] ?? [])] as const,
  )
  return { ...given, ...Object.fromEntries(all) }
}

function labelsOf(
  declared: Readonly<Record<string, readonly Label[]>>,
  referred: ReadonlyMap<string, Referred>,
): InputLabels {
  const names = new Set([...Object.keys(declared), ...referred.keys()])
  const labelled = [...names].map((name) => {
    const reference = referred.get(name)
    const labels = unionLabels(declared[name] ?? [], reference?.labels ?? [])
    const referredLabels = new Set(reference?.labels)
    const sources = labels.map((label) => ({
      label,
      from: [inputSource(name), ...(referredLabels.has(label) && reference ? [reference.from] : [])],
    }))
    return [name, sources] as const
  })
  return Object.fromEntries(labelled.filter(([, sources]) => sources.length > 0))
}

/** Returns an issue if the inputs of a run together have more labels than one call may have. */
function moreThanCarried(labels: InputLabels): Issue[] {
  const all = new Set(Object.values(labels).flatMap((sources) => sources.map(({ label }) => label)))
  return all.size > mostLabels ? [{ path: 'inputs', message: tooManyLabels('the inputs carry') }] : []
}
