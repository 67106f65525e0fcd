import { getTool } from '../../src/catalog/index.ts'
import { Budget } from '../../src/policy/budget.ts'
import { compileLimits, type Excess, type Restrictions } from '../../src/policy/tool-limits.ts'
import type { Partial } from '../../src/policy/values.ts'

/* How tests of the limits in tool policies ask about one call. */

export const check = (tool: string, restrictions: Restrictions, params: Partial): Excess | null =>
  compileLimits(getTool(tool)?.constraints ?? {}, restrictions)(params, new Budget())

export const keeps = (tool: string, restrictions: Restrictions, params: Partial): boolean =>
  check(tool, restrictions, params) === null

export const app = { allowed_repos: ['acme/app'] }
