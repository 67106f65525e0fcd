import type { Definition } from './definition.tsx'

/* What differs between two versions of a workflow, in sentences. */

type Step = Definition['steps'][number]
type Fields = Readonly<Record<string, unknown>>

const longest = 80

const shown = (value: unknown): string => {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const line = text.replaceAll('`', "'").replaceAll(/\s+/g, ' ')
  return `\`${line.length <= longest ? line : `${line.slice(0, longest).toWellFormed()}…`}\``
}

/** At most so many, and then how many more there are. */
const mostLines = 60

/** Empty if both are the same. Names and values are in backticks. */
export function differencesOf(before: Definition, after: Definition): string[] {
  const { steps: beforeSteps, inputs: beforeInputs = {}, ...beforeRest } = before
  const { steps: afterSteps, inputs: afterInputs = {}, ...afterRest } = after
  const lines = [
    ...inputLines(beforeInputs, afterInputs),
    ...stepLines(beforeSteps, afterSteps),
    ...fieldLines(beforeRest, afterRest, ''),
  ]
  return lines.length <= mostLines
    ? lines
    : [...lines.slice(0, mostLines), `${lines.length - mostLines} more differences`]
}

function inputLines(before: Fields, after: Fields): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) => {
    if (before[name] === undefined) return [`the input \`${name}\` is new`]
    if (after[name] === undefined) return [`the input \`${name}\` is gone`]
    return fieldLines(before[name] as Fields, after[name] as Fields, `the input \`${name}\`: `)
  })
}

function stepLines(before: readonly Step[], after: readonly Step[]): string[] {
  const [had, has] = [before, after].map((steps) => new Map(steps.map((step) => [step.id, step])))
  const [kept, keptNow] = [
    before.filter(({ id }) => has?.has(id)).map(({ id }) => id),
    after.filter(({ id }) => had?.has(id)).map(({ id }) => id),
  ]
  return [
    ...after.flatMap((step) => {
      const old = had?.get(step.id)
      if (old !== undefined) return changedStep(old, step)
      return [`the step \`${step.id}\` is new: it ${doesWhat(step)}`]
    }),
    ...before.flatMap(({ id }) => (has?.has(id) ? [] : [`the step \`${id}\` is gone`])),
    ...(isSame(kept, keptNow) ? [] : ['the steps stand in another order']),
  ]
}

const doesWhat = ({ tool, wait, ask }: Step): string =>
  tool !== undefined
    ? `calls \`${tool}\``
    : ask !== undefined
      ? 'asks a person'
      : wait !== undefined
        ? 'waits'
        : 'computes'

function changedStep(before: Step, after: Step): string[] {
  const at = `the step \`${after.id}\`: `
  if (before.tool !== after.tool || doesWhat(before) !== doesWhat(after))
    return [`${at}it ${doesWhat(after)}, and no longer ${doesWhat(before)}`]
  return fieldLines(before, after, at)
}

/** Objects are compared field by field, to any depth. */
function fieldLines(before: Fields, after: Fields, at: string, path = ''): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) => {
    const [was, is] = [before[name], after[name]]
    if (isSame(was, is)) return []
    const where = `${at}\`${path}${name}\``
    if (was === undefined) return [`${where} is new: ${shown(is)}`]
    if (is === undefined) return [`${where} is gone; it was ${shown(was)}`]
    if (isFields(was) && isFields(is)) return fieldLines(was, is, at, `${path}${name}.`)
    return [`${where} was ${shown(was)}, and is ${shown(is)}`]
  })
}

/** The order of an object's fields does not matter. */
function isSame(one: unknown, other: unknown): boolean {
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((each, index) => isSame(each, other[index]))
  if (!isFields(one) || !isFields(other)) return one === other
  const names = Object.keys(one)
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && isSame(one[name], other[name]))
  )
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
