import { readFileSync } from 'node:fs'
import { loadPolicy } from '@open-policy-agent/opa-wasm'
import type { Call } from '../../src/policy/decide.ts'
import type { Json } from '../../src/policy/types.ts'
import type { Answer, Oracle } from './agree.ts'
import { idOf, readingOf, ruleDomains, suffixes } from './texts.ts'

/** OPA, interpreting the rules as data (policy.rego). */
export async function opaOracle(): Promise<Oracle> {
  const policy = await loadPolicy(readFileSync(new URL('policy.wasm', import.meta.url)))
  const domains = Object.fromEntries(ruleDomains)
  return (one) => {
    const inRules = one.rules.flatMap(({ params = [] }) => params.flatMap(({ value }) => textsIn(value)))
    return (call) => {
      const readings: Record<string, unknown> = {}
      for (const text of inRules) readings[text] = { id: idOf(text) }
      for (const text of textsIn(call.params)) readings[text] = readingOf(text)
      const [answer] = policy.evaluate({
        rules: one.rules,
        approvals_enabled: one.approvalsEnabled,
        call: asked(call),
        readings,
        domains,
        suffixes,
      }) as { result: Answer }[]
      if (answer === undefined) throw new Error('OPA has no answer')
      const { matched, deciding, effect } = answer.result
      return { matched, deciding, effect }
    }
  }
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
