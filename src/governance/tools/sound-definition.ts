import { getTool } from '../../tools/index.ts'
import { checkDefinition } from '../../contract/definition-check.ts'
import type { WorkflowDefinition } from '../../contract/definition.ts'
import { headline } from '../../policy/issues.ts'
import { DomainError } from '../errors.ts'

/** Throws `validation_error` for unknown tools, wrong references, cycles and the like. */
export function requireSound(definition: WorkflowDefinition): void {
  const issues = checkDefinition(definition, { get: getTool })
  if (issues.length === 0) return
  throw new DomainError(
    'validation_error',
    headline('the definition is not valid', issues),
    issues.map((issue) => ({ path: `definition.${issue.path}`, message: issue.message })),
  )
}
