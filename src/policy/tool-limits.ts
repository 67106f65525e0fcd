import { BudgetExceeded, Budget } from './budget.ts'
import { compileCondition, evaluate, type Subject } from './evaluate.ts'
import { peopleOf } from './me.ts'
import { yes } from './tri.ts'
import type { JsonObject } from './types.ts'

/** The limits a tool policy can set; a tool of the catalogue declares which of them it takes. */
export const limitNames = [
  'read_only',
  'allowed_domains',
  'max_message_length',
  'max_response_size_kb',
] as const
export type LimitName = (typeof limitNames)[number]

/** A policy's limits as saved. */
export interface Restrictions {
  /** The tool may read and nothing else. */
  readonly read_only?: boolean | undefined
  /** Every recipient must be in one of these domains, or below it. */
  readonly allowed_domains?: readonly string[] | undefined
  /** Most characters of a message: of its text, and of its HTML. */
  readonly max_message_length?: number | undefined
  /** Largest output, as JSON, in KiB. */
  readonly max_response_size_kb?: number | undefined
}

/** What is wrong with a call's resolved parameters under one policy's limits, as the end of a sentence; or null. */
export type LimitCheck = (params: JsonObject) => string | null

const messageParams = ['text', 'content', 'html']

/** A policy's limits on parameters, ready to be asked at every decision. What cannot be evaluated is outside of them. */
export function compileLimits(tool: string, restrictions: Restrictions): LimitCheck {
  const { allowed_domains: domains, max_message_length: longest } = restrictions
  const outside = domains === undefined ? [] : peopleIn(tool).map((param) => outsideOf(param, domains))
  return (params) => {
    for (const param of longest === undefined ? [] : messageParams) {
      const value = Object.hasOwn(params, param) ? params[param] : undefined
      if (typeof value === 'string' && value.length > (longest ?? 0))
        return `at most ${longest} characters as \`${param}\` (\`max_message_length\`), and this call has ${value.length}`
    }
    const subject: Subject = {
      params,
      labels: noLabels,
      origins: new Map(),
      budget: new Budget(),
      byLabels: new Map(),
      found: new Map(),
    }
    for (const { param, conditions } of outside) {
      if (isOutside(conditions, subject))
        return `only recipients in ${domains?.map((domain) => `\`${domain}\``).join(', ')} (\`allowed_domains\`), and \`${param}\` of this call has another`
    }
    return null
  }
}

const noLabels = { definite: new Set<string>(), possible: new Set<string>(), isOpen: false }

const peopleIn = (tool: string): readonly string[] =>
  Object.hasOwn(peopleOf, tool) ? peopleOf[tool as keyof typeof peopleOf] : []

/** As a rule would say it: the parameter is there, and one of its recipients is in none of the domains. */
function outsideOf(param: string, domains: readonly string[]) {
  const params = [
    compileCondition({ param, operator: 'exists', value: true }, true),
    compileCondition({ param, operator: 'domain_not_in', value: [...domains] }, true),
  ]
  return { param, conditions: { labels: undefined, params, isRestrictive: true } }
}

function isOutside(conditions: ReturnType<typeof outsideOf>['conditions'], subject: Subject): boolean {
  try {
    return evaluate(conditions, subject) === yes
  } catch (error) {
    if (error instanceof BudgetExceeded) return true
    throw error
  }
}
