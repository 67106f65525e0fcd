import type { AgentEffects } from '../../policy/example-calls.ts'
import { agentTool } from '../../policy/agent-tools.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'
import type { Json, SideEffect } from '../../policy/types.ts'
import { classifyIn, readCall, type ReadCall } from '../../calls/agents/classify.ts'

/** Reading a command takes long, so the results for this many calls are kept. */
const mostKept = 1_000
const byStrictness: readonly SideEffect[] = ['read', 'write', 'egress']

/**
 * Returns a function that says which side effects a call of an agent can have under these settings. It classifies a
 * call like the call of a real agent. The gateway also sends the annotations of a protocol tool. They can make the side
 * effect of this tool stricter.
 */
export function agentEffects(settings: Pick<GovernanceSettings, 'external_tools'>): AgentEffects {
  const kept = new Map<string, ReadCall>()
  return (tool, params, labels) => {
    const key = agentTool(tool)?.code === undefined ? tool : JSON.stringify([tool, partsThatCount(params)])
    const read = kept.get(key) ?? readCall(tool, partsThatCount(params), {})
    if (kept.size >= mostKept) kept.clear()
    kept.set(key, read)
    const { sideEffect } = classifyIn(read, labels, settings)
    return tool.startsWith('mcp__') ? byStrictness.slice(byStrictness.indexOf(sideEffect)) : [sideEffect]
  }
}

/** Only these parameters change the side effect of a call. */
function partsThatCount(params: Readonly<Record<string, Json>>): Record<string, Json> {
  const names = ['command', 'cmd', 'ws']
  return Object.fromEntries(Object.entries(params).filter(([name]) => names.includes(name)))
}
