import { z } from 'zod'
import { getTool } from '../../src/catalog/index.ts'
import { type ToolDeclaration, anyJson, defineTool } from '../../src/catalog/tool.ts'
import { checkDefinition } from '../../src/contract/definition-check.ts'
import { workflowDefinition } from '../../src/contract/definition.ts'

/* A tool whose output has a known form, and the errors of a step that refers to it. */

const common = {
  description: '',
  categories: [],
  constraints: {},
  connection: 'none',
  timeoutSeconds: 10,
  sideEffect: 'read',
  outputLabels: [],
  risk: 'low',
  repeat: 'free',
  reversible: 'yes',
  hasExecutor: true,
} as const

export const list = defineTool({
  ...common,
  name: 'list',
  params: z.strictObject({
    repo: z.string().optional(),
    state: z.enum(['open', 'closed']).optional(),
    most: z.int().min(5).optional(),
    labels: z.union([z.string().min(1), z.array(z.string()).min(1).max(2)]).optional(),
    filter: z.strictObject({ author: z.string().max(10), draft: z.boolean().optional() }).optional(),
    any: anyJson.optional(),
  }),
  output: z.strictObject({
    total: z.int(),
    next: z.string().nullable(),
    issues: z.array(
      z.strictObject({ number: z.int(), title: z.string(), labels: z.array(z.string()), more: anyJson }),
    ),
    either: z.union([z.string(), z.strictObject({ id: z.string() })]),
    names: z.record(z.string(), z.boolean()),
    loose: z.looseObject({ known: z.strictObject({ a: z.string() }) }),
  }),
})

export const catalog = {
  get: (name: string): ToolDeclaration | undefined => (name === 'list' ? list : getTool(name)),
}

export const inputs = {
  text: { type: 'string' },
  count: { type: 'number' },
  on: { type: 'boolean' },
  rows: { type: 'array' },
  object: { type: 'object' },
} as const

/** `path: message` of every issue of a step `b` after a step `a` that calls `list`. */
export function check(step: object, first: object = {}): string[] {
  const steps = [
    { id: 'a', tool: 'list', ...first },
    { id: 'b', tool: 'list', ...step },
  ]
  return checkDefinition(workflowDefinition.parse({ inputs, steps }), catalog).map(
    (issue) => `${issue.path}: ${issue.message}`,
  )
}
