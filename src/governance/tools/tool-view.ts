import { z } from 'zod'
import type { OwnService, ToolDeclaration } from '../../tools/kit/tool.ts'
import type { Connected } from '../audit/connected.ts'
import { toolDestination, toolStanding, type Installation } from './connections.ts'

/**
 * Returns a tool as the API shows it to this person. `connections` contains the connections of the person and of the
 * organization.
 */
export function toolView(
  installation: Installation,
  connections: Connected,
  tool: ToolDeclaration,
  userId: string,
) {
  const { connected, unavailable } = toolStanding(installation, connections, tool, userId)
  return {
    name: tool.name,
    description: tool.description,
    side_effect: tool.sideEffect,
    output_labels: tool.outputLabels,
    params: z.toJSONSchema(tool.params, { io: 'input', unrepresentable: 'any' }),
    output: z.toJSONSchema(tool.output, { unrepresentable: 'any' }),
    constraints: Object.keys(tool.constraints),
    categories: tool.categories,
    connected,
    destination: toolDestination(installation, connections, tool, userId)?.destination ?? null,
    needs_connection: tool.connection !== 'none',
    available: unavailable === null,
    unavailable_because: unavailable,
    risk: tool.risk,
    reversible: tool.reversible,
    repeat: tool.repeat,
    own_service: tool.ownService === undefined ? null : ownServiceView(tool.ownService),
    precondition: tool.precondition ?? null,
    timeout_seconds: tool.timeoutSeconds,
  }
}

/**
 * Describes the service that people may connect in place of the installation's service. Each call to this service has
 * an idempotency key.
 */
const ownServiceView = ({ integration, knowsKeySeconds }: OwnService) => ({
  integration,
  repeat: 'keyed' as const,
  knows_key_seconds: knowsKeySeconds,
})
