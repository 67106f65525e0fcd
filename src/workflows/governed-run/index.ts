import { ApplicationFailure } from '@temporalio/workflow'
import type { RunInput } from '../../contract/messages.ts'
import { governedRunV1 } from './v1.ts'

/** Each released interpreter stays as it is, so that old runs replay for ever. */
const interpreters: Readonly<Record<number, (input: RunInput) => Promise<void>>> = { 1: governedRunV1 }

/** A run. Its input selects the interpreter it was started with. */
export async function governedRun(input: RunInput): Promise<void> {
  const interpret = interpreters[input.interpreterVersion]
  if (interpret === undefined)
    throw ApplicationFailure.retryable(
      `interpreter version \`${input.interpreterVersion}\` is not in this worker`,
    )
  await interpret(input)
}
