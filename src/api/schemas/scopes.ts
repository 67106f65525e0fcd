import { z } from 'zod'
import { isScope } from '../../governance/scopes.ts'

const scopeName = z
  .string()
  .max(100)
  .refine(isScope, {
    error: (issue) => `there is no scope \`${String(issue.input)}\`: GET /scopes lists them`,
  })

/** Scopes as a map of name to boolean or as a list of names (specification, "Authentication" 3); read as a list. */
export const scopesInput = z.union([
  z.array(scopeName).max(100),
  z.record(scopeName, z.boolean()).transform((map) => Object.keys(map).filter((name) => map[name] === true)),
])

/** The form in which scopes are answered. */
export function scopesAsMap(scopes: readonly string[]): Record<string, boolean> {
  return Object.fromEntries([...scopes].sort().map((scope) => [scope, true]))
}
