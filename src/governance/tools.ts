import { z } from 'zod'
import type { ToolDeclaration } from '../catalog/tool.ts'
import type { Config } from '../config.ts'

/** What a caller sees of a tool (contract section 8). */
export function toolView(config: Config, tool: ToolDeclaration) {
  return {
    name: tool.name,
    description: tool.description,
    side_effect: tool.sideEffect,
    output_labels: tool.outputLabels,
    params: z.toJSONSchema(tool.params, { io: 'input', unrepresentable: 'any' }),
    constraints: tool.constraints,
    categories: tool.categories,
    // No tool of the catalogue keeps credentials of its own; those that need none are always connected.
    connected: !tool.needsConnection,
    needs_connection: tool.needsConnection,
    available: tool.name !== 'mail_send' || config.tools.smtpUrl !== null,
    risk: tool.risk,
  }
}
