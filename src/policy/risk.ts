import type { Label, RiskLevel, SideEffect } from './types.ts'

const order: readonly RiskLevel[] = ['low', 'medium', 'high', 'critical']
/** Sent out, they make the risk critical. */
export const sensitive: readonly Label[] = ['confidential', 'pii']

/** In a workflow, or one agent call. */
export interface RiskyTool {
  /** Tools with the same name count as one reason. */
  readonly name?: string
  readonly sideEffect: SideEffect
  readonly risk: Exclude<RiskLevel, 'critical'>
  readonly labels: readonly Label[]
}

export interface Risk {
  readonly level: RiskLevel
  /** One line each, without repeats. Empty if the level is `low`. */
  readonly reasons: readonly string[]
}

export function isAtLeast(level: RiskLevel, threshold: RiskLevel): boolean {
  return order.indexOf(level) >= order.indexOf(threshold)
}

/** The highest risk; `critical` for two different reasons for `high`, or for sensitive labels that are sent out. */
export function assessRisk(tools: readonly RiskyTool[]): Risk {
  const high = new Set<string>()
  const medium = new Set<string>()
  const critical = new Set<string>()
  for (const tool of tools) {
    const what = tool.name === undefined ? '' : `\`${tool.name}\` `
    if (tool.risk === 'high') high.add(`${what}${highWords[tool.sideEffect]}`)
    if (tool.risk === 'medium') medium.add(`${what}${mediumWords[tool.sideEffect]}`)
    if (tool.sideEffect !== 'egress') continue
    for (const label of sensitive) {
      if (tool.labels.includes(label)) critical.add(`${what}${sendsOut(label)}`)
    }
  }
  const reasons = [...critical, ...high, ...medium]
  if (critical.size > 0 || high.size >= 2) return { level: 'critical', reasons }
  if (high.size > 0) return { level: 'high', reasons }
  return { level: medium.size > 0 ? 'medium' : 'low', reasons }
}

export const sendsOut = (label: Label): string => `sends ${label} data out`

const highWords: Record<SideEffect, string> = {
  read: 'reads highly sensitive data',
  write: 'makes a far-reaching change',
  egress: 'delivers content to people or places',
}

const mediumWords: Record<SideEffect, string> = {
  read: 'reads company data',
  write: 'creates or changes something',
  egress: 'posts content where others see it',
}
