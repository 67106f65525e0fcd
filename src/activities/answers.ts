import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { failureTypes, type HeldDetails, type StepDone } from '../contract/messages.ts'
import type { StepVerdict } from '../governance/runs/effect.ts'

/** What the workflow is told of a call that did not run now. */
export function answer(verdict: Extract<StepVerdict, { go: false }>): StepDone {
  if (verdict.state === 'completed' || verdict.state === 'skipped') return { outcome: verdict.state }
  if (verdict.state === 'held') {
    const { waitsFor, approvalId, expiresAt } = verdict
    const details: HeldDetails = { waitsFor, approvalId, expiresAt }
    throw benign(
      `waits for ${waitsFor === 'slot' ? 'a slot' : 'approval'}`,
      failureTypes.approvalRequired,
      details,
    )
  }
  if (verdict.state === 'unknown_outcome')
    throw benign('waits for a person to resolve it', failureTypes.unknownOutcome, {})
  throw benign(verdict.state, failureTypes.ended, { outcome: verdict.state })
}

function benign(message: string, type: string, details: object): ApplicationFailure {
  return ApplicationFailure.create({
    message,
    type,
    nonRetryable: true,
    details: [details],
    category: ApplicationFailureCategory.BENIGN,
  })
}
