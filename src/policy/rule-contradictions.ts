import type { ParamCondition } from './condition.ts'
import { matchesGlob } from './glob.ts'
import { catalogueNames, isAgentsTool } from './tool-names.ts'
import { toolSideEffects } from './tool-side-effects.ts'
import type { SideEffect } from './types.ts'

/*
 * Finds fields of a rule that contradict each other, so that the rule would never match, and nobody would notice. A
 * rule is refused only if the contradiction is certain for every call (docs/decisions/0192).
 */

interface Issue {
  readonly path: readonly (string | number)[]
  readonly message: string
}

interface Fields {
  readonly tools?: readonly string[] | undefined
  readonly side_effects?: readonly SideEffect[] | undefined
  readonly params?: readonly ParamCondition[] | undefined
  readonly applies_to?: readonly string[] | undefined
}

const isForWorkflowsAlone = ({ applies_to: sources }: Fields): boolean =>
  sources !== undefined && !sources.includes('agents')

/** Returns an issue if a rule applies only to workflows, and names only tools that no workflow has. */
export function foreignTools(rule: Fields): Issue | null {
  const [tool] = rule.tools ?? []
  if (tool === undefined || !isForWorkflowsAlone(rule)) return null
  if (!rule.tools?.every((glob) => isAgentsTool(glob))) return null
  return {
    path: ['applies_to'],
    message: `leaves agents out, but only agents have the tool \`${tool}\`, so the rule would never match: add \`agents\`, or name tools of the catalogue`,
  }
}

/**
 * Returns an issue if a rule applies only to workflows, and names side effects that none of its tools has. Rules for
 * agents are not checked, because the effects of their tools are not certain. An agent's tool may have the name of a
 * catalogue tool, and an organization may declare the effect of this tool.
 */
export function otherSideEffects(rule: Fields): Issue | null {
  const { tools, side_effects: wanted } = rule
  if (tools === undefined || wanted === undefined || !isForWorkflowsAlone(rule)) return null
  const named = catalogueNames.filter((name) => tools.some((glob) => matchesGlob(glob, name)))
  const [first] = named
  if (first === undefined || named.some((name) => wanted.includes(toolSideEffects[name]))) return null
  const own = [...new Set(named.map((name) => `\`${toolSideEffects[name]}\``))].join(' or ')
  const what = named.length === 1 ? `\`${first}\` is` : 'the named tools are'
  return {
    path: ['side_effects'],
    message: `${what} ${own}, so the rule would never match: leave \`side_effects\` out, or name other tools`,
  }
}

/**
 * Whether a condition can hold only if the parameter has a value. For `exists`, an empty text is no value. Other
 * operators can compare an empty text. So a condition that lists the empty text needs no value.
 */
const needsValue = ({ operator, value }: ParamCondition): boolean => {
  if (operator === 'exists') return value
  if (operator === 'equals' || operator === 'in') return ![value].flat().includes('')
  return operator === 'contains' || operator === 'startswith' || operator === 'domain_in'
}

/**
 * Returns an issue if a parameter must be absent and must also have a value. Only whole parameters are checked, because
 * a path of several parts may lead through a list whose elements differ.
 */
export function absentAndThere({ params = [] }: Fields): Issue | null {
  const absent = new Set(
    params.flatMap(({ param, operator, value }) =>
      operator === 'exists' && !value && !param.includes('.') ? [param] : [],
    ),
  )
  const at = params.findIndex((condition) => absent.has(condition.param) && needsValue(condition))
  const { param, operator } = params[at] ?? {}
  if (param === undefined) return null
  return {
    path: ['params', at],
    message: `\`${operator}\` needs a value in \`${param}\`, and another condition says that there is none (\`exists\` is false), so the rule would never match: take one of them out`,
  }
}
