import type { Budget } from './budget.ts'
import { type CompiledCondition, type Subject, evaluateEach } from './evaluate.ts'
import type { LabelSets } from './label-sets.ts'
import { describeCondition, describeLabels, describeScope, joinClauses, labelConditions } from './explain.ts'
import { list, quote } from './text.ts'
import { overlaps } from './operators/from_label.ts'
import { inRules } from './operators/index.ts'
import { listOf } from './operators/operator.ts'
import type { PlannedRule, StepAnalysis } from './plan.ts'
import { type Planned, fillIn } from './plan-cases.ts'
import { inputSource, type TextBudget } from './templates.ts'
import { maybe } from './tri.ts'
import type { Label } from './types.ts'
import { Hole, type Partial, find } from './values.ts'
import { whenParts } from './when.ts'

/* Each condition becomes one clause, which names the unknown value that decides whether it is true. */

/** `textBudget` limits the texts that are filled in. */
export interface ExplainingBudget {
  readonly budget: Budget
  readonly textBudget: TextBudget
}

/** Maximum number of values or sources that one clause names. */
const mostNames = 3

/**
 * Example: "`to` is outside `acme.com` if `input.to` is". The budgets are not those of the analysis, so no
 * verdict changes. Once `budget` is used up, an explanation states only the conditions of its rule.
 */
export function explainMatches(
  step: StepAnalysis,
  rules: readonly PlannedRule[],
  { budget, textBudget }: ExplainingBudget,
): string[] {
  let runs: string | null = null
  return rules.map((rule) => {
    const suffix =
      rule.outcome.occurs === maybe ? (runs ??= whetherItRuns({ ...step.planned, textBudget })) : ''
    return explainMatch(step.planned, rule, budget) + suffix
  })
}

function explainMatch(planned: Planned, rule: PlannedRule, budget: Budget): string {
  const { outcome, rule: compiled } = rule
  if (outcome.isCut || outcome.subject === null)
    return `${compiled.because}, if a value matches that there was no time to compare`
  try {
    return joinClauses(clausesOf(planned, rule, outcome.subject, budget))
  } catch {
    // The budget is used up, or the rule cannot be read. So only the rule's conditions are stated.
    const open = outcome.matches === maybe ? ', if a value matches that is only known during the run' : ''
    return `${compiled.because}${open}`
  }
}

function clausesOf(planned: Planned, { rule }: PlannedRule, subject: Subject, budget: Budget): string[] {
  const { described } = rule
  const own: Subject = { ...subject, budget, byLabels: new Map(), found: new Map() }
  const each = evaluateEach(rule, own)
  return [
    ...describeScope(described),
    ...labelConditions.flatMap((which) => {
      const clause = describeLabels(described, which)
      if (clause === null) return []
      if (each.labels[which] !== maybe) return [clause]
      return [clause + deciding(labelDeciders(planned, new Set(described.labels?.[which])), 'is', which)]
    }),
    // These clauses stand in the order of evaluation, which puts the cheap conditions first.
    ...(rule.params ?? []).map((condition, index) =>
      each.params[index] === maybe
        ? describeCondition(condition.source) + openPart(planned, condition, own)
        : describeCondition(condition.source),
    ),
  ]
}

/** Names the unknown value that decides whether the condition is true. Example: "if `input.to` is". */
function openPart(planned: Planned, { source, path }: CompiledCondition, { params }: Subject): string {
  const { reads, verb } = inRules(source.operator)
  if (reads === 'sources') {
    const wanted = new Set(listOf(source.value).map(String))
    const ids = [...planned.paramSources].flatMap(([built, sources]) =>
      overlaps(path, built === '' ? [] : built.split('.')) ? sources : [],
    )
    return deciding(namesOf(planned, [...new Set(ids)], wanted), verb, 'any_of')
  }
  const { leaves, holes, mayBeMissing } = find(params, path)
  const names = unknownNames(holes)
  const [only] = holes
  // The clause ends with "if `input.to` is" if it compares exactly one whole unknown value, and otherwise
  // with "if `input.to` makes it so".
  const isWhole = holes.length === 1 && leaves.length === 0 && only?.isWhole === true && !mayBeMissing
  return isWhole ? deciding(names, verb, 'any_of') : deciding(names, 'makes it so', 'any_of')
}

function deciding(names: readonly string[], verb: string, which: (typeof labelConditions)[number]): string {
  const word = which === 'none_of' ? 'unless' : 'if'
  if (names.length === 0) return ` ${word} a value that is only known during the run ${verb}`
  return ` ${word} ${list(names, 'or', mostNames)} ${verb}`
}

const unknownNames = (holes: readonly Hole[]): string[] => [
  ...new Set(holes.flatMap(({ from }) => from.map(quote))),
]

const labelDeciders = (planned: Planned, wanted: ReadonlySet<Label>): string[] =>
  namesOf(planned, planned.sources, wanted)

/** Returns the names of the sources that possibly, but not certainly, bring one of the `wanted` labels. */
function namesOf({ outputs }: Planned, sources: readonly string[], wanted: ReadonlySet<Label>): string[] {
  const decides = (id: string): boolean => {
    const labels: LabelSets | undefined = outputs.get(id)
    if (labels === undefined || labels.isOpen) return true
    return [...wanted].some((label) => labels.possible.has(label) && !labels.definite.has(label))
  }
  return [...new Set(sources)].filter(decides).map(nameOfSource)
}

const nameOfSource = (id: string): string =>
  id.startsWith(inputSource('')) ? quote(id) : `the output of ${quote(id)}`

function whetherItRuns({ step, plan, skipped, computed, textBudget, expressions }: Planned): string {
  const scope = { ...plan, skipped, computed, textBudget, expressions }
  const unknown = (...values: readonly Partial[]): string => {
    const names = unknownNames(values.flatMap(holesIn))
    return names.length === 0 ? 'a value that is only known during the run' : list(names, 'and', mostNames)
  }
  const reasons: string[] = []
  if (step.forEach !== undefined) {
    const items = fillIn(step.forEach, scope)
    if (!Array.isArray(items)) reasons.push(`its items are those of ${unknown(items)}`)
  }
  if (step.when !== undefined) {
    const sides = whenParts(step.when).map((side) => fillIn(side, { ...scope, missing: 'null' }))
    if (sides.some((side) => holesIn(side).length > 0))
      reasons.push(`its \`when\` depends on ${unknown(...sides)}`)
  }
  return `, if the step runs at all${reasons.length === 0 ? '' : `: ${reasons.join(' and ')}`}`
}

function holesIn(value: Partial): Hole[] {
  if (value instanceof Hole) return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(holesIn) : []
}

/** For example a step that reads the memory or uses its output, and an input that is not known yet. */
export function openSources({ planned: { sources, outputs } }: StepAnalysis): string[] {
  return [...new Set(sources)].filter((id) => outputs.get(id)?.isOpen ?? true)
}

/** They decide whether the step's inputs may have this label when the run starts. */
export const namesOfDeciders = ({ planned }: StepAnalysis, label: Label): string =>
  list(planned.atStart.deciders(planned, label).map(nameOfSource), 'or', mostNames)
