import { ApplicationFailure } from '@temporalio/workflow'
import type { RunInput } from '../../contract/messages.ts'
import { governedRunV1 } from './v1.ts'

/** A released interpreter never changes, so that old runs can always be replayed. */
const interpreters: Readonly<Record<number, (input: RunInput) => Promise<void>>> = { 1: governedRunV1 }

/** A run has the same interpreter, selected by its input, for its whole life. */
export async function governedRun(input: RunInput): Promise<void> {
  const interpret = interpreters[input.interpreterVersion]
  if (interpret === undefined)
    throw ApplicationFailure.retryable(
      `interpreter version \`${input.interpreterVersion}\` is not in this worker`,
    )
  await interpret(input)
}
