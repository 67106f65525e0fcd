import { z } from 'zod'
import { whenOperators } from '../policy/operators/index.ts'
import { categorySlug, nameField, textField } from '../policy/text.ts'
import type { Json, JsonObject } from '../policy/types.ts'
import { isObject, jsonIssues } from './json.ts'

/** Maximum number of steps in a workflow. */
export const mostSteps = 1000
/** Maximum number of items of one `for_each`. */
export const mostItems = 10_000
/** The largest `timeout_seconds` of a step. */
export const mostTimeoutSeconds = 86_400

/**
 * Accepts any JSON and does not change it. zod's own object schemas would silently drop a `__proto__` key instead of
 * refusing the key.
 */
const json = z.unknown().superRefine((value, context) => report(value, context))

const jsonObject = json
  .superRefine((value, context) => {
    if (!isObject(value)) context.addIssue({ code: 'custom', message: 'must be an object' })
  })
  .transform((value) => value as JsonObject)
  .meta({ type: 'object', additionalProperties: {} })

const jsonValue = json.transform((value) => value as Json)

function report(value: unknown, context: z.RefinementCtx): void {
  if (value === undefined) context.addIssue({ code: 'custom', message: 'is missing' })
  else {
    for (const issue of jsonIssues(value)) {
      context.addIssue({
        code: 'custom',
        message: issue.message,
        path: issue.path === '' ? [] : [issue.path],
      })
    }
  }
}

const inputType = z.enum(['string', 'number', 'boolean', 'array', 'object'])

const inputDeclaration = z.strictObject({
  type: inputType,
  required: z.boolean().optional(),
  default: jsonValue.optional(),
  description: textField(2000, 0).optional(),
})

const step = z.strictObject({
  id: textField(100),
  tool: textField(200),
  params: jsonObject.default({}),
  depends_on: z.array(textField(100)).max(mostSteps).optional(),
  /** `value` and `compare` may have templates. With the operator `exists`, a missing `compare` means true. */
  when: z
    .strictObject({ value: jsonValue, operator: z.enum(whenOperators), compare: jsonValue.optional() })
    .optional(),
  /** A list of at most `mostItems` items, or a template that resolves to such a list. */
  for_each: z
    .union([
      textField(10_000),
      jsonValue
        .refine((value) => Array.isArray(value), 'must be a template or a list')
        .meta({ type: 'array', items: {}, maxItems: mostItems }),
    ])
    .optional(),
  /** `attempts` is the number of all attempts, including the first attempt. */
  retry: z
    .strictObject({ attempts: z.int().min(1).max(20), backoff_seconds: z.number().min(0).max(3600) })
    .optional(),
  timeout_seconds: z.number().min(1).max(mostTimeoutSeconds).optional(),
  on_error: z
    .enum(['fail', 'continue'])
    .optional()
    .meta({
      description:
        '`continue`: the run continues when the step, or an item of it, fails, is denied, rejected or expires; its output is ' +
        'null, and so is every path into it, as for a step or an item that `when` skips',
    }),
  summary: textField(500, 0).optional(),
})

/** Shape of a workflow definition. `checkDefinition` checks references, tools and the graph. */
export const workflowDefinition = z.strictObject({
  inputs: z.record(textField(100), inputDeclaration).optional(),
  steps: z
    .array(step)
    .min(1, 'a workflow has at least one step')
    .max(mostSteps, `a workflow has at most ${mostSteps.toLocaleString('en-US')} steps`),
  result: z.record(nameField(100), jsonValue).optional(),
  categories: z.array(categorySlug).max(20).optional(),
})

export type WorkflowDefinition = z.infer<typeof workflowDefinition>
export type WorkflowStep = WorkflowDefinition['steps'][number]
export type InputDeclaration = z.infer<typeof inputDeclaration>
export type InputType = InputDeclaration['type']
