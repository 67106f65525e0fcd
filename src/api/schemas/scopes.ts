import { z } from 'zod'
import { isScope } from '../../governance/access/scopes.ts'

const scopeName = z
  .string()
  .max(100)
  .refine(isScope, {
    error: (issue) => `\`${String(issue.input)}\` is not a scope: GET /scopes lists them`,
  })

/** Scopes as a map from name to boolean, or as a list of names. A map is converted to a list. */
export const scopesInput = z.union([
  z.array(scopeName).max(100),
  z.record(scopeName, z.boolean()).transform((map) => Object.keys(map).filter((name) => map[name] === true)),
])

/** Returns the scopes as answers show them: a map from each name to true. */
export function scopesAsMap(scopes: readonly string[]): Record<string, boolean> {
  return Object.fromEntries([...scopes].sort().map((scope) => [scope, true]))
}
