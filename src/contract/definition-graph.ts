import type { Reference } from '../policy/reference.ts'
import { referencesOf, templates, type Template } from '../policy/template-syntax.ts'
import type { Json } from '../policy/types.ts'
import { kindOf, valuesOf } from '../steps/index.ts'
import type { WorkflowDefinition, WorkflowStep } from './definition.ts'

/** `field` is the dotted path in the step, such as `params.to`. */
export function stepTemplates(step: WorkflowStep): { field: string; template: Template }[] {
  const at = (field: string, value: Json) => templates(value).map((template) => ({ field, template }))
  const { when } = step
  return [
    ...Object.entries(valuesOf(step)).flatMap(([name, value]) => at(`${kindOf(step).values}.${name}`, value)),
    ...(typeof when === 'string'
      ? at('when', when)
      : [...at('when.value', when?.value ?? null), ...at('when.compare', when?.compare ?? null)]),
    ...at('for_each', step.for_each ?? null),
  ]
}

/** Also those inside of expressions. */
export const referencesOfStep = (step: WorkflowStep): Reference[] =>
  stepTemplates(step).flatMap(({ template }) => referencesOf(template))

/** `depends_on` and all referenced steps, without the step itself and unknown steps. */
export function dependencies(definition: Pick<WorkflowDefinition, 'steps'>): Map<string, string[]> {
  const ids = new Set(definition.steps.map((step) => step.id))
  return new Map(
    definition.steps.map((step) => {
      const needed = new Set(step.depends_on)
      for (const reference of referencesOfStep(step))
        if (reference.kind === 'step') needed.add(reference.stepId)
      return [step.id, [...needed].filter((id) => id !== step.id && ids.has(id))]
    }),
  )
}

/** The inputs that each step reads, itself or in the outputs that it reads. The graph has no cycle. */
export function inputsRead({ steps }: Pick<WorkflowDefinition, 'steps'>): Map<string, ReadonlySet<string>> {
  const byId = new Map(steps.map((step) => [step.id, step]))
  const found = new Map<string, ReadonlySet<string>>()
  const readBy = (step: WorkflowStep): ReadonlySet<string> => {
    const known = found.get(step.id)
    if (known !== undefined) return known
    const read = new Set<string>()
    found.set(step.id, read)
    for (const reference of referencesOfStep(step)) {
      if (reference.kind === 'input') read.add(reference.name)
      const needed = reference.kind === 'step' ? byId.get(reference.stepId) : undefined
      if (needed !== undefined) for (const name of readBy(needed)) read.add(name)
    }
    return read
  }
  for (const step of steps) readBy(step)
  return found
}

/** Names for each step A the first step that waits for A and for no other step. */
export function followers(graph: ReadonlyMap<string, readonly string[]>): Map<string, string> {
  const found = new Map<string, string>()
  for (const [id, [needed, ...others]] of graph)
    if (needed !== undefined && others.length === 0 && !found.has(needed)) found.set(needed, id)
  return found
}

/** Null if several steps have no follower. Without a cycle, all steps lead to the returned step. */
export function lastStep(graph: ReadonlyMap<string, readonly string[]>): string | null {
  const needed = new Set([...graph.values()].flat())
  const [last, ...others] = [...graph.keys()].filter((id) => !needed.has(id))
  return last !== undefined && others.length === 0 ? last : null
}

/** Each step in the list waits for the next, and the last for the first. The time is linear in the graph. */
export function findCycle(graph: ReadonlyMap<string, readonly string[]>): string[] | null {
  const waitingFor = new Map<string, number>()
  const dependants = new Map<string, string[]>()
  for (const [id, needed] of graph) {
    waitingFor.set(id, needed.length)
    for (const each of needed) {
      const list = dependants.get(each)
      if (list === undefined) dependants.set(each, [id])
      else list.push(id)
    }
  }
  const ready = [...waitingFor].filter(([, count]) => count === 0).map(([id]) => id)
  for (let id = ready.pop(); id !== undefined; id = ready.pop()) {
    waitingFor.delete(id)
    for (const each of dependants.get(id) ?? []) {
      const left = (waitingFor.get(each) ?? 0) - 1
      waitingFor.set(each, left)
      if (left === 0) ready.push(each)
    }
  }
  // Each remaining step waits for another remaining one, so this leads to a cycle.
  const seen = new Map<string, number>()
  const walk: string[] = []
  let at = waitingFor.keys().next().value
  while (at !== undefined && !seen.has(at)) {
    seen.set(at, walk.length)
    walk.push(at)
    at = graph.get(at)?.find((id) => waitingFor.has(id))
  }
  return at === undefined ? null : walk.slice(seen.get(at))
}
