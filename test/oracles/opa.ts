import { readFileSync } from 'node:fs'
import { loadPolicy } from '@open-policy-agent/opa-wasm'
import type { Call } from '../../src/policy/decide.ts'
import type { Json, JsonObject } from '../../src/policy/types.ts'
import type { StoredLabelRule, StoredRule } from '../../src/policy/rule.ts'
import type { Label } from '../../src/policy/types.ts'
import type { Answer, Oracle } from './agree.ts'
import type { LabelOracle } from './label-suite.ts'
import { kindOf, kinds, placeReading, readParams, wantedPlace } from './places.ts'
import { idOf, type Reading, readingOf, ruleDomains, suffixes, writtenAddress } from './texts.ts'

/** The known readings of texts and domains, for rules and calls that are not in texts.ts. */
export interface Known {
  readonly readingOf: (text: string) => Reading
  /** The normal form of each domain, by its spelling in rules. */
  readonly domains: Readonly<Record<string, string>>
}

/** OPA, which interprets the rules as data (policy.rego). */
export async function opaOracle(
  known: Known = { readingOf, domains: Object.fromEntries(ruleDomains) },
): Promise<Oracle> {
  const policy = await load()
  return ({ rules, approvalsEnabled }) => {
    policy.setData({ policy: { rules, approvals_enabled: approvalsEnabled, ...knownOf(rules, known) } })
    return (call) => {
      const { matched, deciding, effect } = evaluate(policy, call, known)
      return { matched, deciding, effect }
    }
  }
}

/** OPA for label rules. */
export async function opaLabelOracle(): Promise<LabelOracle> {
  const policy = await load()
  const known = { readingOf, domains: Object.fromEntries(ruleDomains) }
  return ({ rules }) => {
    policy.setData({
      policy: { rules: [], approvals_enabled: false, label_rules: rules, ...knownOf(rules, known) },
    })
    return (call) => evaluate(policy, call, known).added.toSorted()
  }
}

type Policy = Awaited<ReturnType<typeof loadPolicy>>

const load = () => loadPolicy(readFileSync(new URL('policy.wasm', import.meta.url)))

/** The readings that people wrote for the texts in rules. */
function knownOf(rules: readonly (StoredRule | StoredLabelRule)[], { domains }: Known) {
  const texts = rules.flatMap(({ params = [] }) => params.flatMap(({ value }) => textsIn(value)))
  const ids = Object.fromEntries(texts.map((text) => [text, idOf(text)]))
  const written = Object.fromEntries(texts.map((text) => [text, writtenAddress(text)]))
  const places = Object.fromEntries(
    kinds.map((kind) => [kind, Object.fromEntries(texts.map((text) => [text, wantedPlace(kind, text)]))]),
  )
  return { ids, written, domains, suffixes, places }
}

function evaluate(policy: Policy, call: Call, known: Known): Answer & { readonly added: readonly Label[] } {
  const { readings, params } = readingsOf(call, known)
  const [answer] = policy.evaluate({ call: asked({ ...call, params }), readings }) as {
    result: Answer & { added: Label[] }
  }[]
  if (answer === undefined) throw new Error('OPA has no answer')
  return answer.result
}

/**
 * The readings of all texts of a call. A text that names a place gets a mark, because the same text in another
 * parameter names none.
 */
function readingsOf(call: Call, known: Known) {
  const readings: Record<string, object> = Object.fromEntries(
    textsIn(call.params).map((text) => [text, known.readingOf(text)]),
  )
  const params = Object.entries(readParams(call)).map(([param, value]) => {
    const kind = kindOf(call, param)
    if (kind === null) return [param, value]
    const marked = eachText(value, (text) => {
      const mark = `${text}\u0000${param}`
      readings[mark] = { ...known.readingOf(text), text, place: placeReading(kind, text) }
      return mark
    })
    return [param, marked]
  })
  return { readings, params: Object.fromEntries(params) as JsonObject }
}

function asked({ sideEffect, paramLabels, ...call }: Call) {
  const origins = paramLabels && [...paramLabels].map(([path, labels]) => ({ path, labels }))
  return { ...call, side_effect: sideEffect, origins: origins ?? null }
}

function eachText(value: Json, change: (text: string) => string): Json {
  if (typeof value === 'string') return change(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return (value as readonly Json[]).map((each) => eachText(each, change))
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, eachText(each, change)]))
}

function textsIn(value: Json): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null) return []
  return Object.values(value).flatMap(textsIn)
}
