import { z } from 'zod'
import type { ToolDeclaration } from '../catalog/tool.ts'
import { toolStanding, type Installation } from './connections.ts'

/** What a caller sees of a tool in their organization, which has these tools of the installation. */
export function toolView(
  installation: Installation,
  connections: ReadonlySet<string>,
  tool: ToolDeclaration,
) {
  const { connected, unavailable } = toolStanding(installation, connections, tool)
  return {
    name: tool.name,
    description: tool.description,
    side_effect: tool.sideEffect,
    output_labels: tool.outputLabels,
    params: z.toJSONSchema(tool.params, { io: 'input', unrepresentable: 'any' }),
    constraints: tool.constraints,
    categories: tool.categories,
    connected,
    needs_connection: tool.connection !== 'none',
    available: unavailable === null,
    unavailable_because: unavailable,
    risk: tool.risk,
  }
}
