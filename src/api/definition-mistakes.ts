import { checkDefinition } from '../contract/definition-check.ts'
import { definitionDocument, type DefinitionDocument } from '../contract/definition.ts'
import { isObject, type Issue } from '../contract/json.ts'
import { headline, readAs } from '../policy/issues.ts'
import { nameForm } from '../policy/reference.ts'
import type { Json, JsonObject } from '../policy/types.ts'
import { getTool } from '../tools/index.ts'
import { ApiError } from './errors.ts'

/** So many mistakes are named. */
const mostMistakes = 100

/**
 * The document, if it could be saved. Throws `validation_error` with all mistakes: of the shape, and those that only the
 * meaning shows, such as a reference to an output that does not exist. Where the shape is wrong, nothing is said about
 * the meaning of that step, or of what refers to it.
 */
export function requireFlawless(document: Json): DefinitionDocument {
  const read = readAs(definitionDocument, document)
  const issues = read.ok ? meaning(read.value) : [...read.issues, ...meaningBeside(document, read.issues)]
  if (read.ok && issues.length === 0) return read.value
  throw new ApiError(
    'validation_error',
    headline('the definition is not valid', issues),
    issues.slice(0, mostMistakes).map(({ path, message }) => ({ path: `definition.${path}`, message })),
  )
}

const meaning = (document: DefinitionDocument): Issue[] => checkDefinition(document, { get: getTool })

/** Parts with a wrong shape are replaced by parts that say nothing wrong, and what would be said of these is left out. */
function meaningBeside(document: Json, wrong: readonly Issue[]): Issue[] {
  if (!isObject(document) || !Array.isArray(document['steps'])) return []
  const steps = document['steps'] as readonly Json[]
  const places = wrong.map(({ path }) => path.split('.'))
  const broken = new Map(
    places.flatMap(([first, place]) =>
      first === 'steps' && place !== undefined
        ? [[Number(place), idOf(steps[Number(place)], place)] as const]
        : [],
    ),
  )
  const fields = new Set(places.flatMap(([first = '']) => (first === 'steps' ? [] : [first])))
  const repaired = {
    ...Object.fromEntries(Object.entries(document).filter(([name]) => !fields.has(name))),
    steps: steps.map((step, place) => standIn(broken.get(place)) ?? step),
  }
  const read = readAs(definitionDocument, repaired)
  if (!read.ok) return []
  const unsure = [
    ...[...broken.values()].map((id) => `\`${id}\``),
    ...(fields.has('inputs') ? ['input'] : []),
  ]
  return meaning(read.value).filter(
    ({ path, message }) =>
      !broken.has(Number(/^steps\.(\d+)/.exec(path)?.[1] ?? NaN)) &&
      !unsure.some((each) => message.includes(each) || message.includes(each.replaceAll('`', '') + '.')),
  )
}

const idOf = (step: Json | undefined, place: string): string => {
  const id = isObject(step) ? step['id'] : null
  return typeof id === 'string' && nameForm.test(id) ? id : `step_${place}`
}

const standIn = (id: string | undefined): JsonObject | null =>
  id === undefined ? null : { id, tool: 'memory_get', params: { key: 'k' } }
