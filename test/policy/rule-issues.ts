import type { z } from 'zod'
import { ruleInput } from '../../src/policy/rule.ts'

/* The issues that the schema of rules finds in a body. */

export const base = { name: 'no outside mail', verdict: 'deny', side_effects: ['egress'] }

/** `path: message` of every issue. */
export function issues(body: unknown, schema: z.ZodType = ruleInput): string[] {
  const parsed = schema.safeParse(body)
  return parsed.success ? [] : parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)
}
