import { z } from 'zod'
import { type ToolDeclaration, defineTool } from '../../src/catalog/tool.ts'
import { checkDefinition } from '../../src/contract/definition-check.ts'
import { type WorkflowDefinition, workflowDefinition } from '../../src/contract/definition.ts'

/* Two tools, and the errors of definitions that use them. */

const common = {
  description: '',
  categories: [],
  constraints: {},
  reversible: 'yes',
  connection: 'none',
  hasExecutor: true,
  timeoutSeconds: 10,
} as const

export const mail = defineTool({
  ...common,
  name: 'mail',
  output: z.strictObject({ id: z.string() }),
  sideEffect: 'egress',
  outputLabels: [],
  risk: 'high',
  repeat: 'unsafe',
  params: z.strictObject({
    to: z.string(),
    subject: z.string().optional(),
    copies: z.number().default(1),
    extra: z.strictObject({ tags: z.array(z.string()) }).optional(),
  }),
})

export const read = defineTool({
  ...common,
  name: 'read',
  sideEffect: 'read',
  outputLabels: ['internal'],
  risk: 'medium',
  repeat: 'free',
  params: z.strictObject({ path: z.string().optional() }),
  output: z.looseObject({}),
})

export const tools: Record<string, ToolDeclaration> = { mail, read }

export const catalog = { get: (name: string) => (Object.hasOwn(tools, name) ? tools[name] : undefined) }

export type Step = Record<string, unknown> & { id: string }

export function parse(steps: Step[], more: object = {}): WorkflowDefinition {
  const complete = steps.map((step) => ({ tool: 'read', ...step }))
  return workflowDefinition.parse({ steps: complete, ...more })
}

/** `path: message` of every issue. */
export function check(steps: Step[], more: object = {}): string[] {
  return checkDefinition(parse(steps, more), catalog).map((issue) => `${issue.path}: ${issue.message}`)
}
