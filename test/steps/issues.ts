import { checkDefinition } from '../../src/contract/definition-check.ts'
import { workflowDefinition } from '../../src/contract/definition.ts'
import { getTool } from '../../src/tools/index.ts'

const inputs = {
  day: { type: 'string' },
  seconds: { type: 'number' },
  list: { type: 'array' },
  csv: { type: 'string' },
}

/** Returns what is wrong with a workflow of these steps. Empty: nothing. */
export function issuesOfSteps(steps: readonly object[]): string[] {
  const read = workflowDefinition.safeParse({ inputs, steps })
  if (!read.success) return read.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)
  return checkDefinition(read.data, { get: getTool }).map(({ path, message }) => `${path}: ${message}`)
}
