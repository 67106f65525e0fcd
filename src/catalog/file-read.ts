import { z } from 'zod'
import { defineTool } from './tool.ts'

/** Reads one text file below `FILE_ROOT` (contract section 9; the sandbox is in `activities/tools/sandbox.ts`). */
export const fileRead = defineTool({
  name: 'file_read',
  description: 'Reads a text, Markdown or CSV file from the shared folder.',
  sideEffect: 'read',
  // "Documents, sheets, files ...: internal" (specification, "Labels given by tools")
  outputLabels: ['internal'],
  params: z.strictObject({
    path: z
      .string()
      .min(1)
      .max(4096)
      .describe('Path below the shared folder, parts separated by `/`, e.g. `reports/q3-summary.md`.'),
  }),
  categories: [],
  risk: 'medium',
  constraints: ['max_response_size_kb'],
  repeat: 'free',
  connection: 'installation',
  timeoutSeconds: 30,
})
