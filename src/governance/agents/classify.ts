import { agentTool, withAnnotations, type AgentTool, type ToolAnnotations } from '../../policy/agent-tools.ts'
import type { JsonObject, Label, SideEffect } from '../../policy/types.ts'
import type { GovernanceSettings } from '../settings.ts'

/** What is known of an agent's call before its session is: the expensive part, done outside of the lock. */
export interface ReadCall {
  readonly tool: string
  readonly sideEffect: SideEffect
  readonly outputLabels: readonly Label[]
  /** It runs a program: egress once the session holds anything but web content. */
  readonly isScript: boolean
  readonly annotations: ToolAnnotations
}

/** Reads a call by its tool's name and arguments (specification, "Classification of agent tool calls"). */
export function readCall(tool: string, _input: JsonObject, annotations: ToolAnnotations): ReadCall {
  const known = agentTool(tool)
  const isScript = known?.code !== undefined
  return { tool, ...(known ?? unknown), isScript, annotations }
}

/** When unsure, a tool counts as write, never read. */
const unknown: AgentTool = { sideEffect: 'write', outputLabels: [] }

export interface Classified {
  readonly sideEffect: SideEffect
  readonly outputLabels: readonly Label[]
}

/** The call as it counts in a session of these labels, under these settings. */
export function classifyIn(
  call: ReadCall,
  labels: readonly Label[],
  settings: Pick<GovernanceSettings, 'external_tools'>,
): Classified {
  const said = Object.hasOwn(settings.external_tools, call.tool)
    ? settings.external_tools[call.tool]
    : undefined
  const sendsData = call.isScript && labels.some((label) => label !== 'untrusted')
  return withAnnotations(
    {
      sideEffect: said?.side_effect ?? (sendsData ? 'egress' : call.sideEffect),
      outputLabels: said?.output_labels ?? call.outputLabels,
    },
    call.annotations,
  )
}
