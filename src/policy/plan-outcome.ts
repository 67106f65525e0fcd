import { BudgetExceeded } from './budget.ts'
import { type Conditions, type Subject, evaluate, isUnconditional } from './evaluate.ts'
import type { Case, Planned } from './plan-cases.ts'
import { type ToolFacts, withLinked } from './tool-facts.ts'
import { type Tri, maybe, no, yes } from './tri.ts'
import { Hole, type Partial } from './values.ts'

export interface PlannedCall {
  readonly occurs: Case['occurs']
  /** Tool policies check these. Rules check those of `subject`, with values from a link (`withLinked`). */
  readonly given: Partial
  readonly subject: Subject
}

/** A step without a tool makes no call. */
export interface Running {
  readonly runs: Tri
  readonly calls: readonly PlannedCall[]
}

/** All calls of a step have the same labels, so they share the results of label conditions. */
export function callsOf(
  facts: ToolFacts,
  { step, labels, origins, budget }: Planned,
  cases: readonly Case[],
): PlannedCall[] {
  const byLabels: Subject['byLabels'] = new Map()
  if (step.tool === null) return []
  const reading = facts.reading(step.tool, 'workflows')
  return cases.map(({ occurs, params }) => ({
    occurs,
    given: params,
    subject: {
      params: withLinked(reading, params),
      places: reading.places,
      defaults: reading.defaults,
      destination: step.destination === undefined ? new Hole(null) : step.destination,
      labels,
      origins,
      budget,
      byLabels,
      found: new Map(),
    },
  }))
}

/** The outcome for the call that the rule matches most certainly. */
export interface Outcome {
  readonly matches: Tri
  readonly occurs: Case['occurs']
  /** Null if the rule matches no call. */
  readonly subject: Subject | null
  /** The budget was used up before all calls were evaluated. */
  readonly isCut: boolean
}

export function isDefinite({ matches, occurs }: Pick<Outcome, 'matches' | 'occurs'>): boolean {
  return matches === yes && occurs === yes
}

/** Most rules match no call of a step, so this outcome is made only once. */
const unmatched: Outcome = { matches: no, occurs: maybe, subject: null, isCut: false }

/** Without conditions on parameters, evaluated once; without any condition, even if the budget is used up. */
export function outcomeOf(rule: Conditions, calls: readonly PlannedCall[]): Outcome {
  let best = unmatched
  const sameForAll = rule.params?.length === 0
  const certain = sameForAll ? calls.find((call) => call.occurs === yes) : undefined
  for (const { subject, occurs } of certain === undefined ? calls : [certain]) {
    const matches = matchesWithin(rule, subject)
    if (matches === null)
      return isDefinite(best) ? { ...best, isCut: true } : { matches: maybe, occurs, subject, isCut: true }
    if (matches !== no && !isDefinite(best)) best = { matches, occurs, subject, isCut: false }
    if (sameForAll) break
  }
  return best
}

/** Null once the budget is used up. Tested first, because an error would cost more than the evaluation. */
function matchesWithin(rule: Conditions, subject: Subject): Tri | null {
  if (subject.budget.isUsedUp && !isUnconditional(rule)) return null
  try {
    return evaluate(rule, subject)
  } catch (error) {
    if (!(error instanceof BudgetExceeded)) throw error
    return null
  }
}
