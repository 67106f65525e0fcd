import { readFileSync } from 'node:fs'
import { loadPolicy } from '@open-policy-agent/opa-wasm'
import type { Call } from '../../src/policy/decide.ts'
import type { Json } from '../../src/policy/types.ts'
import type { StoredLabelRule, StoredRule } from '../../src/policy/rule.ts'
import type { Label } from '../../src/policy/types.ts'
import type { Answer, Oracle } from './agree.ts'
import type { LabelOracle } from './label-suite.ts'
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
  return { ids, written, domains, suffixes }
}

function evaluate(policy: Policy, call: Call, known: Known): Answer & { readonly added: readonly Label[] } {
  const readings = Object.fromEntries(textsIn(call.params).map((text) => [text, known.readingOf(text)]))
  const [answer] = policy.evaluate({ call: asked(call), readings }) as {
    result: Answer & { added: Label[] }
  }[]
  if (answer === undefined) throw new Error('OPA has no answer')
  return answer.result
}

function asked({ sideEffect, paramLabels, ...call }: Call) {
  const origins = paramLabels && [...paramLabels].map(([path, labels]) => ({ path, labels }))
  return { ...call, side_effect: sideEffect, origins: origins ?? null }
}

function textsIn(value: Json): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null) return []
  return Object.values(value).flatMap(textsIn)
}
