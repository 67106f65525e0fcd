import { z } from 'zod'
import { byName, defineTool } from '../kit/tool.ts'

export const tools = byName(
  defineTool({
    name: 'file_read',
    description: 'Reads a text, Markdown or CSV file from the shared folder. A CSV also has its rows.',
    sideEffect: 'read',
    outputLabels: ['internal'],
    params: z.strictObject({
      path: z
        .string()
        .min(1)
        .max(4096)
        .describe('Path below the shared folder, parts separated by `/`, e.g. `reports/q3-summary.md`.'),
    }),
    output: z.strictObject({
      path: z.string().describe('The path as the call gave it.'),
      text: z.string(),
      media_type: z.string().describe('By the ending of the path, e.g. `text/csv`.'),
      size: z.int().min(0).describe('In bytes.'),
      rows: z
        .array(z.record(z.string(), z.string()))
        .optional()
        .describe(
          'Of a `.csv` or `.tsv` file: one object for each line after the first, which names the columns. Absent otherwise.',
        ),
      rows_problem: z.string().optional().describe('Why such a file has no `rows`.'),
    }),
    categories: [],
    risk: 'medium',
    constraints: { max_response_size_kb: {} },
    repeat: 'free',
    reversible: 'yes',
    connection: 'installation',
    timeoutSeconds: 30,
  }),
)
