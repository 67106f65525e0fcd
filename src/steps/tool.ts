import { z } from 'zod'
import { checkParams } from '../contract/definition-params.ts'
import { withFilesAsText } from '../contract/tool-params.ts'
import { outputFormFor, type Form } from '../contract/forms.ts'
import { jsonObject } from '../contract/json.ts'
import { nearestNames } from '../policy/tool-names.ts'
import { textField } from '../policy/text.ts'
import { sideEffectOf } from '../policy/tool-facts.ts'
import { facts, getTool } from '../tools/index.ts'
import { mostTimeoutSeconds, serviceOf, type ToolCatalog } from '../tools/kit/tool.ts'
import { defineKind, type StepOf } from './kind.ts'
/** Calls with a longer time limit than this are ordinary activities, never local ones. */
const mostQuickSeconds = 10

/**
 * The output of these tools can have labels that the tool's declaration does not name. For example, `memory_get`
 * returns a stored value with the labels of this value.
 */
const bringingOwnLabels: ReadonlySet<string> = new Set(['memory_get'])

const fields = {
  tool: textField(200).optional(),
  params: jsonObject.optional(),
  /** `attempts` is the number of all attempts, including the first attempt. */
  retry: z
    .strictObject({ attempts: z.int().min(1).max(20), backoff_seconds: z.number().min(0).max(3600) })
    .optional(),
  timeout_seconds: z.number().min(1).max(mostTimeoutSeconds).optional(),
}

/** A step that calls a tool. The policy decides its call. */
export const tool = defineKind({
  name: 'tool',
  fields,
  values: 'params',
  check({ tool: name = '', params = {} }, { catalog, formOf }) {
    const called = catalog.get(name)
    if (called === undefined) return [{ path: 'tool', message: unknownTool(name, catalog) }]
    return checkParams(called, params, formOf).map(({ path, message }) => ({
      path: `params.${path}`,
      message,
    }))
  },
  output({ tool: name = '', params = {} }, catalog): Form {
    const called = catalog.get(name)
    return called === undefined ? true : outputFormFor(called, params)
  },
  plan({ tool: name = '', params: written = {} }, { catalog, destinationOf, takesResults }) {
    const called = catalog.get(name)
    // A tool that is no longer in the catalogue counts as egress.
    if (called === undefined)
      return {
        tool: name,
        sideEffect: 'egress',
        destination: undefined,
        outputLabels: [],
        bringsOwnLabels: true,
        params: written,
      }
    const to = destinationOf(called)
    const params = withFilesAsText(called, written)
    return {
      tool: name,
      sideEffect: sideEffectOf(called, params, to, takesResults(params)),
      destination: to?.destination ?? (serviceOf(called) === null ? null : undefined),
      outputLabels: called.outputLabels,
      bringsOwnLabels: bringingOwnLabels.has(name),
      params,
      people: called.people,
    }
  },
  skeleton(step) {
    const { id, tool: name = '' } = step
    const called = getTool(name)
    const isQuick = isQuickCall(step)
    return {
      activity: name,
      timeoutSeconds: secondsOf(step),
      isQuick,
      isShort: isQuick || (called !== undefined && serviceOf(called) === null),
      title: `${name} for step ${id}`,
    }
  },
  waits: () => null,
  run: { as: 'call' },
})

type ToolStep = StepOf<typeof fields>

const secondsOf = ({ tool: name = '', timeout_seconds: own }: ToolStep): number =>
  own ?? getTool(name)?.timeoutSeconds ?? 60

/** Whether the call of the step may run as a local activity (`SkeletonPart.isQuick`). */
function isQuickCall(step: ToolStep): boolean {
  const repeat = getTool(step.tool ?? '')?.repeat
  const mayRepeat = repeat === 'free' || repeat === 'transactional' || repeat === 'keyed'
  return mayRepeat && secondsOf(step) <= mostQuickSeconds
}

function unknownTool(name: string, catalog: ToolCatalog): string {
  const names = facts.tools.map((each) => each.name)
  const near = nearestNames(name, names).filter((each) => catalog.get(each) !== undefined)
  const hint = near.length === 0 ? '' : `did you mean ${near.map((each) => `\`${each}\``).join(' or ')}; `
  return `there is no tool \`${name}\`: ${hint}\`GET /tools\` lists the tools`
}
