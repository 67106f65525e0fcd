import { sql, type Selectable } from 'kysely'
import { kindOf, shownWhat, valuesOf } from '../../../steps/index.ts'
import { isTemplate, parseText } from '../../../policy/template-syntax.ts'
import { whenParts } from '../../../policy/when.ts'
import type { WorkflowDefinition, WorkflowStep } from '../../../contract/definition.ts'
import type { Db } from '../../../db/schema/index.ts'
import type { Author, WorkflowVersionsTable } from '../../../db/schema/workflows.ts'
import { canonicalJson, hashOf } from '../../../shared/canonical-json.ts'
import { DomainError } from '../../errors.ts'

/* A person's text stays theirs when somebody else saves it again or copies it (docs/decisions/0265). */

/** The version from which a new version takes over text. */
export interface Origin {
  readonly definition: WorkflowDefinition
  readonly authors: readonly Author[]
  readonly step_authors: readonly (readonly number[])[]
}

type Authorship = Pick<Origin, 'authors' | 'step_authors'>

/** A version has at most this many authors. Each run of the version keeps their ids. */
export const mostAuthors = 50

/**
 * `by` is an author of every step, because a change of one step can change what another step does. A person
 * has the role of the last time when they saved the version. Throws `validation_error` above `mostAuthors`.
 */
export function authorsOf(definition: WorkflowDefinition, by: Author, origin: Origin | null): Authorship {
  const former = formerAuthors(origin)
  const ids = tracesByPart(definition).map((traces) => [
    ...new Set([...traces.flatMap((trace) => [...(former.get(trace) ?? [])]), by.user_id]),
  ])
  const people = new Map([...(origin?.authors ?? []), by].map((author) => [author.user_id, author]))
  const authors = [...new Set(ids.flat())].flatMap((id) => people.get(id) ?? [])
  if (authors.length > mostAuthors) throw tooManyAuthors()
  const indexes = new Map(authors.map(({ user_id }, index) => [user_id, index]))
  return { authors, step_authors: ids.map((list) => list.flatMap((id) => indexes.get(id) ?? [])) }
}

function formerAuthors(origin: Origin | null): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, Set<string>>()
  if (origin === null) return found
  const { definition, authors, step_authors } = origin
  for (const [at, traces] of tracesByPart(definition).entries()) {
    const ids = (step_authors[at] ?? []).flatMap((each) => authors[each]?.user_id ?? [])
    for (const trace of traces) {
      const people = found.get(trace) ?? new Set()
      found.set(trace, people)
      for (const id of ids) people.add(id)
    }
  }
  return found
}

/** Those of each step, and then those of the defaults of inputs. */
const tracesByPart = ({ steps, inputs = {} }: WorkflowDefinition): string[][] => [
  ...steps.map(tracesOf),
  Object.entries(inputs).flatMap(([name, { default: value }]) =>
    value === undefined ? [] : [canonicalJson([name, value]), ...textsIn(value)],
  ),
]

/** Each value with its tool or kind, the list and the condition with the step's id, and each longer text. */
function tracesOf(step: WorkflowStep): string[] {
  const { id, for_each: list, when } = step
  const values = valuesOf(step)
  const what = shownWhat({ tool: step.tool ?? null, kind: kindOf(step).name })
  const own = Object.entries(values).map(([name, value]) => [what, name, value])
  const around = [list, when].flatMap((value, kind) => (value === undefined ? [] : [[id, kind, value]]))
  return [
    ...(own.length === 0 ? [[what]] : own).map(canonicalJson),
    ...around.map(canonicalJson),
    ...[values, list, ...whenParts(when)].flatMap(textsIn),
  ]
}

/** A shorter text says nothing about who wrote it. */
const shortestText = 8

/** An expression can hold texts, so it counts as one. */
const hasOnlyReferences = (text: string): boolean =>
  isTemplate(text) &&
  parseText(text).every((part) =>
    typeof part === 'string' ? part.trim() === '' : part.kind !== 'expression',
  )

/** Also its lines and sentences, so that a text that is changed a little or moved is still found. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'object' && value !== null) return Object.values(value).flatMap(textsIn)
  if (typeof value !== 'string') return []
  return [value, ...value.split(/\n|[.!?](?=\s|$)/)]
    .map((text) => text.trim())
    .filter((text) => text.length >= shortestText && !hasOnlyReferences(text))
}

const tooManyAuthors = (): DomainError => {
  const message = `the version would have more than ${mostAuthors} authors: save the definition as a new workflow`
  return new DomainError('validation_error', message, [{ path: 'definition', message }])
}

/** The newest version with the same definition, or else the current version. */
export async function originOf(
  db: Db,
  workflowId: string,
  { current, definition }: { readonly current: number; readonly definition: WorkflowDefinition },
): Promise<Origin> {
  const isSame = sql<boolean>`digest = ${hashOf(definition)}`
  const row = await db
    .selectFrom('workflow_versions')
    .select(['definition', 'authors', 'step_authors'])
    .where('workflow_id', '=', workflowId)
    .where((eb) => eb.or([eb('version', '=', current), isSame]))
    .orderBy(isSame, 'desc')
    .orderBy('version', 'desc')
    .limit(1)
    .executeTakeFirstOrThrow()
  return originOfRow(row)
}

export const originOfRow = (
  row: Pick<Selectable<WorkflowVersionsTable>, 'definition' | 'authors' | 'step_authors'>,
): Origin => ({ ...row, definition: JSON.parse(row.definition) as WorkflowDefinition })
