import { sql, type Selectable } from 'kysely'
import type { WorkflowDefinition, WorkflowStep } from '../../../contract/definition.ts'
import type { Db } from '../../../db/schema/index.ts'
import type { Author, WorkflowVersionsTable } from '../../../db/schema/workflows.ts'
import { canonicalJson, hashOf } from '../../../shared/canonical-json.ts'
import { DomainError } from '../../errors.ts'

/*
 * The authors of a version: the person who saves it, and the authors of the text that it takes over from an earlier
 * version (docs/decisions/0265). So a person's text stays this person's text when somebody else saves it again, rolls
 * back to it or makes a workflow from it as a template.
 */

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
 * Returns the authors of a version that `by` saves now. `by` is an author of every step, because a change of one step can
 * change what another step does. The authors of a step of `origin` stay authors of this step as long as it keeps its
 * tool and at least one parameter. A person has one role in a version: the role at the last time when they saved it.
 * Throws `validation_error` if there are more than `mostAuthors`.
 */
export function authorsOf(definition: WorkflowDefinition, by: Author, origin: Origin | null): Authorship {
  const former = origin === null ? null : new Former(origin)
  const ids = [
    ...definition.steps.map((step) => former?.ofStep(step) ?? []),
    former?.ofDefaults(definition) ?? [],
  ].map((list) => [...new Set([...list, by.user_id])])
  const people = new Map([...(origin?.authors ?? []), by].map((author) => [author.user_id, author]))
  const authors = [...new Set(ids.flat())].flatMap((id) => people.get(id) ?? [])
  if (authors.length > mostAuthors) throw tooManyAuthors()
  const places = new Map(authors.map(({ user_id }, place) => [user_id, place]))
  return { authors, step_authors: ids.map((list) => list.flatMap((id) => places.get(id) ?? [])) }
}

/** Finds the authors of parts of a version. */
class Former {
  readonly #origin: Origin
  readonly #byId: ReadonlyMap<string, number>
  /** The authors of all steps that make the same call. */
  readonly #bySame: ReadonlyMap<string, ReadonlySet<string>>

  constructor(origin: Origin) {
    this.#origin = origin
    this.#byId = new Map(origin.definition.steps.map(({ id }, at) => [id, at]))
    const bySame = new Map<string, Set<string>>()
    for (const [at, step] of origin.definition.steps.entries()) {
      const key = sameCall(step)
      const people = bySame.get(key) ?? new Set()
      bySame.set(key, people)
      for (const id of this.#authorsAt(at)) people.add(id)
    }
    this.#bySame = bySame
  }

  ofStep(step: WorkflowStep): string[] {
    const at = this.#byId.get(step.id)
    const former = at === undefined ? undefined : this.#origin.definition.steps[at]
    const own = at !== undefined && former !== undefined && keepsText(former, step) ? this.#authorsAt(at) : []
    return [...own, ...(this.#bySame.get(sameCall(step)) ?? [])]
  }

  /** Returns the authors of the defaults of inputs, if a new version takes one over. */
  ofDefaults({ inputs = {} }: WorkflowDefinition): string[] {
    const { inputs: former = {}, steps } = this.#origin.definition
    const isKept = Object.entries(inputs).some(
      ([name, { default: value }]) =>
        value !== undefined &&
        Object.hasOwn(former, name) &&
        former[name]?.default !== undefined &&
        canonicalJson(former[name].default) === canonicalJson(value),
    )
    return isKept ? this.#authorsAt(steps.length) : []
  }

  #authorsAt(place: number): string[] {
    const { authors, step_authors } = this.#origin
    const places = step_authors[place] ?? authors.keys()
    return [...places].flatMap((each) => authors[each]?.user_id ?? [])
  }
}

/** Whether a step keeps its tool, and one of its parameters if it has any. */
function keepsText(former: WorkflowStep, step: WorkflowStep): boolean {
  if (former.tool !== step.tool) return false
  const names = Object.keys(step.params)
  if (names.length === 0) return true
  return names.some(
    (name) =>
      Object.hasOwn(former.params, name) &&
      canonicalJson(former.params[name]) === canonicalJson(step.params[name]),
  )
}

/** A step whose id alone changes is the same step. */
const sameCall = ({ tool, params }: WorkflowStep): string => hashOf([tool, params])

const tooManyAuthors = (): DomainError => {
  const message = `the version would have more than ${mostAuthors} authors: save the definition as a new workflow`
  return new DomainError('validation_error', message, [{ path: 'definition', message }])
}

/**
 * Reads the version from which a new version takes over text: the newest version with the same definition, or the
 * current version if there is none.
 */
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
