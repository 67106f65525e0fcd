import type { z } from 'zod'
import type { JsonObject } from '../policy/types.ts'
import { ask } from './ask.ts'
import { compute } from './compute.ts'
import type { StepKind } from './kind.ts'
import { tool } from './tool.ts'
import { wait } from './wait.ts'

/** The kinds of steps. A step has the field of exactly one kind. */
const kinds = [tool, wait, compute, ask] as const

/** The fields of all kinds, for the schema of a step. */
export const kindFields = { ...tool.fields, ...wait.fields, ...compute.fields, ...ask.fields }
type Fields = typeof kindFields
type Given = { readonly id: string; readonly for_each?: unknown } & z.infer<z.ZodObject<Fields>>

const all: readonly StepKind<Fields>[] = kinds as readonly unknown[] as readonly StepKind<Fields>[]

const has = (step: object, field: string): boolean => (step as Record<string, unknown>)[field] !== undefined

/** Returns the kind of a step that the schema has accepted. */
export function kindOf(step: Given): StepKind<Fields> {
  const kind = all.find(({ name }) => has(step, name))
  if (kind === undefined) throw new Error(`the step \`${step.id}\` is of no kind`)
  return kind
}

/** Returns the values of a step that may have templates, by name. */
export const valuesOf = (step: Given): JsonObject =>
  ((step as Readonly<Record<string, unknown>>)[kindOf(step).values] ?? {}) as JsonObject

/** Whether the step waits, and holds no slot meanwhile. */
export const isPause = (step: Given): boolean => kindOf(step).run.as === 'pause'

/** The names of the activities that run steps without a tool. */
export const ownActivities: readonly string[] = all.flatMap(({ name, run }) =>
  run.as === 'call' ? [] : [name],
)

const quoted = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(' or ')

/** Returns what is wrong with the kind of a step: it has no kind, several, or fields of another kind. */
export function kindIssue(step: object): { readonly path: string; readonly message: string } | null {
  const own = all.filter(({ name }) => has(step, name))
  const [kind, other] = own
  if (kind === undefined)
    return { path: 'tool', message: `a step needs ${quoted(all.map(({ name }) => name))}` }
  if (other !== undefined)
    return { path: other.name, message: `a step has \`${kind.name}\` or \`${other.name}\`, not both` }
  for (const { name, fields } of all) {
    const foreign = name === kind.name ? undefined : Object.keys(fields).find((field) => has(step, field))
    if (foreign !== undefined)
      return { path: foreign, message: `only a step with \`${name}\` has \`${foreign}\`: leave it out` }
  }
  return null
}

/** A page, a row or an event of a step shows its tool, or the name of its kind if it calls none. */
export const shownWhat = ({ tool, kind }: { readonly tool: string | null; readonly kind: string }): string =>
  tool ?? kind
