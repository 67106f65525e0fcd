import type { z } from 'zod'
import type { catalog, ToolName } from '../../catalog/index.ts'

/** What a tool's body is handed: its own parameters, as its schema leaves them. */
export type ToolParams<Name extends ToolName> = z.output<(typeof catalog)[Name]['params']>
